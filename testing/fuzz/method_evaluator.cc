// SPDX-License-Identifier: Apache-2.0

#include "testing/fuzz/method_evaluator.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "kernels/api/registry.h"
#include "kernels/reference/element.h"
#include "kernels/reference/register_reference.h"
#include "serialization/schema/op_kind.h"
#include "serialization/schema/tensor_type.h"

namespace cotan::testing {
namespace {

using serialization::Method;
using serialization::Op;
using serialization::ViewStep;
using Index = absl::Span<const int64_t>;

const KernelRegistry& ReferenceKernels() {
  static const KernelRegistry& registry = *[] {
    auto* kernels = new KernelRegistry();
    RegisterReferenceKernels(*kernels).IgnoreError();  // an op without a kernel is an error of Find()
    return kernels;
  }();
  return registry;
}

// Returns the tensor of these sizes whose element at an index is the element of `from` at position(index), row-major.
HostTensor Rearrange(const HostTensor& from, const DimVector& sizes, absl::FunctionRef<int64_t(Index)> position) {
  HostTensor to(from.dtype(), sizes);
  const size_t width = ByteSize(from.dtype());
  const char* const source = static_cast<const char*>(from.data());
  char* target = static_cast<char*>(to.data());
  reference::ForEachIndex(sizes, [&](Index index) {
    std::memcpy(target, source + static_cast<size_t>(position(index)) * width, width);
    target += width;
  });
  return to;
}

// Applies view steps by copying elements.
class ViewEvaluator {
 public:
  explicit ViewEvaluator(absl::Span<const int64_t> symbols) : symbols_(symbols) {}

  absl::StatusOr<HostTensor> Apply(const ViewStep& step, const HostTensor& from) const {
    switch (step.kind_case()) {
      case ViewStep::kView:
        return Reshape(step.view(), from);
      case ViewStep::kPermute:
        return Permute(step.permute(), from);
      case ViewStep::kExpand:
        return Expand(step.expand(), from);
      case ViewStep::kSlice:
        return Slice(step.slice(), from);
      case ViewStep::kSelect:
        return Select(step.select(), from);
      case ViewStep::kAsStrided:
        return AsStrided(step.as_strided(), from);
      case ViewStep::kSqueeze:
        return Squeeze(step.squeeze(), from);
      case ViewStep::kUnsqueeze:
        return Unsqueeze(step.unsqueeze(), from);
      case ViewStep::kDiagonal:
        return Diagonal(step.diagonal(), from);
      case ViewStep::kUnfold:
        return Unfold(step.unfold(), from);
      case ViewStep::kDetach:
      case ViewStep::kAlias:
        return from;
      default:
        return absl::UnimplementedError(absl::StrCat("view step ", step.kind_case(), " is not evaluated"));
    }
  }

 private:
  static HostTensor WithSizes(const HostTensor& from, const DimVector& sizes) {
    HostTensor to(from.dtype(), sizes);
    std::copy(from.bytes().begin(), from.bytes().end(), static_cast<char*>(to.data()));
    return to;
  }

  absl::StatusOr<HostTensor> Reshape(const ViewStep::View& step, const HostTensor& from) const {
    COTAN_ASSIGN_OR_RETURN(const DimVector sizes, EvaluateSizes(step.sizes(), symbols_));
    return WithSizes(from, sizes);
  }

  static HostTensor Permute(const ViewStep::Permute& step, const HostTensor& from) {
    DimVector sizes, strides;
    for (const uint32_t dim : step.dims()) {
      sizes.push_back(from.layout().sizes[dim]);
      strides.push_back(from.layout().strides[dim]);
    }
    return Rearrange(from, sizes, [&](Index index) { return reference::Offset(index, strides); });
  }

  absl::StatusOr<HostTensor> Expand(const ViewStep::Expand& step, const HostTensor& from) const {
    COTAN_ASSIGN_OR_RETURN(const DimVector sizes, EvaluateSizes(step.sizes(), symbols_));
    const DimVector& old_sizes = from.layout().sizes;
    const size_t added = sizes.size() - old_sizes.size();
    return Rearrange(from, sizes, [&](Index index) {
      int64_t position = 0;
      for (size_t d = 0; d < old_sizes.size(); ++d) {
        if (old_sizes[d] != 1) position += index[added + d] * from.layout().strides[d];
      }
      return position;
    });
  }

