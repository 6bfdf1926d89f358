// SPDX-License-Identifier: Apache-2.0

// Trains compiled models in the runtime, without LibTorch, and compares them with PyTorch's recorded values.
#ifndef COTAN_TESTING_MODELS_CHECK_PROGRAM_H_
#define COTAN_TESTING_MODELS_CHECK_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "runtime/execution/program.h"
#include "testing/models/golden.h"

namespace cotan::testing {

struct ProgramCheckOptions {
  int threads = 1;
  // Backend of the program; see OpenBackend().
  std::string device = "cpu";
};

struct ModelReport {
  std::string name;
  // OK, or the reason of the failure: the model could not be compiled or run, or a value is wrong.
  absl::Status status;
  double worst = 0;         // largest error in units of its tolerance
  std::string worst_where;  // "grad net.3.weight"
  int values = 0;           // values compared
  double compile_seconds = 0;
  double step_seconds = 0;  // the fastest "train_step"
  int64_t peak_bytes = 0;   // of a "train_step": states, and most of the arena alive at once
  int64_t artifact_bytes = 0;
  int step_ops = 0;  // of "train_step"
};

// Checks a program that was compiled with the loss output:0 and SGD with the momentum of `golden`: compares a step, its
// gradients and buffers, and five updates at two learning rates. For a model without golden values (dropout) checks
// that all values are finite, that the same seed gives the same bits and that another seed does not. Fills the values,
// the times of steps and the memory of `report`.
// DataLoss: a value is beyond its tolerance. Errors of OpenBackend() and Session.
absl::Status CheckProgram(std::shared_ptr<const Program> program, const Golden& golden,
                          const ProgramCheckOptions& options, ModelReport& report);

// Returns "mlp   ok   worst 0.08 (grad net.3.weight) ...".
std::string ToLine(const ModelReport& report);
// Returns {"models": [...], "passed": 3, "failed": 1}.
std::string ToJson(const std::vector<ModelReport>& reports);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_MODELS_CHECK_PROGRAM_H_
