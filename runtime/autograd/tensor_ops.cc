// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/tensor_ops.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/denormal_mode.h"
#include "base/overlap.h"
#include "base/status_macros.h"
#include "serialization/metadata/view_geometry.h"
#include "serialization/schema/program.pb.h"

namespace cotan {
namespace {

using serialization::Expr;
using serialization::ExprInstruction;
using serialization::Op;
using serialization::ScalarFn;

ExprInstruction& AddInstruction(Expr& expr, ScalarFn fn, DType dtype) {
  ExprInstruction& instruction = *expr.add_instructions();
  instruction.set_fn(fn);
  instruction.set_dtype(static_cast<serialization::DTypeProto>(dtype));
  return instruction;
}

// Adds the instructions that load the inputs; instruction i is input i.
void AddInputs(Expr& expr, absl::Span<const TensorSpec> inputs) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    AddInstruction(expr, serialization::FN_INPUT, inputs[i].dtype).set_index(static_cast<uint32_t>(i));
  }
}

// Adds an instruction that applies `fn` to all inputs.
void AddFunction(Expr& expr, ScalarFn fn, size_t num_inputs, DType dtype) {
  ExprInstruction& instruction = AddInstruction(expr, fn, dtype);
  for (size_t i = 0; i < num_inputs; ++i) instruction.add_operands(static_cast<uint32_t>(i));
}

void AddConstant(Expr& expr, DType dtype, double value) {
  ExprInstruction& instruction = AddInstruction(expr, serialization::FN_CONSTANT, dtype);
  if (IsFloatingPoint(dtype)) {
    instruction.set_float_value(value);
  } else {
    instruction.set_int_value(static_cast<int64_t>(value));
  }
}

void SetDomain(absl::Span<const int64_t> sizes, Expr& expr) {
  for (const int64_t size : sizes) expr.add_domain_sizes(absl::StrCat(size));
}

// Returns whether both tensors are one block of memory with the elements in the same order.
bool IsSameBlock(const StridedLayout& a, const StridedLayout& b) {
  return (IsContiguous(a) && IsContiguous(b)) || (a.strides == b.strides && IsDenseNonOverlapping(a));
}

// Calls `run` for corresponding parts of both tensors, in order, such that the elements of each part of `to` do not
// overlap: for the whole tensors, or for each index of the smallest dimension above 1, recursively.
template <typename F>
absl::Status ForEachPart(const Tensor& from, const Tensor& to, const F& run) {
  const StridedLayout& layout = to.layout();
  if (!OverlapsItself(layout)) return run(from, to);
  int dim = -1;
  for (int d = 0; d < layout.rank(); ++d) {
    const int64_t size = layout.sizes[static_cast<size_t>(d)];
    if (size > 1 && (dim < 0 || size < layout.sizes[static_cast<size_t>(dim)])) dim = d;
  }
  for (int64_t i = 0; i < layout.sizes[static_cast<size_t>(dim)]; ++i) {
    const view::Select step = {.dim = dim, .index = i};
    COTAN_ASSIGN_OR_RETURN(const Tensor from_part, ViewOf(from, step));
    COTAN_ASSIGN_OR_RETURN(const Tensor to_part, ViewOf(to, step));
    COTAN_RETURN_IF_ERROR(ForEachPart(from_part, to_part, run));
  }
  return absl::OkStatus();
}

StridedLayout Contiguous(absl::Span<const int64_t> sizes) {
  return {.sizes = DimVector(sizes.begin(), sizes.end()), .strides = ContiguousStrides(sizes), .offset = 0};
}

}  // namespace

