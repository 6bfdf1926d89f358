// SPDX-License-Identifier: Apache-2.0

// Weights of a model that are stored as 8-bit or 4-bit integers.
#ifndef COTAN_AOT_FRONTEND_QUANTIZE_H_
#define COTAN_AOT_FRONTEND_QUANTIZE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "aot/capture/traced_function.h"
#include "aot/decompositions/quantized_weights.h"

namespace cotan::aot {

// Weights that are not trained, as the base of adapters (Dettmers et al., "QLoRA", 2023), in 8 bits with a factor per
// output channel, or in 4 bits with a factor per group.
struct QuantizeOptions {
  // Names of parameters, as "*.weight". Patterns: '*' is any text, '?' any character. Empty: none.
  std::vector<std::string> parameters = {};
  int bits = 8;       // 8 or 4
  int64_t group = 0;  // elements of a row with a common factor; 0: 32 with 4 bits, the row with 8
};

// Replaces the frozen parameters with two or more dimensions whose names match. Parameter "m.weight" becomes the
// integers, under the same name, and the buffer "m.weight_scale" is added, after the other buffers. Layouts:
// QuantizedWeight. Returns the weights, for QuantizedWeightScope. InvalidArgument: bits or group are not as above; a
// pattern matches no such parameter; a row of one is not a multiple of the group, or not of floating point numbers; a
// name is in use. May throw what LibTorch throws.
absl::StatusOr<std::vector<QuantizedWeight>> QuantizeParameters(const QuantizeOptions& options,
                                                                std::vector<ModuleState>& states);

}  // namespace cotan::aot

#endif  // COTAN_AOT_FRONTEND_QUANTIZE_H_
