// SPDX-License-Identifier: Apache-2.0

// Sizes that the model and its training program share.
#ifndef CONSUMER_SIZES_H_
#define CONSUMER_SIZES_H_

#include <cstdint>

namespace consumer {

inline constexpr int64_t kBatch = 128;  // points in a step
inline constexpr int64_t kClasses = 2;  // one per arm

}  // namespace consumer

#endif  // CONSUMER_SIZES_H_