absl::StatusOr<Tensor> ViewOf(const Tensor& tensor, const ViewStep& step) {
  const ConjNegBits reading = tensor.reading();
  if (std::holds_alternative<view::Conjugate>(step)) {
    return tensor.WithConjNegBits(reading ^ ConjNegBits{.conjugate = true});
  }
  if (std::holds_alternative<view::Negate>(step)) return tensor.WithConjNegBits(reading ^ ConjNegBits{.negate = true});
  COTAN_ASSIGN_OR_RETURN(ViewGeometry seen, ApplyViewStep(step, {tensor.dtype(), tensor.layout()}, {}));
  const bool other_numbers = seen.dtype != tensor.dtype();
  const bool keeps_reading = std::holds_alternative<view::ViewAsReal>(step) ? !reading.conjugate : !other_numbers;
  if (!tensor.is_plain() && !keeps_reading) {
    return absl::FailedPreconditionError(
        absl::StrCat("the view ", ToString(step), " of ", tensor.ToString(), ": view a copy of it (Clone())"));
  }
  COTAN_ASSIGN_OR_RETURN(const Tensor view, Tensor::InStorage(tensor.storage(), seen.dtype, std::move(seen.layout)));
  return view.WithConjNegBits(reading);
}

absl::StatusOr<StridedLayout> BroadcastTo(const StridedLayout& layout, absl::Span<const int64_t> sizes) {
  const auto rank = static_cast<size_t>(layout.rank());
  bool fits = rank <= sizes.size();
  const size_t added = fits ? sizes.size() - rank : 0;
  StridedLayout result = {
      .sizes = DimVector(sizes.begin(), sizes.end()), .strides = DimVector(sizes.size(), 0), .offset = layout.offset};
  for (size_t i = 0; fits && i < rank; ++i) {
    if (layout.sizes[i] == sizes[added + i]) {
      result.strides[added + i] = layout.strides[i];
    } else {
      fits = layout.sizes[i] == 1;
    }
  }
  if (fits) return result;
  return absl::InvalidArgumentError(absl::StrCat("sizes [", absl::StrJoin(layout.sizes, ","), "] do not broadcast to [",
                                                 absl::StrJoin(sizes, ","), "]"));
}

absl::StatusOr<Kernel*> TensorOps::Prepare(const Key& key, absl::Span<const TensorSpec> inputs,
                                           const TensorSpec& output) {
  const auto found = prepared_.find(key);
  if (found != prepared_.end()) return found->second.get();

  Op op;
  if (key.kind == Kind::kCopy) {
    op.mutable_copy();
  } else {
    Expr& expr = *op.mutable_expr();
    AddInputs(expr, inputs);
    SetDomain(key.kind == Kind::kSum ? inputs[0].layout.sizes : output.layout.sizes, expr);
    if (key.kind == Kind::kFill) AddConstant(expr, output.dtype, key.value);
    if (key.kind == Kind::kCast) AddFunction(expr, serialization::FN_CAST, 1, output.dtype);
    if (key.kind == Kind::kAdd) AddFunction(expr, serialization::FN_ADD, 2, output.dtype);
    if (key.kind == Kind::kDivide) AddFunction(expr, serialization::FN_DIV, 2, output.dtype);
    if (key.kind == Kind::kSum) {
      AddFunction(expr, serialization::FN_REDUCE_SUM, 1, output.dtype);
      for (size_t i = 0; i < output.layout.sizes.size(); ++i) {
        if (output.layout.sizes[i] != inputs[0].layout.sizes[i]) expr.add_reduce_dims(static_cast<uint32_t>(i));
      }
    }
    expr.add_outputs(static_cast<uint32_t>(expr.instructions_size() - 1));
  }
  COTAN_ASSIGN_OR_RETURN(const KernelFactory factory, kernels_.Find(device_.type(), op.kind_case(), output.dtype));
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> kernel, factory({.op = op,
                                                                  .inputs = inputs,
                                                                  .outputs = absl::MakeConstSpan(&output, 1),
                                                                  .symbols = {},
                                                                  .threads = threads_,
                                                                  .device = &device_}));
  if (num_prepared() >= kMaxPrepared) prepared_.clear();
  return prepared_.emplace(key, std::move(kernel)).first->second.get();
}

