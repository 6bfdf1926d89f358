// SPDX-License-Identifier: Apache-2.0

// CallPlan: the stages of the calls of a function, compiled once from the method's metadata. All indices are resolved;
// a call looks nothing up and reads no protobuf.
//
// The stages are those parts of the runtime wrappers of AOTAutograd (_functorch/_aot_autograd/runtime_wrappers.py) that
// the method needs. AOTAutograd nests wrappers around the compiled function; here they are one straight list:
//
//   name         stages/             wrapper in AOTAutograd       action
//   flatten      subclass_wrappers   AOTDispatchSubclassWrapper   flattens arguments of wrapper types to plain tensors
//   check        check_arguments     (guards)                     checks that the arguments are as traced
//   dedupe       dedupe              AOTDedupeWrapper             checks that duplicate inputs are one tensor
//   bases        synthetic_bases     AOTSyntheticBaseWrapper      merges arguments in one storage to a base
//   primals      save_primals        -                            keeps the arguments for the differentiable backward
//   in place     in_place_checks     RuntimeWrapper               checks that autograd allows the mutations
//   forward      forward             AOTDispatchAutograd          runs the program on plain tensors; it advances the
//                                    (CompiledFunction.forward),  session's RNG state
//                                    FunctionalizedRngRuntimeWrapper
//   new leaves   new_leaves          -                            applies requires_grad_() of the traced function
//   record       record              AOTDispatchAutograd          creates the node with edges to the arguments' grad_fn
//   wrap         wrap_results        AOTDispatchAutograd          makes Variables of the forward returns, with the node
//                                                                 as grad_fn
//   write back   input_mutations     RuntimeWrapper               applies data, metadata and storage mutations
//   save         save_for_backward   AOTDispatchAutograd          saves tensors for the backward, with their versions
//   results      outputs             RuntimeWrapper               builds outputs; replays views of arguments and bases
//                                    (AliasOfInputHandler and the other output handlers)
//   retain       retained_grads      -                            applies retain_grad() of the traced function
//   rewrap       subclass_wrappers   AOTDispatchSubclassWrapper   builds outputs of wrapper types
//   grad mode    grad_mode           RuntimeWrapper               sets the grad mode at exit (grad_enabled_mutation)
//
// FunctionOptions.verify_calls adds "verify in" before "forward" and "verify out" after "retain" (stages/verify_call).
//
// EffectTokensWrapper has no stage: effect tokens order the effects while a method is compiled, and the order of the
// method's ops preserves that order (runtime/execution/effects.h).
//
// All stages except flatten and rewrap handle flat values: inputs, arguments and outputs are counted and named as those
// of the traced function over the tensors that wrappers consist of. core/function_metadata.h has the index spaces.
#ifndef COTAN_RUNTIME_FUNCTION_CALL_PLAN_H_
#define COTAN_RUNTIME_FUNCTION_CALL_PLAN_H_

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/autograd/variable.h"
#include "runtime/function/core/call_context.h"
#include "runtime/function/core/differentiable_backward.h"
#include "runtime/function/core/function_core.h"
#include "runtime/function/core/function_result.h"
#include "runtime/function/core/wrappers.h"
#include "runtime/function/stages/call_stage.h"
#include "runtime/session/session_core.h"

namespace cotan {

// The stages of the calls of one function, and the state of the call in progress, whose memory is kept between calls.
// Not thread-safe: one call at a time.
class CallPlan final : public DifferentiableBackward {
 public:
  // Makes the stages of `method`, with those of `verify_calls` (FunctionOptions). Messages and stages use the names of
  // the user's arguments. Errors: as FunctionMetadata::Create(); VerifyArtifact() has checked that the metadata is
  // consistent.
  static absl::StatusOr<std::shared_ptr<CallPlan>> Create(std::shared_ptr<SessionCore> session, int method,
                                                          bool verify_calls = false);

  // Run the stages for Function::Call() and CallWrapped(). Errors: as of these.
  absl::Status Run(absl::Span<const Variable> arguments, std::vector<FunctionResult>& results) override;
  absl::Status RunWrapped(absl::Span<const WrappedVariable> arguments, std::vector<WrappedResult>& results);

  const FunctionMetadata& metadata() const override { return core_->metadata(); }
  const FunctionStats& stats() const { return core_->stats(); }

  // Returns "call of 'name'" and one line per stage: "  dedupe      b is a".
  std::string ToString() const;

 private:
  CallPlan(std::shared_ptr<FunctionCore> core, bool verify_calls);

  template <typename Stage>
  void Add() {
    if (std::unique_ptr<CallStage> stage = Stage::Create(metadata()); stage != nullptr) {
      stages_.push_back(std::move(stage));
    }
  }
  absl::Status RunStages();

  const std::shared_ptr<FunctionCore> core_;
  std::vector<std::unique_ptr<CallStage>> stages_;
  CallContext call_;
  std::vector<FunctionResult> flat_results_;  // of RunWrapped(); empty between calls
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CALL_PLAN_H_
