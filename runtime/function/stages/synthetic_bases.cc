// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/synthetic_bases.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/solve.h"
#include "base/status_macros.h"
#include "base/sym_int.h"
#include "runtime/autograd/grad_mode.h"

namespace cotan {
namespace {

// Returns the layout of a geometry without dynamic dimensions, nullopt for others.
std::optional<StridedLayout> ConstantLayout(const TensorGeometry& geometry) {
  const absl::StatusOr<StridedLayout> layout = EvaluateLayout(geometry, {});
  return layout.ok() ? std::make_optional(*layout) : std::nullopt;
}

// Sets the symbols that the sizes `found` determine; `sizes` are their expressions.
void SolveSymbols(absl::Span<const SymInt> sizes, absl::Span<const int64_t> found, DimVector& symbols) {
  for (size_t i = 0; i < std::min(sizes.size(), found.size()); ++i) {
    const std::optional<SymbolValue> solved = SolveForSymbol(sizes[i], found[i]);
    if (solved.has_value()) symbols[static_cast<size_t>(solved->symbol)] = solved->value;
  }
}

// Returns `elements` elements of `from` as a number of elements of `to`; nullopt if it is not whole.
std::optional<int64_t> InElementsOf(DType to, int64_t elements, DType from) {
  const int64_t bytes = elements * static_cast<int64_t>(ByteSize(from));
  const auto size = static_cast<int64_t>(ByteSize(to));
  return bytes % size == 0 ? std::make_optional(bytes / size) : std::nullopt;
}

bool SameShape(const StridedLayout& a, const StridedLayout& b) { return a.sizes == b.sizes && a.strides == b.strides; }

// Returns the sizes of the arguments that are inputs of their own in the method.
std::vector<SyntheticBasesStage::InputSizes> OwnSizes(const FunctionMetadata& function) {
  std::vector<SyntheticBasesStage::InputSizes> all;
  const serialization::Method& method = function.method_proto();
  for (int i = 0; i < std::min<int>(method.inputs_size(), static_cast<int>(function.method_arguments.size())); ++i) {
    const int input = function.argument_inputs[static_cast<size_t>(function.method_arguments[static_cast<size_t>(i)])];
    if (input < function.num_states) continue;
    SyntheticBasesStage::InputSizes& sizes = all.emplace_back();
    sizes.input = input;
    for (const std::string& text : method.values(static_cast<int>(method.inputs(i))).type().sizes()) {
      const absl::StatusOr<SymInt> size = SymInt::Parse(text);
      sizes.sizes.push_back(size.ok() ? *size : SymInt(0));  // the verifier has parsed them
    }
  }
  return all;
}

}  // namespace

std::unique_ptr<SyntheticBasesStage> SyntheticBasesStage::Create(const FunctionMetadata& function) {
  if (!function.binding.has_bases()) return nullptr;
  std::vector<Base> bases;
  for (const InputBinding::Base& traced : function.binding.bases) {
    Base base;
    base.requires_grad = traced.requires_grad;
    base.geometry = traced.geometry;
    base.layout = ConstantLayout(base.geometry);
    for (const auto& [input, seen] : function.ViewsOf(static_cast<int>(bases.size()))) {
      View view;
      view.input = input;
      view.geometry = seen->geometry;
      view.layout = ConstantLayout(view.geometry);
      view.made_under_no_grad = seen->detached && function.metadata.input(input).requires_grad;
      if (!view.layout.has_value()) base.layout.reset();
      base.views.push_back(std::move(view));
    }
    bases.push_back(std::move(base));
  }
  return std::make_unique<SyntheticBasesStage>(function, std::move(bases), OwnSizes(function));
}

absl::Status SyntheticBasesStage::Run(CallContext& call) {
  for (size_t i = 0; i < bases_.size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(call.bases[i], FindBase(call, bases_[i]));
    call.program_arguments[i] = &call.bases[i];
  }
  return absl::OkStatus();
}

std::string SyntheticBasesStage::ToString() const {
  std::vector<std::string> parts;
  for (const Base& base : bases_) {
    std::vector<int> inputs;
    for (const View& view : base.views) inputs.push_back(view.input);
    parts.push_back(absl::StrCat(base.geometry.ToString(), " is the base of ", function_.InputNames(inputs)));
  }
  return absl::StrJoin(parts, "; ");
}

// Layouts of a base and its views when traced, for the current values of the dynamic dimensions.
struct SyntheticBasesStage::TracedBase {
  StridedLayout base;
  std::vector<StridedLayout> views;
};

absl::StatusOr<SyntheticBasesStage::TracedBase> SyntheticBasesStage::EvaluateBase(const CallContext& call,
                                                                                  const Base& base) const {
  TracedBase traced;
  DimVector symbols;
  if (!base.layout.has_value()) {
    symbols.resize(static_cast<size_t>(call.core.session().program().artifact().symbols_size()), 0);
    for (const InputSizes& own : own_sizes_) SolveSymbols(own.sizes, call.input(own.input).sizes(), symbols);
    for (const View& view : base.views) SolveSymbols(view.geometry.sizes, call.input(view.input).sizes(), symbols);
  }
  COTAN_ASSIGN_OR_RETURN(traced.base, EvaluateLayout(base.geometry, symbols));
  for (const View& view : base.views) {
    COTAN_ASSIGN_OR_RETURN(StridedLayout layout, EvaluateLayout(view.geometry, symbols));
    traced.views.push_back(std::move(layout));
  }
  return traced;
}

// Returns the variable that covers all views: the views' base() (or a view that is itself the base), or, if there is
// none and no gradient is needed, a new one. (merge_view_inputs() uses view._base, or a new tensor over the whole
// storage.)
absl::StatusOr<Variable> SyntheticBasesStage::BaseOf(const CallContext& call, const Base& base,
                                                     const StridedLayout& base_layout,
                                                     const StridedLayout& first_layout) const {
  for (const View& view : base.views) {
    const Variable& given = call.input(view.input);
    const Variable& candidate = given.is_view() ? given.base() : given;
    if (candidate.requires_grad() == base.requires_grad && candidate.dtype() == base.geometry.dtype &&
        SameShape(candidate.layout(), base_layout)) {
      return candidate;
    }
  }
  const Variable& first = call.input(base.views[0].input);
  if (base.requires_grad) {
    return Refuse(function_, "argument '", function_.input(base.views[0].input).name, "' was a view of a tensor ",
                  base.geometry.ToString(), " that required grad when the program was traced; the one given is ",
                  first.ToString());
  }
  StridedLayout layout = base_layout;
  const DType dtype = base.geometry.dtype;
  const std::optional<int64_t> shift =
      InElementsOf(dtype, first.layout().offset - first_layout.offset, base.views[0].geometry.dtype);
  if (!shift.has_value()) {
    return Refuse(function_, "argument '", function_.input(base.views[0].input).name,
                  "' is at another place of its memory than when the program was traced, by a part of a ",
                  DTypeName(dtype));
  }
  layout.offset += *shift;
  // An alias that shares the version counter; nothing is written yet.
  absl::StatusOr<Tensor> made = Tensor::InStorage(first.tensor().storage(), dtype, std::move(layout));
  if (made.ok()) return first.DetachAs(made->WithConjNegBits(first.tensor().reading()));
  return Refuse(function_, "argument '", function_.input(base.views[0].input).name,
                "' has a smaller storage than when the program was traced: ", made.status().message());
}

// The program computes gradients only through the views that were made with gradients enabled when traced.
absl::Status SyntheticBasesStage::CheckCreation(const View& view, const Variable& given) const {
  if (!GradMode::enabled() || !given.requires_grad() || !given.is_view()) return absl::OkStatus();
  if ((given.view_creation() == ViewCreation::kNoGrad) == view.made_under_no_grad) return absl::OkStatus();
  return Refuse(function_, "argument '", function_.input(view.input).name, "' is a view made ",
                view.made_under_no_grad
                    ? "with gradients enabled; when the program was traced, it was made under no_grad"
                    : "under no_grad; when the program was traced, it was made with gradients enabled");
}

// Checks that each argument has the same layout relative to the base as when traced. All storage offsets may differ by
// one constant number of bytes.
absl::Status SyntheticBasesStage::CheckViews(const CallContext& call, const Base& base,
                                             const StridedLayout& base_layout,
                                             absl::Span<const StridedLayout> traced_views,
                                             const Variable& found) const {
  const int64_t shift = found.layout().offset - base_layout.offset;
  for (size_t i = 0; i < base.views.size(); ++i) {
    const Variable& given = call.input(base.views[i].input);
    StridedLayout expected = traced_views[i];
    const std::optional<int64_t> moved = InElementsOf(base.views[i].geometry.dtype, shift, base.geometry.dtype);
    expected.offset += moved.value_or(0);
    if (moved.has_value() && given.tensor().storage() == found.tensor().storage() && given.layout() == expected &&
        given.dtype() == base.views[i].geometry.dtype) {
      COTAN_RETURN_IF_ERROR(CheckCreation(base.views[i], given));
      continue;
    }
    if (base.views.size() == 1) {
      return Refuse(function_, "argument '", function_.input(base.views[i].input).name, "' had the layout ",
                    cotan::ToString(expected), " when the program was traced, the one given has ",
                    cotan::ToString(given.layout()));
    }
    return Refuse(function_, "argument '", function_.input(base.views[i].input).name, "' shared memory with '",
                  function_.input(base.views[i == 0 ? 1 : 0].input).name, "' as ", cotan::ToString(expected),
                  " when the program was traced, but the one given ",
                  given.tensor().storage() == found.tensor().storage()
                      ? absl::StrCat("shares it as ", cotan::ToString(given.layout()))
                      : "does not");
  }
  return absl::OkStatus();
}

absl::StatusOr<Variable> SyntheticBasesStage::FindBase(const CallContext& call, const Base& base) const {
  if (base.layout.has_value()) {
    // The common case allocates nothing.
    absl::InlinedVector<StridedLayout, 4> views;
    for (const View& view : base.views) views.push_back(*view.layout);
    COTAN_ASSIGN_OR_RETURN(Variable found, BaseOf(call, base, *base.layout, views[0]));
    COTAN_RETURN_IF_ERROR(CheckViews(call, base, *base.layout, views, found));
    return found;
  }
  COTAN_ASSIGN_OR_RETURN(const TracedBase traced, EvaluateBase(call, base));
  COTAN_ASSIGN_OR_RETURN(Variable found, BaseOf(call, base, traced.base, traced.views[0]));
  COTAN_RETURN_IF_ERROR(CheckViews(call, base, traced.base, traced.views, found));
  return found;
}

}  // namespace cotan
