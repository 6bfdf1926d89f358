// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_TESTING_FUZZ_ARCHIVE_MUTATOR_H_
#define COTAN_TESTING_FUZZ_ARCHIVE_MUTATOR_H_

#include <random>
#include <string>

#include "absl/strings/string_view.h"

namespace cotan::testing {

// Mutates a .pt2 archive: its JSON texts by MutateJson(), the archives in it (saved tensors) in the same way, other
// files by bytes; or removes, repeats, renames or exchanges files. Sizes and checksums are right again, except in one
// of sixteen results. The same state of `random` gives the same result.
std::string MutateArchive(absl::string_view archive, std::mt19937_64& random);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_FUZZ_ARCHIVE_MUTATOR_H_