absl::Status TensorOps::Run(Kind kind, double value, absl::Span<const Operand> inputs, const Tensor& output) {
  if (output.num_elements() == 0) return absl::OkStatus();
  Key key;
  key.kind = kind;
  key.value = value;
  std::array<TensorSpec, 3> specs;
  std::array<void*, 3> addresses{};
  const auto add = [&](size_t i, const Tensor& tensor, const StridedLayout& layout) {
    specs[i] = {tensor.dtype(), {.sizes = layout.sizes, .strides = layout.strides, .offset = 0}};
    key.dtypes[i] = specs[i].dtype;
    key.layouts[i] = specs[i].layout;
    addresses[i] = tensor.address();
  };
  for (size_t i = 0; i < inputs.size(); ++i) add(i, *inputs[i].tensor, *inputs[i].layout);
  add(inputs.size(), output, output.layout());

  COTAN_ASSIGN_OR_RETURN(Kernel * kernel,
                         Prepare(key, absl::MakeConstSpan(specs).first(inputs.size()), specs[inputs.size()]));
  const auto scratch_bytes = static_cast<int64_t>(kernel->scratch_bytes());
  if (scratch_bytes > scratch_.num_elements() || (scratch_bytes != 0 && !scratch_.defined())) {
    COTAN_ASSIGN_OR_RETURN(scratch_, Tensor::Empty(DType::kUInt8, {scratch_bytes}, device_));
  }
  const ScopedDenormalMode mode(flush_denormals_);
  return kernel->Run({.inputs = addresses.data(), .outputs = &addresses[inputs.size()], .scratch = scratch_.address()});
}

absl::Status TensorOps::Fill(double value, const Tensor& tensor) {
  if (!tensor.is_plain()) return Fill(tensor.reading().negate ? -value : value, tensor.WithConjNegBits({}));
  if (!IsComplex(tensor.dtype())) return Run(Kind::kFill, value, {}, tensor);
  COTAN_ASSIGN_OR_RETURN(const Tensor parts, ViewOf(tensor, view::ViewAsReal{}));
  const int last = parts.layout().rank() - 1;
  for (int part = 0; part < 2; ++part) {
    COTAN_ASSIGN_OR_RETURN(const Tensor half, ViewOf(parts, view::Select{.dim = last, .index = part}));
    COTAN_RETURN_IF_ERROR(Run(Kind::kFill, part == 0 ? value : 0, {}, half));
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> TensorOps::Zeros(DType dtype, absl::Span<const int64_t> sizes) {
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(dtype, sizes, device_));
  COTAN_RETURN_IF_ERROR(Fill(0, tensor));
  return tensor;
}

absl::StatusOr<Tensor> TensorOps::Ones(DType dtype, absl::Span<const int64_t> sizes) {
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(dtype, sizes, device_));
  COTAN_RETURN_IF_ERROR(Fill(1, tensor));
  return tensor;
}

absl::Status TensorOps::CopySameSizes(const Tensor& from, const StridedLayout& from_layout, const Tensor& to) {
  if (from.dtype() != to.dtype()) return Run(Kind::kCast, 0, {{&from, &from_layout}}, to);
  if (from.address() == to.address() && from_layout.strides == to.layout().strides) return absl::OkStatus();
  if (!IsSameBlock(from_layout, to.layout())) return Run(Kind::kCopy, 0, {{&from, &from_layout}}, to);
  const auto bytes = static_cast<size_t>(to.num_elements()) * ByteSize(to.dtype());
  return bytes == 0 ? absl::OkStatus() : device_.Copy(to.address(), from.address(), bytes);
}

absl::Status TensorOps::CopyBetweenDevices(const Tensor& from, const Tensor& to) {
  if (&to.device() == &device_) {
    COTAN_ASSIGN_OR_RETURN(const Tensor moved, from.ToDevice(device_));
    return Copy(moved, to);
  }
  // Kernels are those of device_, so that elements on the host are only moved.
  if (to.device().type() != DeviceType::kCpu || from.dtype() != to.dtype()) {
    return absl::InvalidArgumentError(absl::StrCat("a copy from ", from.ToString(), " to ", to.ToString(),
                                                   ": move one of them with ToDevice() first"));
  }
  COTAN_ASSIGN_OR_RETURN(const Tensor host, from.ToHost());
  COTAN_ASSIGN_OR_RETURN(const StridedLayout layout, BroadcastTo(host.layout(), to.sizes()));
  CopyStrided(host.address(), layout, to.address(), to.layout(), ByteSize(to.dtype()));
  return absl::OkStatus();
}

