// SPDX-License-Identifier: Apache-2.0

// Types that a file has once. A method with many calls has a value for each operand of each call; its type is that of
// an operand of the block, or of a state, so that files need not repeat it.
#ifndef COTAN_SERIALIZATION_CALLS_SHARED_TYPES_H_
#define COTAN_SERIALIZATION_CALLS_SHARED_TYPES_H_

#include "absl/status/status.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Removes, if `artifact` has blocks, the types that RestoreSharedTypes() restores, and the names of values that read
// states of the same name.
void OmitSharedTypes(serialization::Artifact& artifact);

// Gives each value without a type the type of the state that it reads, or else of the operand of the block in the first
// call that has the value as operand; a value without a name that reads a state gets the state's name. Does nothing if
// `artifact` has no blocks. `artifact` need not be verified: what has an index out of range is left as it is.
// InvalidArgument: the restored types and names would take more than kMaxInlinedBytes.
absl::Status RestoreSharedTypes(serialization::Artifact& artifact);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_CALLS_SHARED_TYPES_H_
