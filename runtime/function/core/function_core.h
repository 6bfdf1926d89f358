// SPDX-License-Identifier: Apache-2.0

// FunctionCore: the state that copies of a Function and the backward nodes of its results share.
#ifndef COTAN_RUNTIME_FUNCTION_CORE_FUNCTION_CORE_H_
#define COTAN_RUNTIME_FUNCTION_CORE_FUNCTION_CORE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "runtime/function/core/differentiable_backward.h"
#include "runtime/function/core/function_metadata.h"
#include "runtime/function/core/function_result.h"
#include "runtime/session/method_plans.h"
#include "runtime/session/session_core.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

// Owns the description of the function, the method plans of the forward and the backward, and the recycled buffers of
// saved values. Not thread-safe. Not movable: the stages of the calls and the backward nodes hold references to it.
class FunctionCore : public std::enable_shared_from_this<FunctionCore> {
 public:
  FunctionCore(std::shared_ptr<SessionCore> session, FunctionMetadata metadata);
  FunctionCore(const FunctionCore&) = delete;
  FunctionCore& operator=(const FunctionCore&) = delete;

  SessionCore& session() { return *session_; }
  const FunctionMetadata& metadata() const { return metadata_; }
  FunctionStats& stats() { return stats_; }

  // Returns the plans of the forward: with saved values if `is_recorded`, else without.
  MethodPlans& forward(bool is_recorded) { return is_recorded ? recorded_forward_ : plain_forward_; }
  // Returns the plans of the backward, which may overwrite the donated saved values if `donated`. Nothing is planned
  // before the first backward.
  MethodPlans& backward(bool donated) { return donated ? donated_backward_ : plain_backward_; }

  // Returns MethodFingerprint() of the backward method (linking/fingerprint.h), computed by the first call.
  // Precondition: there is one.
  uint64_t backward_fingerprint();

  // Returns the function that computes the gradients with history; null if the method has none.
  DifferentiableBackward* differentiable_backward() const { return differentiable_backward_.get(); }
  // Sets it, before the first call.
  void SetDifferentiableBackward(std::shared_ptr<DifferentiableBackward> backward) {
    differentiable_backward_ = std::move(backward);
  }

  // Returns a buffer for saved value `index` that a previous backward released, or an undefined tensor if there is
  // none.
  Tensor AcquireSavedBuffer(int index);
  // Returns a buffer to the pool. It is dropped if another tensor shares its storage.
  void ReleaseSavedBuffer(int index, Tensor memory);

 private:
  const std::shared_ptr<SessionCore> session_;
  const FunctionMetadata metadata_;
  MethodPlans recorded_forward_;
  MethodPlans plain_forward_;
  MethodPlans plain_backward_;
  MethodPlans donated_backward_;
  std::shared_ptr<DifferentiableBackward> differentiable_backward_;
  std::vector<std::vector<Tensor>> freed_;  // by saved value
  std::optional<uint64_t> backward_fingerprint_;
  FunctionStats stats_;
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_FUNCTION_CORE_FUNCTION_CORE_H_
