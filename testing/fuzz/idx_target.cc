// SPDX-License-Identifier: Apache-2.0

// Reads IDX files: an accepted one has as many bytes as its tensor.
#include <random>
#include <string>
#include <vector>

#include "runtime/training/idx_dataset.h"
#include "testing/fuzz/fuzz_target.h"
#include "testing/fuzz/wire_mutator.h"

namespace cotan::testing {

bool RunInput(absl::string_view input) {
  const absl::StatusOr<Tensor> tensor = training::ParseIdx(input, "input");
  if (!tensor.ok()) return false;
  const size_t header = 4 + 4 * tensor->sizes().size();
  Require(tensor->storage()->bytes() == input.size() - header, "all bytes are elements");
  return true;
}

std::string MutateInput(absl::string_view input, std::mt19937_64& random) { return MutateBytes(input, random); }

std::vector<std::string> SeedInputs() {
  using std::string_literals::operator""s;
  return {"\0\0\x08\x01\0\0\0\x03"s + std::string(3, '\7'), "\0\0\x0d\x02\0\0\0\x02\0\0\0\x01"s + std::string(8, '\1'),
          "\0\0\x0c\x01\0\0\0\0"s};
}

}  // namespace cotan::testing