  absl::StatusOr<HostTensor> Slice(const ViewStep::Slice& step, const HostTensor& from) const {
    COTAN_ASSIGN_OR_RETURN(const int64_t start, EvaluateSize(step.start(), symbols_));
    COTAN_ASSIGN_OR_RETURN(const int64_t end, EvaluateSize(step.end(), symbols_));
    COTAN_ASSIGN_OR_RETURN(const int64_t stride, EvaluateSize(step.step(), symbols_));
    DimVector sizes = from.layout().sizes;
    sizes[step.dim()] = (end - start + stride - 1) / stride;
    return Rearrange(from, sizes, [&](Index index) {
      DimVector old(index.begin(), index.end());
      old[step.dim()] = start + index[step.dim()] * stride;
      return reference::Offset(old, from.layout().strides);
    });
  }

  absl::StatusOr<HostTensor> Select(const ViewStep::Select& step, const HostTensor& from) const {
    COTAN_ASSIGN_OR_RETURN(const int64_t chosen, EvaluateSize(step.index(), symbols_));
    DimVector sizes = from.layout().sizes;
    sizes.erase(sizes.begin() + step.dim());
    return Rearrange(from, sizes, [&](Index index) {
      DimVector old(index.begin(), index.end());
      old.insert(old.begin() + step.dim(), chosen);
      return reference::Offset(old, from.layout().strides);
    });
  }

  // Addresses the elements in row-major order.
  absl::StatusOr<HostTensor> AsStrided(const ViewStep::AsStrided& step, const HostTensor& from) const {
    COTAN_ASSIGN_OR_RETURN(const DimVector sizes, EvaluateSizes(step.sizes(), symbols_));
    COTAN_ASSIGN_OR_RETURN(const DimVector strides, EvaluateSizes(step.strides(), symbols_));
    COTAN_ASSIGN_OR_RETURN(const int64_t offset, EvaluateSize(step.offset(), symbols_));
    return Rearrange(from, sizes, [&](Index index) { return offset + reference::Offset(index, strides); });
  }

  static HostTensor Squeeze(const ViewStep::Squeeze& step, const HostTensor& from) {
    DimVector sizes = from.layout().sizes;
    for (int i = step.dims_size(); i-- > 0;) sizes.erase(sizes.begin() + step.dims(i));
    return WithSizes(from, sizes);
  }

  static HostTensor Unsqueeze(const ViewStep::Unsqueeze& step, const HostTensor& from) {
    DimVector sizes = from.layout().sizes;
    sizes.insert(sizes.begin() + step.dim(), 1);
    return WithSizes(from, sizes);
  }

  static HostTensor Diagonal(const ViewStep::Diagonal& step, const HostTensor& from) {
    const DimVector& old_sizes = from.layout().sizes;
    const int64_t first1 = std::max<int64_t>(0, -step.offset()), first2 = std::max<int64_t>(0, step.offset());
    const int64_t length =
        std::max<int64_t>(0, std::min(old_sizes[step.dim1()] - first1, old_sizes[step.dim2()] - first2));
    DimVector sizes, strides;
    for (size_t d = 0; d < old_sizes.size(); ++d) {
      if (d == step.dim1() || d == step.dim2()) continue;
      sizes.push_back(old_sizes[d]);
      strides.push_back(from.layout().strides[d]);
    }
    const int64_t stride1 = from.layout().strides[step.dim1()], stride2 = from.layout().strides[step.dim2()];
    sizes.push_back(length);
    strides.push_back(stride1 + stride2);
    return Rearrange(from, sizes, [&](Index index) {
      return first1 * stride1 + first2 * stride2 + reference::Offset(index, strides);
    });
  }

