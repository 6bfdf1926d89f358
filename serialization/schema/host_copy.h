// SPDX-License-Identifier: Apache-2.0

// Copies between a device and host memory (Value.on_host).
#ifndef COTAN_SERIALIZATION_SCHEMA_HOST_COPY_H_
#define COTAN_SERIALIZATION_SCHEMA_HOST_COPY_H_

#include <cstdint>

#include "serialization/schema/program.pb.h"

namespace cotan {

enum class HostCopy : uint8_t { kNone, kToHost, kToDevice };

// Returns the direction of a copy between the device and the host; kNone for other ops. Indexes of `op` are values of
// `method`.
HostCopy HostCopyOf(const serialization::Method& method, const serialization::Op& op);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_SCHEMA_HOST_COPY_H_
