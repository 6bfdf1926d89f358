// SPDX-License-Identifier: Apache-2.0

// Passes over a linked method (torch/_dynamo/compiled_autograd.py). They keep its meaning and the order of its effects.
#ifndef COTAN_LINKING_LINK_PASSES_H_
#define COTAN_LINKING_LINK_PASSES_H_

#include "serialization/schema/program.pb.h"

namespace cotan {

// Removes ops whose results are unused, except those that a caller can observe: effects, and ops that fail for some
// values of an index.
void RemoveDeadOps(serialization::Method& method);

// Moves each op whose result is the new content of an input (`.grad`) directly behind the last op that computes one of
// its operands, so that the gradient dies as early as possible. Ops with only inputs as operands stay.
void AccumulateAsSoonAsPossible(serialization::Method& method);

}  // namespace cotan

#endif  // COTAN_LINKING_LINK_PASSES_H_
