// SPDX-License-Identifier: Apache-2.0

// Sizes that the model and its training program share.
#ifndef COTAN_EXAMPLES_CHARS_SIZES_H_
#define COTAN_EXAMPLES_CHARS_SIZES_H_

#include <cstdint>

namespace cotan::chars {

inline constexpr int64_t kVocabulary = 256;  // every byte
inline constexpr int64_t kContext = 64;      // bytes the network sees
inline constexpr int64_t kBatch = 16;        // sequences in a step

}  // namespace cotan::chars

#endif  // COTAN_EXAMPLES_CHARS_SIZES_H_
