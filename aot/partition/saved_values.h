// What the metadata says of the values that a forward keeps for its backward.
#ifndef COTAN_AOT_PARTITION_SAVED_VALUES_H_
#define COTAN_AOT_PARTITION_SAVED_VALUES_H_

#include "aot/graph/graph.h"
#include "serialization/metadata.pb.h"

namespace cotan::aot {

// Of the outputs of kind kSaved of a lowered forward, in order. Donated are those
// whose memory belongs to no input and to no other output.
serialization::SavedForBackward DescribeSaved(const Graph& forward);

}  // namespace cotan::aot

#endif  // COTAN_AOT_PARTITION_SAVED_VALUES_H_
