// SPDX-License-Identifier: Apache-2.0

// The schedules of a method that the runtime may ask for.
//
// Session::Run() plans a method with default options. A Function (runtime/function) leaves results out that it makes
// from other tensors, writes new contents of arguments in place, keeps saved values where they are, skips them in calls
// that are not recorded, and lets a backward overwrite the saved values that it is the last to read. Kernels that are
// compiled ahead of time have to fit each of these schedules.
#ifndef COTAN_AOT_CUDA_FUNCTION_SCHEDULES_H_
#define COTAN_AOT_CUDA_FUNCTION_SCHEDULES_H_

#include <vector>

#include "absl/status/statusor.h"
#include "planning/schedule.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// The options of a function's plans; those of FunctionCore (runtime/function/core/function_core.h).
struct FunctionSchedules {
  ScheduleOptions recorded_forward;  // the call makes a grad_fn
  ScheduleOptions plain_forward;     // it makes none: saved values are not computed
  ScheduleOptions donated_backward;  // the graph is not retained; one that is has default options
};

// Returns the schedules of a Function of `method`, a method of an artifact that has passed VerifyArtifact(). The
// options are empty for a method that cannot be one: it has no metadata, is a backward, or returns gradients itself.
// InvalidArgument, Unimplemented: the metadata is malformed or of a newer version.
absl::StatusOr<FunctionSchedules> SchedulesOfFunction(const serialization::Method& method);

// Returns all options with which the runtime may plan `method`, a method of `artifact`: the default ones first, then
// those of a Function, if they differ. Errors of SchedulesOfFunction().
absl::StatusOr<std::vector<ScheduleOptions>> SchedulesOf(const serialization::Artifact& artifact,
                                                         const serialization::Method& method);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CUDA_FUNCTION_SCHEDULES_H_