absl::Status TensorOps::Copy(const Tensor& from, const Tensor& to) {
  if (!from.is_plain() || !to.is_plain()) {
    COTAN_ASSIGN_OR_RETURN(const Tensor stored, from.WithConjNegBits(from.reading() ^ to.reading()).ResolveConjNeg());
    return Copy(stored, to.WithConjNegBits({}));
  }
  const bool both_here = &from.device() == &device_ && &to.device() == &device_;
  if (device_.type() != DeviceType::kCpu && !both_here) return CopyBetweenDevices(from, to);
  const bool from_complex = IsComplex(from.dtype());
  const bool to_complex = IsComplex(to.dtype());
  if (from.dtype() == to.dtype() || (!from_complex && !to_complex)) {
    COTAN_ASSIGN_OR_RETURN(const StridedLayout layout, BroadcastTo(from.layout(), to.sizes()));
    return CopySameSizes(from, layout, to);
  }
  // Between complex dtypes, or complex and real: the real and the imaginary parts one after the other.
  Tensor from_part = from;
  Tensor to_part = to;
  for (int part = 0; part < 2; ++part) {
    const auto take = [part](const Tensor& whole) -> absl::StatusOr<Tensor> {
      COTAN_ASSIGN_OR_RETURN(const Tensor parts, ViewOf(whole, view::ViewAsReal{}));
      return ViewOf(parts, view::Select{.dim = parts.layout().rank() - 1, .index = part});
    };
    if (to_complex) {
      COTAN_ASSIGN_OR_RETURN(to_part, take(to));
    }
    if (from_complex) {
      COTAN_ASSIGN_OR_RETURN(from_part, take(from));
    }
    if (part == 1 && !from_complex) return Fill(0, to_part);
    COTAN_ASSIGN_OR_RETURN(const StridedLayout layout, BroadcastTo(from_part.layout(), to_part.sizes()));
    COTAN_RETURN_IF_ERROR(CopySameSizes(from_part, layout, to_part));
    if (!to_complex) break;
  }
  return absl::OkStatus();
}

absl::StatusOr<Tensor> TensorOps::Clone(const Tensor& tensor) {
  COTAN_ASSIGN_OR_RETURN(Tensor copy, Tensor::Empty(tensor.dtype(), tensor.sizes(), device_));
  COTAN_RETURN_IF_ERROR(Copy(tensor, copy));
  return copy;
}

absl::StatusOr<Tensor> TensorOps::Cast(const Tensor& tensor, DType dtype) {
  if (tensor.dtype() == dtype) return tensor;
  COTAN_ASSIGN_OR_RETURN(Tensor copy, Tensor::Empty(dtype, tensor.sizes(), device_));
  COTAN_RETURN_IF_ERROR(Copy(tensor, copy));
  return copy;
}

absl::Status TensorOps::Combine(Kind kind, const Tensor& a, const Tensor& b, const Tensor& output) {
  if (!IsComplex(output.dtype())) return Run(kind, 0, {{&a, &a.layout()}, {&b, &b.layout()}}, output);
  COTAN_ASSIGN_OR_RETURN(const Tensor a_parts, ViewOf(a, view::ViewAsReal{}));
  COTAN_ASSIGN_OR_RETURN(const Tensor b_parts, ViewOf(b, view::ViewAsReal{}));
  COTAN_ASSIGN_OR_RETURN(const Tensor parts, ViewOf(output, view::ViewAsReal{}));
  return Run(kind, 0, {{&a_parts, &a_parts.layout()}, {&b_parts, &b_parts.layout()}}, parts);
}

absl::StatusOr<Tensor> TensorOps::Add(const Tensor& a, const Tensor& b) {
  if (!a.is_plain() || !b.is_plain()) {
    COTAN_ASSIGN_OR_RETURN(const Tensor plain_a, a.ResolveConjNeg());
    COTAN_ASSIGN_OR_RETURN(const Tensor plain_b, b.ResolveConjNeg());
    return Add(plain_a, plain_b);
  }
  if (IsBesideGpu(a) || IsBesideGpu(b)) {
    COTAN_ASSIGN_OR_RETURN(const Tensor moved_a, a.ToDevice(device_));
    COTAN_ASSIGN_OR_RETURN(const Tensor moved_b, b.ToDevice(device_));
    return Add(moved_a, moved_b);
  }
  StridedLayout layout = a.layout();
  layout.offset = 0;
  if (!IsDenseNonOverlapping(layout)) layout = Contiguous(a.sizes());
  COTAN_ASSIGN_OR_RETURN(Tensor sum, Tensor::EmptyStrided(a.dtype(), std::move(layout), device_));
  COTAN_RETURN_IF_ERROR(Combine(Kind::kAdd, a, b, sum));
  return sum;
}

