// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_TESTING_FUZZ_JSON_MUTATOR_H_
#define COTAN_TESTING_FUZZ_JSON_MUTATOR_H_

#include <random>
#include <string>

#include "absl/strings/string_view.h"

namespace cotan::testing {

// Applies one to three mutations to a JSON text, at any depth: values change, are removed, repeated, renamed or copied
// from another place. Strings that are JSON texts are mutated in the same way, other ones by words. Returns other bytes
// if the text is not JSON. The same state of `random` gives the same result.
std::string MutateJson(absl::string_view text, std::mt19937_64& random);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_FUZZ_JSON_MUTATOR_H_
