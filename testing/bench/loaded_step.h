// SPDX-License-Identifier: Apache-2.0

// A training step of an artifact on arguments made from their types, without LibTorch.
#ifndef COTAN_TESTING_BENCH_LOADED_STEP_H_
#define COTAN_TESTING_BENCH_LOADED_STEP_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/session.h"

namespace cotan::testing {

// The method `train_step` of an artifact with fixed sizes. Floating point arguments are values in [-1, 1) that depend
// on their index alone, integers are 0 or 1, which every class and token of the models can be.
class LoadedStep {
 public:
  // Loads the artifact; the duration of this is that of Program::Load().
  static absl::StatusOr<std::unique_ptr<LoadedStep>> Load(const std::string& artifact);

  // Creates the session and the arguments. InvalidArgument: an input has a dynamic size or a dtype without values here.
  absl::Status Start(int threads);

  // Runs a step. Start() has returned OK.
  absl::Status Run();

  // Returns the bytes of all results of the last step and of all states.
  absl::StatusOr<std::string> Bits() const;

 private:
  explicit LoadedStep(std::shared_ptr<const Program> program) : program_(std::move(program)) {}
  absl::Status MakeArguments();

  std::shared_ptr<const Program> program_;
  std::unique_ptr<Session> session_;
  MethodHandle train_step_;
  std::vector<Tensor> arguments_;
  std::vector<Tensor> results_;
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_BENCH_LOADED_STEP_H_
