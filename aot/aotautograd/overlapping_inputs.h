// SPDX-License-Identifier: Apache-2.0

// Decides whether two inputs in one storage may share elements
// (torch/_functorch/_aot_autograd/input_output_analysis.py, compute_overlapping_inputs).
#ifndef COTAN_AOT_AOTAUTOGRAD_OVERLAPPING_INPUTS_H_
#define COTAN_AOT_AOTAUTOGRAD_OVERLAPPING_INPUTS_H_

#include "aot/aotautograd/input_description.h"
#include "base/layout.h"

namespace cotan::aot {

// Returns true if two layouts in one storage have no common element by simple tests. Conservative:
// false for disjoint layouts with more than two interleaved dimensions, never true for overlapping
// ones. base/overlap.h is exact; this test merges the same inputs as AOTAutograd, and merging more
// than needed is correct.
bool DefinitelyDisjoint(const StridedLayout& a, const StridedLayout& b);

// Returns whether two inputs in one storage may share elements. Inputs of different dtypes are
// compared by bytes, exactly.
bool MayOverlap(const InputDescription& a, const InputDescription& b);

}  // namespace cotan::aot

#endif  // COTAN_AOT_AOTAUTOGRAD_OVERLAPPING_INPUTS_H_
