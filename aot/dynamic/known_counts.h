// SPDX-License-Identifier: Apache-2.0

// Checks that methods need only sizes that were counted before.
#ifndef COTAN_AOT_DYNAMIC_KNOWN_COUNTS_H_
#define COTAN_AOT_DYNAMIC_KNOWN_COUNTS_H_

#include "absl/status/status.h"
#include "aot/dynamic/dynamic_shapes.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Checks the methods of an artifact whose sizes are expressions of the symbols of `shapes`.
// Unimplemented: a method has the symbol of a size that depends on data, and no sizing method (Method.continuation)
// before it counts that. Such a size is a number of the model ("total / rows.size(0)"), or the place of random numbers
// that are drawn after others for counted rows. The message names the op and the symbol.
absl::Status CheckCountsAreKnown(const DynamicShapes& shapes, serialization::Artifact& artifact);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_KNOWN_COUNTS_H_
