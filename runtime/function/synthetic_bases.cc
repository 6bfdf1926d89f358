// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/synthetic_bases.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "base/sym_int.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/function/function_core.h"

namespace cotan {
namespace {

// Returns the values of the dynamic dimensions that are sizes of the views; 0 for the others.
DimVector SymbolsOf(FunctionCore& core, const Call& call, const CallPlan::Base& base) {
  DimVector symbols(static_cast<size_t>(core.session().program().artifact().symbols_size()), 0);
  for (const CallPlan::BaseView& view : base.views) {
    const absl::Span<const int64_t> sizes = InputAt(call, view.input).sizes();
    for (size_t i = 0; i < std::min(sizes.size(), view.geometry.sizes.size()); ++i) {
      const SymInt& size = view.geometry.sizes[i];
      if (size.kind() == SymInt::Kind::kSymbol) symbols[static_cast<size_t>(size.symbol())] = sizes[i];
    }
  }
  return symbols;
}

// Layouts of a base and its views when traced, for the current values of the dynamic dimensions.
struct TracedBase {
  StridedLayout base;
  std::vector<StridedLayout> views;
};

absl::StatusOr<TracedBase> EvaluateBase(FunctionCore& core, const Call& call, const CallPlan::Base& base) {
  TracedBase traced;
  DimVector symbols;
  if (!base.layout.has_value()) symbols = SymbolsOf(core, call, base);
  COTAN_ASSIGN_OR_RETURN(traced.base, EvaluateLayout(base.geometry, symbols));
  for (const CallPlan::BaseView& view : base.views) {
    COTAN_ASSIGN_OR_RETURN(StridedLayout layout, EvaluateLayout(view.geometry, symbols));
    traced.views.push_back(std::move(layout));
  }
  return traced;
}

bool SameShape(const StridedLayout& a, const StridedLayout& b) { return a.sizes == b.sizes && a.strides == b.strides; }

// Returns the variable that covers all views: the views' base() (or a view that is itself the base), or, if there is
// none and no gradient is needed, a new one. (merge_view_inputs() uses view._base, or a new tensor over the whole
// storage.)
absl::StatusOr<Variable> BaseOf(FunctionCore& core, const Call& call, const CallPlan::Base& base,
                                const StridedLayout& base_layout, const StridedLayout& first_layout) {
  for (const CallPlan::BaseView& view : base.views) {
    const Variable& given = InputAt(call, view.input);
    const Variable& candidate = given.is_view() ? given.base() : given;
    if (candidate.requires_grad() == base.requires_grad && candidate.dtype() == base.geometry.dtype &&
        SameShape(candidate.layout(), base_layout)) {
      return candidate;
    }
  }
  const Variable& first = InputAt(call, base.views[0].input);
  if (base.requires_grad) {
    return Refuse(core.plan(), "argument '", InputOf(core.plan(), base.views[0].input).name,
                  "' was a view of a tensor ", base.geometry.ToString(),
                  " that required grad when the program was traced; the one given is ", first.ToString());
  }
  StridedLayout layout = base_layout;
  layout.offset += first.layout().offset - first_layout.offset;
  // An alias that shares the version counter; nothing is written yet.
  absl::StatusOr<Tensor> made = Tensor::InStorage(first.tensor().storage(), first.dtype(), std::move(layout));
  if (made.ok()) return first.DetachAs(made->WithConjNegBits(first.tensor().reading()));
  return Refuse(core.plan(), "argument '", InputOf(core.plan(), base.views[0].input).name,
                "' has a smaller storage than when the program was traced: ", made.status().message());
}

// The program computes gradients only through the views that were made with gradients enabled when traced.
absl::Status CheckCreation(const CallPlan& plan, const CallPlan::BaseView& view, const Variable& given) {
  if (!GradMode::enabled() || !given.requires_grad() || !given.is_view()) return absl::OkStatus();
  if ((given.view_creation() == ViewCreation::kNoGrad) == view.made_under_no_grad) return absl::OkStatus();
  return Refuse(plan, "argument '", InputOf(plan, view.input).name, "' is a view made ",
                view.made_under_no_grad
                    ? "with gradients enabled; when the program was traced, it was made under no_grad"
                    : "under no_grad; when the program was traced, it was made with gradients enabled");
}

// Checks that each argument has the same layout relative to the base as when traced. All storage offsets may differ by
// one constant.
absl::Status CheckViews(const CallPlan& plan, const Call& call, const CallPlan::Base& base,
                        const StridedLayout& base_layout, absl::Span<const StridedLayout> traced_views,
                        const Variable& found) {
  const int64_t shift = found.layout().offset - base_layout.offset;
  for (size_t i = 0; i < base.views.size(); ++i) {
    const Variable& given = InputAt(call, base.views[i].input);
    StridedLayout expected = traced_views[i];
    expected.offset += shift;
    if (given.tensor().storage() == found.tensor().storage() && given.layout() == expected &&
        given.dtype() == base.views[i].geometry.dtype) {
      COTAN_RETURN_IF_ERROR(CheckCreation(plan, base.views[i], given));
      continue;
    }
    if (base.views.size() == 1) {
      return Refuse(plan, "argument '", InputOf(plan, base.views[i].input).name, "' had the layout ",
                    ToString(expected), " when the program was traced, the one given has ", ToString(given.layout()));
    }
    return Refuse(plan, "argument '", InputOf(plan, base.views[i].input).name, "' shared memory with '",
                  InputOf(plan, base.views[i == 0 ? 1 : 0].input).name, "' as ", ToString(expected),
                  " when the program was traced, but the one given ",
                  given.tensor().storage() == found.tensor().storage()
                      ? absl::StrCat("shares it as ", ToString(given.layout()))
                      : "does not");
  }
  return absl::OkStatus();
}

absl::StatusOr<Variable> FindBase(FunctionCore& core, const Call& call, const CallPlan::Base& base) {
  if (base.layout.has_value()) {
    // The common case allocates nothing.
    absl::InlinedVector<StridedLayout, 4> views;
    for (const CallPlan::BaseView& view : base.views) views.push_back(*view.layout);
    COTAN_ASSIGN_OR_RETURN(Variable found, BaseOf(core, call, base, *base.layout, views[0]));
    COTAN_RETURN_IF_ERROR(CheckViews(core.plan(), call, base, *base.layout, views, found));
    return found;
  }
  COTAN_ASSIGN_OR_RETURN(const TracedBase traced, EvaluateBase(core, call, base));
  COTAN_ASSIGN_OR_RETURN(Variable found, BaseOf(core, call, base, traced.base, traced.views[0]));
  COTAN_RETURN_IF_ERROR(CheckViews(core.plan(), call, base, traced.base, traced.views, found));
  return found;
}

}  // namespace

absl::Status FindBases(FunctionCore& core, Call& call) {
  const CallPlan& plan = core.plan();
  for (size_t i = 0; i < plan.bases.size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(call.bases[i], FindBase(core, call, plan.bases[i]));
    call.program_arguments[i] = &call.bases[i];
  }
  return absl::OkStatus();
}

}  // namespace cotan
