#include "base/test_seed.h"

#include <cstdlib>
#include <iostream>

namespace cotan::testing {

uint64_t TestSeed() {
  const char* given = std::getenv("COTAN_TEST_SEED");
  const uint64_t seed = given != nullptr ? std::strtoull(given, nullptr, 10) : 1;
  // Flushed, for a crash loses what is not.
  std::cout << "repeat with --test_env=COTAN_TEST_SEED=" << seed << std::endl;
  return seed;
}

}  // namespace cotan::testing
