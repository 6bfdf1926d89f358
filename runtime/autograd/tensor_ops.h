// SPDX-License-Identifier: Apache-2.0

// TensorOps: the arithmetic of the autograd engine and its nodes, run by the kernels of a registry.
#ifndef COTAN_RUNTIME_AUTOGRAD_TENSOR_OPS_H_
#define COTAN_RUNTIME_AUTOGRAD_TENSOR_OPS_H_

#include <array>
#include <cstdint>
#include <memory>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "kernels/api/device.h"
#include "kernels/api/kernel.h"
#include "kernels/api/registry.h"
#include "runtime/tensor/tensor.h"
#include "serialization/metadata/view_step.h"

namespace cotan {

// Eager tensor operations. Caches prepared kernels by dtypes and layouts. Not thread-safe. Registry and device must
// outlive the object. All tensors must be defined and on the device. Errors of all methods: NotFound, Unimplemented:
// there is no kernel for the dtypes; ResourceExhausted, Internal: from the device.
class TensorOps {
 public:
  // `flush_denormals`: SessionOptions::flush_denormals (runtime/session/session.h).
  explicit TensorOps(const KernelRegistry& kernels, Device& device = HostDevice(), int threads = 1,
                     bool flush_denormals = false)
      : kernels_(kernels), device_(device), threads_(threads), flush_denormals_(flush_denormals) {}

  Device& device() const { return device_; }
  const KernelRegistry& kernels() const { return kernels_; }
  int threads() const { return threads_; }

  // Return a new row-major tensor of zeros, of ones.
  absl::StatusOr<Tensor> Zeros(DType dtype, absl::Span<const int64_t> sizes);
  absl::StatusOr<Tensor> Ones(DType dtype, absl::Span<const int64_t> sizes);
  // Sets all elements to `value`.
  absl::Status Fill(double value, const Tensor& tensor);

  // Copies the elements of `from`, cast and broadcast, to `to`; from complex to real: the real part. The elements of
  // `to` must not overlap each other; the memory of both must be equal element by element, or disjoint.
  // One of both may be on the host while the operations are those of a GPU.
  // InvalidArgument: the sizes of `from` do not broadcast to those of `to`, or `to` is on another device and has
  // another dtype.
  absl::Status Copy(const Tensor& from, const Tensor& to);
  // Returns a row-major copy.
  absl::StatusOr<Tensor> Clone(const Tensor& tensor);
  // Returns `tensor` if it has the dtype already, else a row-major copy with that dtype.
  absl::StatusOr<Tensor> Cast(const Tensor& tensor, DType dtype);

  // Returns a + b, on the device. The dtypes and sizes must be equal; not for bool.
  absl::StatusOr<Tensor> Add(const Tensor& a, const Tensor& b);
  // Computes `to` += `value` in place; a location shared by several elements of `to` gets the sum of their values. The
  // dtypes and sizes must be equal; not for bool. If the operations are those of a GPU, both may be on the host; the
  // sum is then made on the device and waited for.
  absl::Status AddTo(const Tensor& value, const Tensor& to);
  // Computes `to` /= `value` in place, if both are complex by the real part of `value`. The dtypes and sizes must be
  // equal.
  absl::Status DivideBy(const Tensor& value, const Tensor& to);

  // Returns the sum over the dimensions that broadcasting from `sizes` to the tensor's sizes adds or expands
  // (at::sum_to); `tensor` if there are none. InvalidArgument: `sizes` do not broadcast to the tensor's.
  absl::StatusOr<Tensor> SumTo(const Tensor& tensor, absl::Span<const int64_t> sizes);

  // Returns the number of cached kernels. The cache is emptied when it would exceed kMaxPrepared.
  int num_prepared() const { return static_cast<int>(prepared_.size()); }
  static constexpr int kMaxPrepared = 256;

 private:
  enum class Kind : uint8_t { kFill, kCopy, kCast, kAdd, kDivide, kSum };
  struct Key {
    Kind kind = Kind::kFill;
    double value = 0;               // the value of kFill
    std::array<DType, 3> dtypes{};  // of the inputs, then of the output
    std::array<StridedLayout, 3> layouts{};
    friend bool operator==(const Key&, const Key&) = default;
    template <typename H>
    friend H AbslHashValue(H h, const Key& key) {
      h = H::combine(std::move(h), key.kind, key.value, key.dtypes);
      for (const StridedLayout& layout : key.layouts) h = H::combine(std::move(h), layout.sizes, layout.strides);
      return h;
    }
  };
  struct Operand {
    const Tensor* tensor;
    const StridedLayout* layout;  // of the tensor, possibly broadcast
  };

  absl::StatusOr<Kernel*> Prepare(const Key& key, absl::Span<const TensorSpec> inputs, const TensorSpec& output);
  absl::Status Run(Kind kind, double value, absl::Span<const Operand> inputs, const Tensor& output);
  // Returns whether `tensor` is on the host and the operations are those of a GPU.
  bool IsBesideGpu(const Tensor& tensor) const {
    return device_.type() != DeviceType::kCpu && tensor.device().type() == DeviceType::kCpu;
  }
  // Copies where an operand is not on device_.
  absl::Status CopyBetweenDevices(const Tensor& from, const Tensor& to);
  absl::Status CopySameSizes(const Tensor& from, const StridedLayout& from_layout, const Tensor& to);
  absl::Status Combine(Kind kind, const Tensor& a, const Tensor& b, const Tensor& output);

  const KernelRegistry& kernels_;
  Device& device_;
  int threads_;
  bool flush_denormals_;
  absl::flat_hash_map<Key, std::unique_ptr<Kernel>> prepared_;
  Tensor scratch_;
};

// Returns the view of `tensor` by a step without symbols. InvalidArgument: the step does not apply, or the result
// exceeds the storage. FailedPrecondition: view::View would need a copy; a view to another dtype of a tensor with
// conj/neg bits. Unimplemented: as ApplyViewStep().
absl::StatusOr<Tensor> ViewOf(const Tensor& tensor, const ViewStep& step);

// Returns `layout` broadcast to `sizes`: added and expanded dimensions have stride 0. InvalidArgument: it does not
// broadcast to `sizes`.
absl::StatusOr<StridedLayout> BroadcastTo(const StridedLayout& layout, absl::Span<const int64_t> sizes);

}  // namespace cotan

#endif  // COTAN_RUNTIME_AUTOGRAD_TENSOR_OPS_H_
