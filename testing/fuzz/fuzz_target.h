// SPDX-License-Identifier: Apache-2.0

// Interface of a fuzz target: one reader of untrusted input. fuzz_target() (defs.bzl) links a target with
//   fuzz_test.cc        a test: seeds, corpus and a number of mutated inputs
//   libfuzzer_main.cc   libFuzzer, which mutates with regard to coverage
#ifndef COTAN_TESTING_FUZZ_FUZZ_TARGET_H_
#define COTAN_TESTING_FUZZ_FUZZ_TARGET_H_

#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace cotan::testing {

// Reads an input of any content and uses what was read. Returns whether the reader accepted it. Ends the process if a
// property of the target does not hold.
bool RunInput(absl::string_view input);

// Returns the input with a few changes that keep its checksums, lengths or structure right. The same state of `random`
// gives the same result.
std::string MutateInput(absl::string_view input, std::mt19937_64& random);

// Returns inputs that the reader accepts, from which mutation starts, in addition to the files of the corpus.
std::vector<std::string> SeedInputs();

// Ends the process unless a property holds.
inline void Require(bool holds, absl::string_view property) {
  if (holds) return;
  std::fprintf(stderr, "property does not hold: %.*s\n", static_cast<int>(property.size()), property.data());
  std::abort();
}

}  // namespace cotan::testing

#endif  // COTAN_TESTING_FUZZ_FUZZ_TARGET_H_
