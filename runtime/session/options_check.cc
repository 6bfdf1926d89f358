// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/options_check.h"

#include "absl/strings/str_cat.h"
#include "base/denormal_mode.h"
#include "base/status_macros.h"
#include "kernels/api/communicator.h"
#include "serialization/schema/program.pb.h"

namespace cotan {
namespace {

// Returns OK if the ranks of `communicator` can run the program on `device`; with none, if it has no collectives.
absl::Status CheckCollectives(const Program& program, Communicator* communicator, const Device& device) {
  if (communicator != nullptr) return communicator->CheckProgram(program.artifact(), device);
  for (const serialization::Method& method : program.artifact().methods()) {
    for (const serialization::Op& op : method.ops()) {
      if (!op.has_collective()) continue;
      return absl::FailedPreconditionError(
          absl::StrCat("method '", method.name(),
                       "' was compiled for data parallel training, but "
                       "SessionOptions.communicator is not set (runtime/distributed)"));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckFlushDenormals(const Device& device) {
  if (device.type() != DeviceType::kCpu) {
    return absl::InvalidArgumentError(absl::StrCat("SessionOptions.flush_denormals is for the CPU, but the device is ",
                                                   DeviceTypeName(device.type()),
                                                   ", which computes with subnormal numbers at full speed"));
  }
  if (CanFlushDenormals()) return absl::OkStatus();
  return absl::UnimplementedError(
      "SessionOptions.flush_denormals: this processor always computes with subnormal numbers");
}

}  // namespace

absl::Status CheckOptions(const Program& program, const SessionOptions& options, const Device& device) {
  if (options.kernels == nullptr) {
    return absl::InvalidArgumentError("SessionOptions.kernels is not set: link a backend and pass its registry");
  }
  if (options.threads < 0 || options.max_plans < 1) {
    return absl::InvalidArgumentError(absl::StrCat("SessionOptions: threads = ", options.threads, ", max_plans = ",
                                                   options.max_plans, "; threads >= 0 and max_plans >= 1 are needed"));
  }
  COTAN_RETURN_IF_ERROR(options.effects.Check(program));
  COTAN_RETURN_IF_ERROR(CheckCollectives(program, options.communicator, device));
  return options.flush_denormals ? CheckFlushDenormals(device) : absl::OkStatus();
}

}  // namespace cotan
