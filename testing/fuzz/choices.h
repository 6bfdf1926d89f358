// SPDX-License-Identifier: Apache-2.0

#ifndef COTAN_TESTING_FUZZ_CHOICES_H_
#define COTAN_TESTING_FUZZ_CHOICES_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace cotan::testing {

// Takes choices from the bytes of an input, one byte each; 0 after its end.
class Choices {
 public:
  // `input` outlives the object.
  explicit Choices(absl::string_view input) : input_(input) {}

  bool done() const { return input_.empty(); }

  uint8_t Next() {
    if (input_.empty()) return 0;
    const auto byte = static_cast<uint8_t>(input_[0]);
    input_.remove_prefix(1);
    return byte;
  }

  // Returns a number in [0, bound); 0 < bound <= 256.
  size_t Below(size_t bound) { return Next() % bound; }

  // Returns true with a probability of 1 / `n`.
  bool OneIn(size_t n) { return Below(n) == n - 1; }

 private:
  absl::string_view input_;
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_FUZZ_CHOICES_H_
