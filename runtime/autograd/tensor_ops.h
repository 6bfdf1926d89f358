// The arithmetic that autograd itself needs, by the kernels of a registry.
#ifndef COTAN_RUNTIME_AUTOGRAD_TENSOR_OPS_H_
#define COTAN_RUNTIME_AUTOGRAD_TENSOR_OPS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "kernels/api/device.h"
#include "kernels/api/kernel.h"
#include "kernels/api/registry.h"
#include "runtime/tensor.h"

namespace cotan {

// Keeps the kernels it has prepared, by dtypes and layouts; a repeated call
// looks one up and runs it. Not thread-safe. Registry and device outlive it.
// All tensors are on the device. Errors of all methods: NotFound, Unimplemented:
// no kernel for these dtypes; ResourceExhausted, Internal: of the device.
class TensorOps {
 public:
  TensorOps(const KernelRegistry& kernels, Device& device, int threads = 1)
      : kernels_(kernels), device_(device), threads_(threads) {}

  Device& device() const { return device_; }

  // A new dense tensor of zeros; ones.
  absl::StatusOr<Tensor> Zeros(DType dtype, absl::Span<const int64_t> sizes);
  absl::StatusOr<Tensor> Ones(DType dtype, absl::Span<const int64_t> sizes);
  // All elements become `value`.
  absl::Status Fill(const Tensor& tensor, double value);

  // The elements of `from`, cast and broadcast, to `to`. From complex to real:
  // the real part. The ranges are equal or do not overlap.
  // InvalidArgument: sizes that do not broadcast.
  absl::Status Copy(const Tensor& from, const Tensor& to);
  // A dense row-major copy.
  absl::StatusOr<Tensor> Clone(const Tensor& tensor);
  // Itself if it has the dtype already.
  absl::StatusOr<Tensor> Cast(const Tensor& tensor, DType dtype);

  // Equal dtypes and sizes. AddTo: `to` += `value`.
  absl::StatusOr<Tensor> Add(const Tensor& a, const Tensor& b);
  absl::Status AddTo(const Tensor& value, const Tensor& to);

  // Sums over dimensions that broadcasting from `sizes` added or stretched.
  // InvalidArgument: `sizes` do not broadcast to the tensor's.
  absl::StatusOr<Tensor> SumTo(const Tensor& tensor, absl::Span<const int64_t> sizes);

  int num_prepared() const { return static_cast<int>(prepared_.size()); }

 private:
  struct Key;
  const KernelRegistry& kernels_;
  Device& device_;
  int threads_;
  absl::flat_hash_map<std::string, std::unique_ptr<Kernel>> prepared_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_AUTOGRAD_TENSOR_OPS_H_
