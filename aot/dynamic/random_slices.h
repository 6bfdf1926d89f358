// SPDX-License-Identifier: Apache-2.0

// Slices of the random ops of a program, in Philox blocks.
#ifndef COTAN_AOT_DYNAMIC_RANDOM_SLICES_H_
#define COTAN_AOT_DYNAMIC_RANDOM_SLICES_H_

#include <cstdint>
#include <vector>

#include "aot/dynamic/size_fitter.h"
#include "base/sym_int.h"

namespace cotan::aot {

// One random op at each trace point.
struct Draw {
  std::vector<int64_t> slice;  // first block
  std::vector<int64_t> count;  // elements
};

// Returns the ends of the slices as expressions, in ascending order. The first slice begins at 0,
// each other one where the previous one ends; stops before the first slice that does not.
std::vector<SymInt> SlicesOf(std::vector<Draw> draws, const SizeFitter& fitter);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_RANDOM_SLICES_H_
