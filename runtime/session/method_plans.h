// SPDX-License-Identifier: Apache-2.0

// The plan cache of one method: executables by sizes.
#ifndef COTAN_RUNTIME_SESSION_METHOD_PLANS_H_
#define COTAN_RUNTIME_SESSION_METHOD_PLANS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "planning/schedule.h"
#include "runtime/execution/executable.h"
#include "runtime/session/memory_overlap.h"
#include "runtime/session/session_core.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

// Caches the executables of one method for the sizes it was called with, at most SessionCore::max_plans();
// evicts the least recently used. Not thread-safe. The core outlives it.
class MethodPlans {
 public:
  // The first `num_saved` inputs of the method (a backward's saved values) are not among the arguments of
  // Prepare(). A negative `method` has no plans.
  MethodPlans(SessionCore& core, int method, int num_saved, ScheduleOptions options = {});

  // Returns the executable for these arguments, bound and ready for SetInput(): the one used last if it fits,
  // else a cached one, else a new one. `known` holds the values of the dynamic dimensions if they are known,
  // else it is null.
  // InvalidArgument, OutOfRange: as CheckArguments() and CheckMemory().
  // NotFound, Unimplemented, ResourceExhausted: as Executable::Make().
  absl::StatusOr<Executable*> Prepare(absl::Span<const Tensor* const> arguments, const DimVector* known = nullptr);

  // Checks, for the plan used last, that no write of the method changes other memory that it reads. `inputs`
  // are the method's inputs from index `first` on.
  // InvalidArgument: an input shares memory with a state that the method updates, or CheckWrite() fails for
  // an input that the method writes.
  absl::Status CheckMemory(absl::Span<const Tensor* const> inputs, int first) const;

  // Checks elements `written` of input `input` that are written by the method or after it has run. `inputs`
  // and `first` are those of CheckMemory().
  // InvalidArgument: the elements overlap each other, another input, or a state that the method or its
  // backward reads or updates.
  absl::Status CheckWrite(int input, const MemoryRegion& written, absl::Span<const Tensor* const> inputs,
                          int first) const;

  // Returns the executable used last; null before the first call.
  Executable* last() const { return executables_.empty() ? nullptr : executables_.back().get(); }
  int num_saved() const { return num_saved_; }

 private:
  absl::StatusOr<Executable*> FindOrPlan(absl::Span<const int64_t> symbols);
  std::string NameOf(int input) const;

  SessionCore& core_;
  const int method_;
  const int num_saved_;
  const ScheduleOptions options_;
  StateIntervals updated_states_;
  StateIntervals used_states_;                            // those that the method or its backward reads or updates
  std::vector<std::unique_ptr<Executable>> executables_;  // used last comes last
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_METHOD_PLANS_H_
