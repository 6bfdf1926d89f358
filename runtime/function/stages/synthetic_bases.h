// SPDX-License-Identifier: Apache-2.0

// SyntheticBasesStage: arguments that share memory (AOTSyntheticBaseWrapper, merge_view_inputs() in
// runtime_wrappers.py).
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_SYNTHETIC_BASES_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_SYNTHETIC_BASES_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "runtime/autograd/variable.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/stages/call_stage.h"
#include "serialization/metadata/tensor_geometry.h"

namespace cotan {

// Replaces the arguments of each group that shares memory by one synthetic base, which it finds or creates in
// call.bases and sets in call.program_arguments; the program takes the views of it itself. Runs after the arguments
// have been checked. InvalidArgument: the arguments are not the same views of a common storage as when traced, up to
// one storage offset for the whole group.
class SyntheticBasesStage final : public CallStage {
 public:
  struct View {
    int input = 0;
    TensorGeometry geometry;              // in the storage of the base
    std::optional<StridedLayout> layout;  // `geometry`, if it has no dynamic dimensions
    // The view was made under no_grad of a tensor that requires grad: no gradient flows through it to the base.
    bool made_under_no_grad = false;
  };
  struct Base {
    TensorGeometry geometry;
    std::optional<StridedLayout> layout;  // if neither it nor a view has dynamic dimensions
    bool requires_grad = false;
    std::vector<View> views;  // at least one
  };

  // Sizes of an input that no base covers: they may determine dynamic dimensions that a base depends on.
  struct InputSizes {
    int input = 0;
    SymIntVector sizes;
  };

  static std::unique_ptr<SyntheticBasesStage> Create(const FunctionMetadata& function);
  SyntheticBasesStage(const FunctionMetadata& function, std::vector<Base> bases, std::vector<InputSizes> own_sizes)
      : function_(function), bases_(std::move(bases)), own_sizes_(std::move(own_sizes)) {}

  absl::string_view name() const override { return "bases"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override;

 private:
  struct TracedBase;

  absl::StatusOr<TracedBase> EvaluateBase(const CallContext& call, const Base& base) const;
  absl::StatusOr<Variable> FindBase(const CallContext& call, const Base& base) const;
  absl::StatusOr<Variable> BaseOf(const CallContext& call, const Base& base, const StridedLayout& base_layout,
                                  const StridedLayout& first_layout) const;
  absl::Status CheckCreation(const View& view, const Variable& given) const;
  absl::Status CheckViews(const CallContext& call, const Base& base, const StridedLayout& base_layout,
                          absl::Span<const StridedLayout> traced_views, const Variable& found) const;

  const FunctionMetadata& function_;
  const std::vector<Base> bases_;
  const std::vector<InputSizes> own_sizes_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_SYNTHETIC_BASES_H_
