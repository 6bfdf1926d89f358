// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/synthetic_bases.h"

#include <algorithm>

#include "absl/container/inlined_vector.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
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

// Returns the values of the dynamic dimensions that are sizes of the views; 0 for the others.
DimVector SymbolsOf(const CallContext& call, const SyntheticBasesStage::Base& base) {
  DimVector symbols(static_cast<size_t>(call.core.session().program().artifact().symbols_size()), 0);
  for (const SyntheticBasesStage::View& view : base.views) {
    const absl::Span<const int64_t> sizes = call.input(view.input).sizes();
    for (size_t i = 0; i < std::min(sizes.size(), view.geometry.sizes.size()); ++i) {
      const SymInt& size = view.geometry.sizes[i];
      if (size.kind() == SymInt::Kind::kSymbol) symbols[static_cast<size_t>(size.symbol())] = sizes[i];
    }
  }
  return symbols;
}

bool SameShape(const StridedLayout& a, const StridedLayout& b) { return a.sizes == b.sizes && a.strides == b.strides; }

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
  return std::make_unique<SyntheticBasesStage>(function, std::move(bases));
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
  if (!base.layout.has_value()) symbols = SymbolsOf(call, base);
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
  layout.offset += first.layout().offset - first_layout.offset;
  // An alias that shares the version counter; nothing is written yet.
  absl::StatusOr<Tensor> made = Tensor::InStorage(first.tensor().storage(), first.dtype(), std::move(layout));
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
// one constant.
absl::Status SyntheticBasesStage::CheckViews(const CallContext& call, const Base& base,
                                             const StridedLayout& base_layout,
                                             absl::Span<const StridedLayout> traced_views,
                                             const Variable& found) const {
  const int64_t shift = found.layout().offset - base_layout.offset;
  for (size_t i = 0; i < base.views.size(); ++i) {
    const Variable& given = call.input(base.views[i].input);
    StridedLayout expected = traced_views[i];
    expected.offset += shift;
    if (given.tensor().storage() == found.tensor().storage() && given.layout() == expected &&
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
