// SPDX-License-Identifier: Apache-2.0

// Numbers that the models and their training programs share.
#ifndef COTAN_EXAMPLES_FORCES_SIZES_H_
#define COTAN_EXAMPLES_FORCES_SIZES_H_

#include <cstdint>

namespace cotan::forces {

inline constexpr int64_t kAtoms = 5;   // of a cluster
inline constexpr int64_t kBatch = 32;  // clusters in a step
inline constexpr double kLearningRate = 2e-3;

}  // namespace cotan::forces

#endif  // COTAN_EXAMPLES_FORCES_SIZES_H_
