// The seed of tests on random input.
#ifndef COTAN_BASE_TEST_SEED_H_
#define COTAN_BASE_TEST_SEED_H_

#include <cstdint>

namespace cotan::testing {

// COTAN_TEST_SEED, or 1: a change is tested on the same input each time, so that a failure is the change's. Prints
// how to repeat the test.
uint64_t TestSeed();

}  // namespace cotan::testing

#endif  // COTAN_BASE_TEST_SEED_H_
