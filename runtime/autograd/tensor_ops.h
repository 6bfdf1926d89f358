// The arithmetic that autograd itself needs, by the kernels of a registry.
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

// Keeps the kernels it has prepared, by dtypes and layouts; a repeated call
// looks one up and runs it. Not thread-safe. Registry and device outlive it.
// All tensors are on the device and defined. Errors of all methods: NotFound,
// Unimplemented: no kernel for these dtypes; ResourceExhausted, Internal: from
// the device.
class TensorOps {
 public:
  explicit TensorOps(const KernelRegistry& kernels, Device& device = HostDevice(), int threads = 1)
      : kernels_(kernels), device_(device), threads_(threads) {}

  Device& device() const { return device_; }

  // A new row-major tensor of zeros; ones.
  absl::StatusOr<Tensor> Zeros(DType dtype, absl::Span<const int64_t> sizes);
  absl::StatusOr<Tensor> Ones(DType dtype, absl::Span<const int64_t> sizes);
  // All elements become `value`.
  absl::Status Fill(double value, const Tensor& tensor);

  // The elements of `from`, cast and broadcast, to `to`, whose elements do not
  // share memory among themselves. From complex to real: the real part. The
  // memory of both is equal, element by element, or disjoint.
  // InvalidArgument: sizes that do not broadcast.
  absl::Status Copy(const Tensor& from, const Tensor& to);
  // A row-major copy.
  absl::StatusOr<Tensor> Clone(const Tensor& tensor);
  // Itself if it has the dtype already, else a row-major copy.
  absl::StatusOr<Tensor> Cast(const Tensor& tensor, DType dtype);

  // Of equal dtypes and sizes, not bool. AddTo: `to` += `value`; memory that
  // several elements of `to` share gets the sum of what is added to each.
  absl::StatusOr<Tensor> Add(const Tensor& a, const Tensor& b);
  absl::Status AddTo(const Tensor& value, const Tensor& to);
  // `to` /= `value`, its real part if both are complex. Equal dtypes and sizes.
  absl::Status DivideBy(const Tensor& value, const Tensor& to);

  // Sums over dimensions that broadcasting from `sizes` added or stretched;
  // itself if there are none.
  // InvalidArgument: `sizes` do not broadcast to the tensor's.
  absl::StatusOr<Tensor> SumTo(const Tensor& tensor, absl::Span<const int64_t> sizes);

  // Kernels kept; they are all dropped when there get to be kMaxPrepared.
  int num_prepared() const { return static_cast<int>(prepared_.size()); }
  static constexpr int kMaxPrepared = 256;

 private:
  enum class Kind : uint8_t { kFill, kCopy, kCast, kAdd, kDivide, kSum };
  struct Key {
    Kind kind = Kind::kFill;
    double value = 0;               // of kFill
    std::array<DType, 3> dtypes{};  // inputs, then the output
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
    const StridedLayout* layout;  // the tensor's own, or it broadcast
  };

  absl::StatusOr<Kernel*> Prepare(const Key& key, absl::Span<const TensorSpec> inputs, const TensorSpec& output);
  absl::Status Run(Kind kind, double value, absl::Span<const Operand> inputs, const Tensor& output);
  absl::Status CopySameSizes(const Tensor& from, const StridedLayout& from_layout, const Tensor& to);
  absl::Status Combine(Kind kind, const Tensor& a, const Tensor& b, const Tensor& output);

  const KernelRegistry& kernels_;
  Device& device_;
  int threads_;
  absl::flat_hash_map<Key, std::unique_ptr<Kernel>> prepared_;
  Tensor scratch_;
};

// The same elements seen through a step without symbols. Errors as
// ApplyViewStep() and Tensor::InStorage(). FailedPrecondition: bits of what is
// not plain.
absl::StatusOr<Tensor> ViewOf(const Tensor& tensor, const ViewStep& step);

// The layout with which `layout` walks `sizes`.
// InvalidArgument: it does not broadcast to them.
absl::StatusOr<StridedLayout> BroadcastTo(const StridedLayout& layout, absl::Span<const int64_t> sizes);

}  // namespace cotan

#endif  // COTAN_RUNTIME_AUTOGRAD_TENSOR_OPS_H_
