// SPDX-License-Identifier: Apache-2.0

// Compiles, saves, loads and trains exported models (.pt2) in the runtime, and compares them with
// PyTorch's recorded values.
#ifndef COTAN_TESTING_MODELS_CHECK_H_
#define COTAN_TESTING_MODELS_CHECK_H_

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "testing/models/check_program.h"  // IWYU pragma: export

namespace cotan::testing {

struct CheckOptions {
  std::string scratch_folder = "/tmp";  // for artifacts, which are deleted
  int threads = 1;
  // Backend of the models; see OpenBackend().
  std::string device = "cpu";
};

// Returns the .pt2 files of a folder, sorted. NotFound: no such folder, or none in it.
absl::StatusOr<std::vector<std::string>> FindModels(const std::string& folder);

// Compiles one model, and checks it with CheckProgram(). NAME.safetensors and NAME.json are in the folder of `path`;
// NAME_func.pt2 uses those of NAME.
ModelReport CheckModel(const std::string& path, const CheckOptions& options);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_MODELS_CHECK_H_
