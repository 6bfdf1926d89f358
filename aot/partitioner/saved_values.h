// What the metadata says of the values that a forward keeps for its backward.
#ifndef COTAN_AOT_PARTITIONER_SAVED_VALUES_H_
#define COTAN_AOT_PARTITIONER_SAVED_VALUES_H_

#include "aot/ir/graph.h"
#include "serialization/schema/metadata.pb.h"

namespace cotan::aot {

// Of the outputs of kind kSaved of a lowered forward, in order. Donated are those
// whose memory belongs to no input and to no other output.
serialization::SavedForBackward DescribeSaved(const Graph& forward);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITIONER_SAVED_VALUES_H_
