// The executables of one method, for the sizes that it was called with.
#ifndef COTAN_RUNTIME_METHOD_PLANS_H_
#define COTAN_RUNTIME_METHOD_PLANS_H_

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "planning/schedule.h"
#include "runtime/executable.h"
#include "runtime/session_core.h"
#include "runtime/tensor.h"

namespace cotan {

// Keeps as many as the core allows; the one not used for longest goes. Not
// thread-safe. The core outlives it.
class MethodPlans {
 public:
  // Leaves the first `num_saved` inputs out of what callers give (a backward's
  // saved values).
  MethodPlans(SessionCore& core, int method, int num_saved, ScheduleOptions options = {})
      : core_(core), method_(method), num_saved_(num_saved), options_(std::move(options)) {}

  // The executable for these arguments, bound and ready for SetInput(): the last
  // one if they are like the last ones, else one that was kept, else a new one.
  // `known`: the values of the dynamic dimensions, if they are known already.
  // InvalidArgument, OutOfRange: as CheckArguments(); an argument that the
  // method writes overlaps itself, another argument, or a state. NotFound,
  // Unimplemented, ResourceExhausted: as Executable::Make().
  absl::StatusOr<Executable*> Prepare(absl::Span<const Tensor* const> arguments, const DimVector* known = nullptr);

  // The one used last; null before the first call.
  Executable* last() const { return executables_.empty() ? nullptr : executables_.back().get(); }
  int num_saved() const { return num_saved_; }

 private:
  absl::StatusOr<Executable*> FindOrPlan(absl::Span<const int64_t> symbols);
  absl::Status CheckWrites(const Plan& plan, absl::Span<const Tensor* const> arguments) const;
  absl::Status CheckWrite(int written, absl::Span<const Tensor* const> arguments) const;
  std::string NameOf(int input) const;

  SessionCore& core_;
  const int method_;
  const int num_saved_;
  const ScheduleOptions options_;
  std::vector<std::unique_ptr<Executable>> executables_;  // used last comes last
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_METHOD_PLANS_H_
