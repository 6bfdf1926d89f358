// SPDX-License-Identifier: Apache-2.0

// A method of an artifact on arguments made from their types, without LibTorch.
#ifndef COTAN_TESTING_BENCH_LOADED_STEP_H_
#define COTAN_TESTING_BENCH_LOADED_STEP_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "runtime/session.h"

namespace cotan::testing {

// The memory of the states that no method updates: pages of the file, or copies of them (docs/memory.md).
enum class StateMemory : uint8_t { kMapped, kCopied };

// A method, by default `train_step`, of an artifact with fixed sizes. Floating point arguments are values in [-1, 1)
// that depend on their index alone, integers are 0 or 1, which every class and token of the models can be.
class LoadedStep {
 public:
  // Loads the artifact; the duration of this is that of Program::Load(), or of LoadShared() for copied states.
  static absl::StatusOr<std::unique_ptr<LoadedStep>> Load(const std::string& artifact,
                                                          const std::string& method = "train_step",
                                                          StateMemory states = StateMemory::kMapped);

  // Creates the session and the arguments. NotFound: there is no such method. InvalidArgument: an input has a dynamic
  // size or a dtype without values here.
  absl::Status Start(int threads);

  // Runs a step. Start() has returned OK.
  absl::Status Run();

  // Returns the bytes of all results of the last step.
  std::string ResultBits() const;
  // Returns the same and the bytes of all states.
  absl::StatusOr<std::string> Bits() const;

 private:
  LoadedStep(std::shared_ptr<const Program> program, std::string name)
      : program_(std::move(program)), name_(std::move(name)) {}
  absl::Status MakeArguments();

  std::shared_ptr<const Program> program_;
  std::string name_;  // of the method
  std::unique_ptr<Session> session_;
  MethodHandle method_;
  std::vector<Tensor> arguments_;
  std::vector<Tensor> results_;
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_BENCH_LOADED_STEP_H_
