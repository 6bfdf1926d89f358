// SPDX-License-Identifier: Apache-2.0

// Links a fuzz target with libFuzzer. If the environment has COTAN_FUZZ_SEEDS, the program writes the seeds to that
// folder and ends. See run.sh.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "testing/fuzz/fuzz_target.h"

namespace {

absl::string_view Input(const uint8_t* data, size_t size) { return {reinterpret_cast<const char*>(data), size}; }

}  // namespace

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  const char* const folder = std::getenv("COTAN_FUZZ_SEEDS");
  if (folder == nullptr) return 0;
  const std::vector<std::string> seeds = cotan::testing::SeedInputs();
  for (size_t i = 0; i < seeds.size(); ++i) {
    std::ofstream(std::string(folder) + "/seed_" + std::to_string(i), std::ios::binary) << seeds[i];
  }
  std::exit(EXIT_SUCCESS);
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  cotan::testing::RunInput(Input(data, size));
  return 0;
}

// Every fourth mutation is libFuzzer's own, which knows the constants that the code compares with. So is one after a
// few results of MutateInput() that are too large.
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  std::mt19937_64 random(seed);
  constexpr int kMaxAttempts = 4;
  const int attempts = random() % 4 == 0 ? 0 : kMaxAttempts;
  for (int i = 0; i < attempts; ++i) {
    const std::string mutated = cotan::testing::MutateInput(Input(data, size), random);
    if (mutated.size() > max_size) continue;
    std::memcpy(data, mutated.data(), mutated.size());
    return mutated.size();
  }
  return LLVMFuzzerMutate(data, size, max_size);
}
