// SPDX-License-Identifier: Apache-2.0

#include <cstdint>

#include "google/protobuf/extension_set.h"

namespace google::protobuf::internal {

// Is called for a set that is not empty, of which a program without extensions has none.
uint8_t* ExtensionSet::_InternalSerializeImpl(const MessageLite* /*extendee*/, int /*start_field_number*/,
                                              int /*end_field_number*/, uint8_t* target,
                                              io::EpsCopyOutputStream* /*stream*/) const {
  return target;
}

}  // namespace google::protobuf::internal
