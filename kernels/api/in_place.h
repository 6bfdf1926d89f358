// When an output may lie in the memory of an input.
#ifndef COTAN_KERNELS_API_IN_PLACE_H_
#define COTAN_KERNELS_API_IN_PLACE_H_

#include "kernels/api/kernel.h"

namespace cotan {

// Whether output `output` of the op may have the very memory of input `input`:
// every kernel of every backend reads each element of the input before it
// writes over it. Holds only for operands with the same layout and the same
// bytes per element. `request` has passed CheckOp(); only op and specs count.
//
// If several op inputs are one buffer, each of them must be safe. Different
// outputs never share memory, and any other overlap of an output with an
// input is not allowed.
bool InPlaceSafe(const KernelRequest& request, int input, int output);

}  // namespace cotan

#endif  // COTAN_KERNELS_API_IN_PLACE_H_