  static HostTensor Unfold(const ViewStep::Unfold& step, const HostTensor& from) {
    DimVector sizes = from.layout().sizes, strides = from.layout().strides;
    sizes[step.dim()] = (sizes[step.dim()] - step.size()) / step.step() + 1;
    strides[step.dim()] *= step.step();
    sizes.push_back(step.size());
    strides.push_back(from.layout().strides[step.dim()]);
    return Rearrange(from, sizes, [&](Index index) { return reference::Offset(index, strides); });
  }

  absl::Span<const int64_t> symbols_;
};

class Evaluator {
 public:
  Evaluator(const Method& method, absl::Span<const int64_t> symbols)
      : method_(method), symbols_(symbols), values_(static_cast<size_t>(method.values_size())) {}

  void Set(uint32_t value, std::shared_ptr<const HostTensor> tensor) { values_[value] = std::move(tensor); }
  const std::shared_ptr<const HostTensor>& Get(uint32_t value) const { return values_[value]; }

  absl::Status Run(const Op& op, MethodResults& results) {
    if (op.has_view()) return RunView(op);
    if (op.has_effect()) {
      results.effects.push_back(Get(op.inputs(0))->Values());
      return absl::OkStatus();
    }
    // Kernels take tensors that are not const; they do not write inputs.
    std::vector<HostTensor> inputs;
    for (const uint32_t input : op.inputs()) inputs.push_back(*Get(input));
    std::vector<std::shared_ptr<HostTensor>> outputs;
    std::vector<HostTensor*> input_pointers, output_pointers;
    for (HostTensor& input : inputs) input_pointers.push_back(&input);
    for (const uint32_t output : op.outputs()) {
      const serialization::TensorType& type = method_.values(static_cast<int>(output)).type();
      COTAN_ASSIGN_OR_RETURN(const DimVector sizes, EvaluateSizes(type.sizes(), symbols_));
      outputs.push_back(std::make_shared<HostTensor>(ToDType(type.dtype()), sizes));
      output_pointers.push_back(outputs.back().get());
    }
    COTAN_ASSIGN_OR_RETURN(const KernelFactory factory,
                           ReferenceKernels().Find(DeviceType::kCpu, op.kind_case(), outputs[0]->dtype()));
    COTAN_RETURN_IF_ERROR(RunOp(factory, op, input_pointers, output_pointers, /*threads=*/1, symbols_));
    for (size_t i = 0; i < outputs.size(); ++i) Set(op.outputs(static_cast<int>(i)), std::move(outputs[i]));
    return absl::OkStatus();
  }

 private:
  absl::Status RunView(const Op& op) {
    HostTensor tensor = *Get(op.inputs(0));
    for (const ViewStep& step : op.view().steps()) {
      COTAN_ASSIGN_OR_RETURN(tensor, ViewEvaluator(symbols_).Apply(step, tensor));
    }
    Set(op.outputs(0), std::make_shared<HostTensor>(std::move(tensor)));
    return absl::OkStatus();
  }

  const Method& method_;
  absl::Span<const int64_t> symbols_;
  DenseTensors values_;
};

}  // namespace

absl::StatusOr<MethodResults> EvaluateMethod(const Method& method, absl::Span<const int64_t> symbols,
                                             const DenseTensors& inputs, const DenseTensors& states) {
  Evaluator evaluator(method, symbols);
  for (int i = 0; i < method.inputs_size(); ++i) evaluator.Set(method.inputs(i), inputs[static_cast<size_t>(i)]);
  for (const auto& read : method.state_reads()) evaluator.Set(read.value(), states[read.state()]);
  MethodResults results = {.outputs = {}, .states = states, .inputs = inputs, .effects = {}};
  for (const Op& op : method.ops()) COTAN_RETURN_IF_ERROR(evaluator.Run(op, results));
  for (const uint32_t output : method.outputs()) results.outputs.push_back(evaluator.Get(output));
  for (const auto& update : method.state_updates()) results.states[update.state()] = evaluator.Get(update.value());
  for (const auto& update : method.input_updates()) results.inputs[update.input()] = evaluator.Get(update.value());
  return results;
}

}  // namespace cotan::testing
