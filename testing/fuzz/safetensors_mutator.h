// SPDX-License-Identifier: Apache-2.0

// Mutates safetensors files: names, numbers and punctuation of the header, or data; the length of the header stays
// right, and in checkpoints the checksum of the data.
#ifndef COTAN_TESTING_FUZZ_SAFETENSORS_MUTATOR_H_
#define COTAN_TESTING_FUZZ_SAFETENSORS_MUTATOR_H_

#include <random>
#include <string>

#include "absl/strings/string_view.h"

namespace cotan::testing {

// Returns a mutated file. Bytes that are too short for a header are mutated as bytes.
std::string MutateSafetensors(absl::string_view file, std::mt19937_64& random);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_FUZZ_SAFETENSORS_MUTATOR_H_
