// SPDX-License-Identifier: Apache-2.0

// Sizes that the model and its training program share.
#ifndef COTAN_EXAMPLES_DIGITS_SIZES_H_
#define COTAN_EXAMPLES_DIGITS_SIZES_H_

#include <cstdint>

namespace cotan::digits {

inline constexpr int64_t kSide = 28;               // pixels
inline constexpr int64_t kPixels = kSide * kSide;  // per image
inline constexpr int kClasses = 10;
inline constexpr int64_t kBatch = 64;  // images in a step

}  // namespace cotan::digits

#endif  // COTAN_EXAMPLES_DIGITS_SIZES_H_
