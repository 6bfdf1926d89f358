// SPDX-License-Identifier: Apache-2.0

// Kernels that call a function: most reference kernels.
#ifndef COTAN_KERNELS_REFERENCE_FUNCTION_KERNEL_H_
#define COTAN_KERNELS_REFERENCE_FUNCTION_KERNEL_H_

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "kernels/api/expr_program.h"
#include "kernels/api/kernel.h"
#include "kernels/api/op_check.h"
#include "kernels/reference/element.h"
#include "serialization/schema/program.pb.h"

namespace cotan::reference {

// An operand of one run.
struct Tensor {
  DType dtype = DType::kUndefined;
  StridedLayout layout;
  void* data = nullptr;

  const DimVector& sizes() const { return layout.sizes; }
  int64_t size(int dim) const { return layout.sizes[static_cast<size_t>(dim)]; }
  int rank() const { return layout.rank(); }
  bool is_float() const { return IsFloatingPoint(dtype); }

  Scalar Get(absl::Span<const int64_t> index) const { return Load(dtype, data, Offset(index, layout.strides)); }
  double GetFloat(absl::Span<const int64_t> index) const { return Get(index).f; }
  void Set(absl::Span<const int64_t> index, Scalar value) const {
    Store(dtype, data, Offset(index, layout.strides), value);
  }
  void SetFloat(absl::Span<const int64_t> index, double value) const { Set(index, {value, 0}); }

  // Returns a view of the same memory, broadcast to the sizes `to` by PyTorch's rule.
  Tensor BroadcastTo(absl::Span<const int64_t> to) const {
    return {dtype, {DimVector(to.begin(), to.end()), BroadcastStrides(layout, to)}, data};
  }
};

// Row-major sums for the elements of a tensor, rounded to its dtype once, in Write().
class Accumulator {
 public:
  explicit Accumulator(const Tensor& tensor)
      : tensor_(tensor),
        strides_(ContiguousStrides(tensor.sizes())),
        values_(static_cast<size_t>(NumElements(tensor.sizes()))) {}

  Scalar& At(absl::Span<const int64_t> index) { return values_[static_cast<size_t>(Offset(index, strides_))]; }
  void AddFloat(absl::Span<const int64_t> index, double value) { At(index).f += value; }
  void Add(absl::Span<const int64_t> index, Scalar value) {
    At(index).f += value.f;
    At(index).i += value.i;
  }
  void Write() {
    ForEachIndex(tensor_.sizes(), [&](absl::Span<const int64_t> index) { tensor_.Set(index, At(index)); });
  }

 private:
  const Tensor tensor_;
  const DimVector strides_;
  std::vector<Scalar> values_;
};

using Tensors = std::vector<Tensor>;
using RunFunction = absl::Status (*)(const serialization::Op& op, const Tensors& in, const Tensors& out);

class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(const KernelRequest& request, RunFunction run) : op_(request.op), run_(run) {
    for (const TensorSpec& spec : request.inputs) inputs_.push_back({spec.dtype, spec.layout, nullptr});
    for (const TensorSpec& spec : request.outputs) outputs_.push_back({spec.dtype, spec.layout, nullptr});
  }

  absl::Status Run(const KernelArgs& args) override {
    for (size_t i = 0; i < inputs_.size(); ++i) inputs_[i].data = args.inputs[i];
    for (size_t i = 0; i < outputs_.size(); ++i) outputs_[i].data = args.outputs[i];
    return run_(op_, inputs_, outputs_);
  }

 private:
  const serialization::Op op_;
  Tensors inputs_;
  Tensors outputs_;
  const RunFunction run_;
};

inline absl::StatusOr<std::unique_ptr<Kernel>> MakeFunctionKernel(const KernelRequest& request, RunFunction run) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  return std::make_unique<FunctionKernel>(request, run);
}

}  // namespace cotan::reference

#endif  // COTAN_KERNELS_REFERENCE_FUNCTION_KERNEL_H_
