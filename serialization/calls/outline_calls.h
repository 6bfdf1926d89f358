// SPDX-License-Identifier: Apache-2.0

// Finds runs of equal ops in the methods of an artifact and stores each once, as a block: the inverse of InlineCalls().
// The layers of a model become blocks this way without being declared, and those of methods that were planned under a
// memory limit. As outlining of repeated sequences in compilers (LLVM's MachineOutliner), with isomorphic data flow
// instead of equal registers.
#ifndef COTAN_SERIALIZATION_CALLS_OUTLINE_CALLS_H_
#define COTAN_SERIALIZATION_CALLS_OUTLINE_CALLS_H_

#include "serialization/schema/program.pb.h"

namespace cotan {

// Replaces consecutive runs of ops by calls, if they follow each other in a method at equal distances, or a run of an
// earlier method is found again: the same ops, on values of equal types that are connected in the same way. Random
// slices may differ by a constant for each run. Runs that would not become smaller stay. After InlineCalls() the
// methods have the same ops in the same order; values that were inside of a run have other indexes and no names, and
// ops whose module paths do not end in the same way have the common beginning of the paths of their run.
//
// An artifact whose methods are larger than a quarter of kMaxInlinedBytes (inline_calls.h) stays as it is.
// `artifact` is verified, or has calls as Emit() makes them. Blocks that it has keep their indexes.
void OutlineCalls(serialization::Artifact& artifact);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_CALLS_OUTLINE_CALLS_H_
