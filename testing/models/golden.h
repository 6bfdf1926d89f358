// SPDX-License-Identifier: Apache-2.0

// Values that PyTorch computed for an exported model, in NAME.safetensors, and their tolerances, in
// NAME.json.
#ifndef COTAN_TESTING_MODELS_GOLDEN_H_
#define COTAN_TESTING_MODELS_GOLDEN_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "runtime/tensor.h"

namespace cotan::testing {

// Losses of SGD on one batch.
struct SgdGolden {
  double lr = 0;
  double momentum = 0;
  std::vector<double> losses;  // entry k: after k + 1 updates
  // Number of losses to compare; later ones depend on rounding.
  int num_compared = 0;
  double tolerance = 0;  // relative
};

struct Golden {
  std::vector<Tensor> inputs;
  // False for a model that draws random numbers: then all other members are empty.
  bool has_values = false;
  std::map<std::string, Tensor> outputs;    // "output.0", "output.1"; f32
  std::map<std::string, Tensor> gradients;  // by parameter; f64 if there are such
  std::map<std::string, Tensor> buffers;    // after one step, by name
  std::vector<SgdGolden> sgd;
  double output_tolerance = 0;    // of max|expected|
  double gradient_tolerance = 0;  // of the larger of max|expected| and 0.001 times the largest gradient
};

// Reads both files. Errors: those of reading the files. InvalidArgument: a value is missing or has
// another type; the message names the file.
absl::StatusOr<Golden> LoadGolden(const std::string& safetensors, const std::string& manifest);

// Reads the values of the model with this path, without an extension; those of NAME_func are those of NAME. Errors as
// LoadGolden().
absl::StatusOr<Golden> LoadGoldenOf(absl::string_view model);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_MODELS_GOLDEN_H_
