// SPDX-License-Identifier: Apache-2.0

// Hashes that are equal on all machines and in all processes, unlike absl::HashOf().
#ifndef COTAN_LINKING_FINGERPRINT_H_
#define COTAN_LINKING_FINGERPRINT_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Not cryptographic: a file that is made on purpose can have any fingerprint.
uint64_t Fingerprint(absl::string_view bytes);
uint64_t Fingerprint(absl::Span<const uint64_t> words);

// Returns the fingerprint of method `index` and of the types of the states that it reads: all that a method into which
// it is spliced depends on.
uint64_t MethodFingerprint(const serialization::Artifact& artifact, int index);

}  // namespace cotan

#endif  // COTAN_LINKING_FINGERPRINT_H_
