// The node of a call of a Function: its backward is a method of the program.
#ifndef COTAN_RUNTIME_FUNCTION_COMPILED_BACKWARD_H_
#define COTAN_RUNTIME_FUNCTION_COMPILED_BACKWARD_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/inlined_vector.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/saved_variable.h"
#include "runtime/autograd/variable.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

class FunctionCore;

// Inputs are the program's tangents, edges the backward method's results. Owns
// what its own call saved, so that several calls may be outstanding; keeps the
// function and the session's core alive.
class CompiledBackward final : public autograd::Node {
 public:
  // `symbols`: values of the dynamic dimensions of the call.
  CompiledBackward(std::shared_ptr<FunctionCore> core, const DimVector& symbols);
  ~CompiledBackward() override;

  // What the forward leaves, by position; all of them, then SealStates().
  // A value in memory of its own that nobody else sees.
  void SaveOwn(Tensor value);
  // The tensor of an argument or a result. If `is_checked`, it must not be
  // written before the backward. If `is_argument`, the backward may write it.
  void SaveShared(const Variable& variable, bool is_checked, bool is_argument);
  // The states that the backward reads must stay as they are now.
  void SealStates();

  absl::string_view name() const override;
  // A gradient that depends on no defined tangent is undefined.
  // FailedPrecondition: freed; a saved value or state has been written since;
  // deterministic algorithms are enabled now and were disabled when the forward
  // was traced.
  // InvalidArgument: tangents of another number, dtype or sizes.
  absl::StatusOr<autograd::Gradients> Apply(autograd::BackwardContext& context, absl::Span<Tensor> incoming) override;
  void ReleaseSaved() override;

 private:
  struct Saved {
    Tensor own;                            // memory of its own, or without check
    autograd::SavedVariable checked = {};  // if `own` is undefined
    Variable written = {};                 // shares versions with an argument that the backward writes
    bool is_own = false;
  };

  absl::Status CheckMode() const;
  absl::Status CheckStates() const;
  // Whether gradient `i` is asked for and depends on a defined tangent.
  bool IsDefined(int i, const autograd::BackwardContext& context, absl::Span<const Tensor> incoming) const;
  absl::StatusOr<std::vector<Tensor>> Unpack() const;
  absl::Status CheckMemory(bool overwrites, absl::Span<const Tensor> values,
                           absl::Span<const Tensor* const> tangents) const;
  using Tangents = absl::InlinedVector<Tensor, 4>;
  // What the method takes behind the saved values: zeros for undefined tangents, and
  // flags if it asks which are defined.
  absl::StatusOr<Tangents> TakeTangents(autograd::BackwardContext& context, absl::Span<Tensor> incoming) const;

  const std::shared_ptr<FunctionCore> core_;
  const DimVector symbols_;
  std::vector<Saved> saved_;
  std::vector<uint64_t> state_versions_;     // by read state
  std::vector<uint32_t> variable_versions_;  // of the states' variables
  bool is_freed_ = false;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_COMPILED_BACKWARD_H_
