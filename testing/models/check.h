// SPDX-License-Identifier: Apache-2.0

// Compiles, saves, loads and trains exported models (.pt2) in the runtime, and compares them with
// PyTorch's recorded values.
#ifndef COTAN_TESTING_MODELS_CHECK_H_
#define COTAN_TESTING_MODELS_CHECK_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace cotan::testing {

struct CheckOptions {
  std::string scratch_folder = "/tmp";  // for artifacts, which are deleted
  int threads = 1;
  // Backend of the models; see OpenBackend().
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

// Returns the .pt2 files of a folder, sorted. NotFound: no such folder, or none in it.
absl::StatusOr<std::vector<std::string>> FindModels(const std::string& folder);

// Checks one model. NAME.safetensors and NAME.json are in the folder of `path`; NAME_func.pt2 uses
// those of NAME. Compares a step, its gradients and buffers, and five updates by SGD at two
// learning rates. For a model without golden values (dropout) checks that all values are finite,
// that the same seed gives the same bits and that another seed does not.
ModelReport CheckModel(const std::string& path, const CheckOptions& options);

// Returns "mlp   ok   worst 0.08 (grad net.3.weight) ...".
std::string ToLine(const ModelReport& report);
// Returns {"models": [...], "passed": 3, "failed": 1}.
std::string ToJson(const std::vector<ModelReport>& reports);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_MODELS_CHECK_H_
