// SPDX-License-Identifier: Apache-2.0

#include "base/test_seed.h"

#include <cstdlib>
#include <iostream>

namespace cotan::testing {

uint64_t TestSeed() {
  const char* given = std::getenv("COTAN_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  // Flushed, since a crash would lose buffered output.
  std::cout << "repeat with --test_env=COTAN_TEST_SEED=" << seed << std::endl;
  return seed;
}

}  // namespace cotan::testing
