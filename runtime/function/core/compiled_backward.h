// SPDX-License-Identifier: Apache-2.0

// CompiledBackward: the autograd node of a compiled forward, the equivalent of CompiledFunction.backward in
// AOTDispatchAutograd (_functorch/_aot_autograd/runtime_wrappers.py).
#ifndef COTAN_RUNTIME_FUNCTION_CORE_COMPILED_BACKWARD_H_
#define COTAN_RUNTIME_FUNCTION_CORE_COMPILED_BACKWARD_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "runtime/autograd/hooks.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/saved_tensor_hooks.h"
#include "runtime/autograd/saved_variable.h"
#include "runtime/autograd/variable.h"
#include "runtime/function/core/differentiable_backward.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

class FunctionCore;

// A node whose inputs are the tangents and whose edges correspond to the outputs of the backward method. Owns the saved
// values of its call, so that several calls may be outstanding. Keeps the FunctionCore, and through it the session's
// core, alive.
class CompiledBackward final : public autograd::Node {
 public:
  // Creates a node without saved values, inputs and edges. `symbols`: the values of the dynamic dimensions in the call.
  CompiledBackward(std::shared_ptr<FunctionCore> core, const DimVector& symbols);
  ~CompiledBackward() override;

  // --- ctx.save_for_backward(): called for each saved value in order, then SealStates() ---

  // Appends a saved value whose memory no other tensor uses.
  // Both pack the value if the thread has a SavedTensorHooksScope, unless the program has put it into the device's
  // pinned memory; errors are those of the hook.
  absl::Status SaveOwn(Tensor value);
  // Appends a saved value that is an argument or a result. If `is_checked`, Apply() fails if the variable's version has
  // changed. If `is_argument`, the backward may mutate it.
  absl::Status SaveShared(const Variable& variable, bool is_checked, bool is_argument);
  // Records the versions of the states that the backward reads; Apply() fails if one has changed.
  void SealStates();
  // Keeps the arguments of the call for the differentiable backward.
  void SavePrimals(SavedPrimals primals) { primals_ = std::move(primals); }

  // Notes that `grad_fn` is that of an argument whose new value has the gradient `tangent`, or of a variable with a
  // part of this value, so that its hooks get that gradient.
  void AddWritten(int tangent, autograd::Node& grad_fn);

  absl::string_view name() const override;
  absl::string_view program_name() const override;
  // Runs the backward method and returns one gradient per edge. A gradient that depends on no defined tangent is
  // undefined. FailedPrecondition: the saved values have been freed; a saved value or a state has been written since
  // the forward; deterministic algorithms are enabled but were disabled when the forward was traced. InvalidArgument:
  // the number, dtype or sizes of the tangents differ from the traced ones.
  absl::StatusOr<autograd::Gradients> Apply(autograd::BackwardContext& context, absl::Span<Tensor> incoming) override;
  // Runs the differentiable backward and returns one gradient per edge, with history. Unimplemented: the function was
  // not compiled with a sufficient CompileOptions::order. FailedPrecondition: as Apply(); an argument has been written
  // since the forward.
  absl::Status ApplyRecorded(autograd::BackwardContext& context, absl::Span<Variable> incoming,
                             std::vector<Variable>& results) override;
  bool HasDependentInputs() const override;
  absl::Status CheckGradientOf(int requested, int arriving) const override;
  bool HasGradientHooksOf(int input) const override;
  void ReleaseSaved() override;

  // Captured if the backward has no effects, writes nothing, takes no values in pinned memory and runs on the device,
  // kernels and threads of the engine's operations: the method is spliced into the captured program.
  absl::StatusOr<bool> Describe(const autograd::BackwardContext& context, absl::Span<const bool> incoming,
                                absl::Span<bool> results, autograd::CaptureRecord& record) override;
  absl::Status Emit(autograd::CaptureEmitter& emitter, absl::Span<const autograd::CapturedValue> incoming,
                    absl::Span<autograd::CapturedValue> results) override;
  bool UnpacksSaved() const override { return has_packed_; }
  void CompleteCapture(const autograd::BackwardContext& context, absl::Span<Tensor> outputs) override;

 private:
  struct Saved {
    Tensor own;                            // defined unless the version is checked
    autograd::SavedVariable checked = {};  // the value with its version, if `own` is undefined
    Variable written = {};                 // detached alias of an argument, whose version the backward bumps
    bool is_own = false;                   // added by SaveOwn(): its buffer is recycled
    std::optional<autograd::PackedTensor> packed = std::nullopt;  // in place of the value
  };

  absl::Status CheckMode() const;
  // The version of a state that a backward reads, and of its Variable.
  struct StateVersion {
    int state;
    uint64_t version;
    uint32_t variable;
  };
  std::vector<StateVersion> VersionsOf(const std::vector<int>& states) const;
  absl::Status CheckStates(const std::vector<StateVersion>& sealed) const;
  // Returns whether gradient `i` is needed, and depends on a defined tangent or on none at all.
  bool IsDefined(int i, const autograd::BackwardContext& context, absl::Span<const bool> incoming) const;
  // Returns whether the backward may overwrite its donated saved values.
  bool Overwrites(const autograd::BackwardContext& context) const;
  // Returns whether the method can be part of a captured program that runs with `ops`.
  bool IsCapturable(const TensorOps& ops) const;
  // Returns the saved values in order. FailedPrecondition: a checked one has been written.
  absl::StatusOr<std::vector<Tensor>> Unpack() const;
  // Checks the arguments and states that the backward writes. InvalidArgument: one shares memory with another input of
  // the backward.
  absl::Status CheckMemory(bool overwrites, absl::Span<const Tensor> values,
                           absl::Span<const Tensor* const> tangents) const;
  using Tangents = absl::InlinedVector<Tensor, 4>;
  // Returns the inputs of the method that follow the saved values: the tangents, zeros for undefined ones, then, if
  // BackwardMetadata::takes_flags, one flag per tangent that says whether it is defined.
  absl::StatusOr<Tangents> TakeTangents(autograd::BackwardContext& context, absl::Span<Tensor> incoming) const;

  const std::shared_ptr<FunctionCore> core_;
  const DimVector symbols_;
  std::vector<Saved> saved_;
  std::vector<StateVersion> read_states_;                                  // by the backward
  std::vector<StateVersion> states_read_differentiably_;                   // by the differentiable backward
  std::optional<SavedPrimals> primals_;                                    // set if there is a differentiable backward
  std::vector<std::pair<int, std::shared_ptr<autograd::Hooks>>> written_;  // tangents, and hooks of AddWritten()
  bool is_freed_ = false;
  bool has_packed_ = false;
  bool is_described_ = false;  // the last Describe() found a gradient to compute
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CORE_COMPILED_BACKWARD_H_
