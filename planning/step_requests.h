// SPDX-License-Identifier: Apache-2.0

// The requests for the kernels of a step. The runtime prepares kernels from them, the compiler compiles CUDA kernels:
// both make the same ones.
#ifndef COTAN_PLANNING_STEP_REQUESTS_H_
#define COTAN_PLANNING_STEP_REQUESTS_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "kernels/api/kernel.h"
#include "planning/schedule.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// The operands of a step and one request per op: more than one for a group, two for a product whose right operand is
// computed: the product, then the expression, as in ComputedOperandRequest. The requests have no device and no name.
// They borrow the operands, the schedule, the method and the symbols; the object is not moved or copied.
class StepRequests {
 public:
  StepRequests(const serialization::Method& method, const Schedule& schedule, const ScheduledStep& step,
               absl::Span<const int64_t> symbols);
  StepRequests(const StepRequests&) = delete;
  StepRequests& operator=(const StepRequests&) = delete;

  // Returns the operands, one request's after another's.
  absl::Span<const TensorSpec> inputs() const { return inputs_; }
  absl::Span<const TensorSpec> outputs() const { return outputs_; }
  absl::Span<KernelRequest> requests() { return absl::MakeSpan(requests_); }

 private:
  void AddPair(const serialization::Method& method, const ScheduledStep& step, absl::Span<const int64_t> symbols,
               bool guarded);

  std::vector<TensorSpec> inputs_;
  std::vector<TensorSpec> outputs_;
  std::vector<KernelRequest> requests_;
};

}  // namespace cotan

#endif  // COTAN_PLANNING_STEP_REQUESTS_H_
