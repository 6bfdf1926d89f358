// The executables of one method, for the sizes that it was called with.
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

// Keeps as many as the core allows; the one not used for longest goes. Not
// thread-safe. The core outlives it.
class MethodPlans {
 public:
  // Leaves the first `num_saved` inputs out of what callers give (a backward's
  // saved values).
  MethodPlans(SessionCore& core, int method, int num_saved, ScheduleOptions options = {});

  // The executable for these arguments, bound and ready for SetInput(): the last
  // one if they are like the last ones, else one that was kept, else a new one.
  // `known`: the values of the dynamic dimensions, if they are known already.
  // InvalidArgument, OutOfRange: as CheckArguments(); CheckMemory() of the
  // arguments. NotFound, Unimplemented, ResourceExhausted: as Executable::Make().
  absl::StatusOr<Executable*> Prepare(absl::Span<const Tensor* const> arguments, const DimVector* known = nullptr);

  // Checks for the plan used last that no write of the method changes what it
  // reads elsewhere. `inputs` are those of the method from `first` on.
  // InvalidArgument: an input shares memory with a state that the method updates;
  // as CheckWrite() for each input that the method writes.
  absl::Status CheckMemory(absl::Span<const Tensor* const> inputs, int first) const;

  // The same for elements of input `input` that are written after the method has
  // run. InvalidArgument: they overlap themselves, another input, or a state that
  // the method or its backward reads or updates.
  absl::Status CheckWrite(int input, const MemoryRegion& written, absl::Span<const Tensor* const> inputs,
                          int first) const;

  // The one used last; null before the first call.
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
