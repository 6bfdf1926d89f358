// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_EXAMPLES_DATA_PARALLEL_SIZES_H_
#define COTAN_EXAMPLES_DATA_PARALLEL_SIZES_H_

#include <cstdint>

namespace cotan::data_parallel {

inline constexpr int64_t kRankBatch = 32;  // images of one rank in a step

}  // namespace cotan::data_parallel

#endif  // COTAN_EXAMPLES_DATA_PARALLEL_SIZES_H_
