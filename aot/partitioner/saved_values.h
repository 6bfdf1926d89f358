// SPDX-License-Identifier: Apache-2.0

// Metadata of the values that a forward saves for its backward.
#ifndef COTAN_AOT_PARTITIONER_SAVED_VALUES_H_
#define COTAN_AOT_PARTITIONER_SAVED_VALUES_H_

#include "aot/ir/graph.h"
#include "serialization/schema/metadata.pb.h"

namespace cotan::aot {

// Describes the outputs of kind kSaved of a lowered forward, in order. A saved value is donated if
// it shares memory with no input and no other output. Values without_version_check are the last ones.
serialization::SavedForBackward DescribeSaved(const Graph& forward);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITIONER_SAVED_VALUES_H_
