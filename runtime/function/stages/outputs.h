// SPDX-License-Identifier: Apache-2.0

// OutputsStage: the outputs of a call (RuntimeWrapper, make_output_handler()).
#ifndef COTAN_RUNTIME_FUNCTION_STAGES_OUTPUTS_H_
#define COTAN_RUNTIME_FUNCTION_STAGES_OUTPUTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "runtime/autograd/variable.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/stages/call_stage.h"
#include "serialization/metadata/output_alias_info.h"
#include "serialization/metadata/tensor_geometry.h"
#include "serialization/metadata/view_step.h"

namespace cotan {

// Builds the outputs and replays the views of aliasing outputs.
class OutputsStage final : public CallStage {
 public:
  struct Output {
    enum class Kind : uint8_t {
      kScalar,
      kReturned,            // NoopAliasHandler; index: returned value
      kSameOutput,          // the same tensor as another output; index: output
      kIsInput,             // IsInputHandler; index: input
      kViewOfInput,         // AliasOfInputHandler; index: input
      kViewOfBase,          // AliasOfIntermediateHandler; index: returned value
      kViewOfOutput,        // AliasOfIntermediateHandler, base is an output; index: output
      kSharesInputStorage,  // in the storage of an input, with a grad_fn of its own; index: input
    };
    Kind kind = Kind::kScalar;
    int output = 0;
    int index = 0;
    ScalarOutput scalar;
    std::vector<ViewStep> steps;
    std::optional<TensorGeometry> geometry;  // set in place of steps
    bool requires_grad = false;
    bool under_no_grad = false;            // the view is taken under no_grad
    bool not_a_view = false;               // autograd must not know it as a view
    int tangent = -1;                      // kSharesInputStorage; -1: none
    int before = -1;                       // kViewOfInput: metadata mutation before which the input is viewed; -1: none
    std::optional<ViewCreation> creation;  // kSharesInputStorage: set for a view of an unreturned base
  };

  static std::unique_ptr<OutputsStage> Create(const FunctionMetadata& function);
  // An output that others are made from must come before them.
  OutputsStage(const FunctionMetadata& function, std::vector<Output> outputs)
      : function_(function), outputs_(std::move(outputs)) {}

  absl::string_view name() const override { return "results"; }
  absl::Status Run(CallContext& call) override;
  std::string ToString() const override;

 private:
  std::string Describe(const Output& output) const;

  const FunctionMetadata& function_;
  const std::vector<Output> outputs_;
};

// Returns, by metadata mutation, whether an output is a view of the input with its old metadata.
std::vector<bool> HaveViewsWithOldMetadata(const FunctionMetadata& function);

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_STAGES_OUTPUTS_H_