absl::Status TensorOps::AddTo(const Tensor& value, const Tensor& to) {
  if (!value.is_plain() || !to.is_plain()) {
    COTAN_ASSIGN_OR_RETURN(const Tensor stored, value.WithConjNegBits(value.reading() ^ to.reading()).ResolveConjNeg());
    return AddTo(stored, to.WithConjNegBits({}));
  }
  if (IsBesideGpu(to)) {
    COTAN_ASSIGN_OR_RETURN(const Tensor sum, Add(value, to));
    return Copy(sum, to);
  }
  const auto add = [this](const Tensor& from, const Tensor& place) { return Combine(Kind::kAdd, place, from, place); };
  return ForEachPart(value, to, add);
}

absl::Status TensorOps::DivideBy(const Tensor& value, const Tensor& to) {
  if (!IsComplex(to.dtype())) return Run(Kind::kDivide, 0, {{&to, &to.layout()}, {&value, &value.layout()}}, to);
  COTAN_ASSIGN_OR_RETURN(const Tensor parts, ViewOf(to, view::ViewAsReal{}));
  COTAN_ASSIGN_OR_RETURN(const Tensor divisors, ViewOf(value, view::ViewAsReal{}));
  StridedLayout real = divisors.layout();  // the divisor of both parts is the real part
  real.strides.back() = 0;
  return Run(Kind::kDivide, 0, {{&parts, &parts.layout()}, {&divisors, &real}}, parts);
}

absl::StatusOr<Tensor> TensorOps::SumTo(const Tensor& tensor, absl::Span<const int64_t> sizes) {
  if (tensor.sizes() == sizes) return tensor;
  if (!tensor.is_plain()) {
    COTAN_ASSIGN_OR_RETURN(const Tensor plain, tensor.ResolveConjNeg());
    return SumTo(plain, sizes);
  }
  // Checks the sizes and gives the dimensions to sum over.
  COTAN_ASSIGN_OR_RETURN(const StridedLayout walk, BroadcastTo(Contiguous(sizes), tensor.sizes()));
  if (tensor.num_elements() == 0) return Zeros(tensor.dtype(), sizes);
  DimVector kept = walk.sizes;
  const size_t added = kept.size() - sizes.size();
  for (size_t i = 0; i < kept.size(); ++i) kept[i] = i < added ? 1 : sizes[i - added];
  if (IsComplex(tensor.dtype())) {
    COTAN_ASSIGN_OR_RETURN(const Tensor parts, ViewOf(tensor, view::ViewAsReal{}));
    kept.push_back(2);
    COTAN_ASSIGN_OR_RETURN(const Tensor sum, SumTo(parts, kept));
    COTAN_ASSIGN_OR_RETURN(const Tensor complex, ViewOf(sum, view::ViewAsComplex{}));
    return Tensor::InStorage(complex.storage(), complex.dtype(), Contiguous(sizes));
  }
  if (kept == walk.sizes) {  // only removes leading dimensions of size 1
    StridedLayout layout = tensor.layout();
    layout.sizes.erase(layout.sizes.begin(), layout.sizes.begin() + static_cast<std::ptrdiff_t>(added));
    layout.strides.erase(layout.strides.begin(), layout.strides.begin() + static_cast<std::ptrdiff_t>(added));
    return Tensor::InStorage(tensor.storage(), tensor.dtype(), std::move(layout));
  }
  COTAN_ASSIGN_OR_RETURN(const Tensor sum, Tensor::Empty(tensor.dtype(), kept, device_));
  COTAN_RETURN_IF_ERROR(Run(Kind::kSum, 0, {{&tensor, &tensor.layout()}}, sum));
  return Tensor::InStorage(sum.storage(), sum.dtype(), Contiguous(sizes));
}

}  // namespace cotan
