// SPDX-License-Identifier: Apache-2.0

// Computes dequantized weights again for each reader.
#ifndef COTAN_AOT_MEMORY_REPEAT_DEQUANTIZATION_H_
#define COTAN_AOT_MEMORY_REPEAT_DEQUANTIZATION_H_

#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// Repeats each expression that makes floating point numbers from 8-bit states, which the method does not change, and
// from constants, before each op but the first that reads its result; so a forward and its backward dequantize a weight
// each, and no dequantized weight is alive between them. Results are equal bit for bit. `method` has passed
// VerifyArtifact().
void RepeatDequantization(serialization::Method& method);

}  // namespace cotan::aot

#endif  // COTAN_AOT_MEMORY_REPEAT_DEQUANTIZATION_H_
