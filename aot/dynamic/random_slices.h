// Places of random ops in a program's draws.
#ifndef COTAN_AOT_DYNAMIC_RANDOM_SLICES_H_
#define COTAN_AOT_DYNAMIC_RANDOM_SLICES_H_

#include <cstdint>
#include <vector>

#include "aot/dynamic/size_fitter.h"
#include "base/sym_int.h"

namespace cotan::aot {

// One random op, seen at each point.
struct Draw {
  std::vector<int64_t> slice;  // first block
  std::vector<int64_t> count;  // elements
};

// Each op's slice begins where that of the one before ends: their expressions,
// in that order, the end of all last. They end before one that does not.
std::vector<SymInt> SlicesOf(std::vector<Draw> draws, const SizeFitter& fitter);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_RANDOM_SLICES_H_
