// SPDX-License-Identifier: Apache-2.0

// Rules for outputs in the memory of an input.
#ifndef COTAN_KERNELS_API_IN_PLACE_H_
#define COTAN_KERNELS_API_IN_PLACE_H_

#include "kernels/api/kernel.h"

namespace cotan {

// Returns true if output `output` of the op may share the memory of input `input`: every kernel of every
// backend reads each element of the input before it overwrites it. True only for operands with equal layouts
// and equal bytes per element. `request` has passed CheckOp(); only its op and specs are used.
//
// If several inputs of the op are one buffer, each of them must be safe. Different outputs never share
// memory, and an output overlaps an input in no other way.
bool InPlaceSafe(const KernelRequest& request, int input, int output);

}  // namespace cotan

#endif  // COTAN_KERNELS_API_IN_PLACE_H_
