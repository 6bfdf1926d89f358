// SPDX-License-Identifier: Apache-2.0

// Seed of tests with random input.
#ifndef COTAN_BASE_TEST_SEED_H_
#define COTAN_BASE_TEST_SEED_H_

#include <cstdint>

namespace cotan::testing {

// Returns the environment variable COTAN_TEST_SEED, or 1 by default, so that repeated runs use the same
// input. Prints how to repeat the test.
uint64_t TestSeed();

}  // namespace cotan::testing

#endif  // COTAN_BASE_TEST_SEED_H_
