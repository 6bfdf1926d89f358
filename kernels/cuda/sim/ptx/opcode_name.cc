// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/opcode_name.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace cotan::cuda::ptx {
namespace {

std::optional<Rounding> ParseRounding(absl::string_view word) {
  if (word == "rn" || word == "rni") return Rounding::kNearestEven;
  if (word == "rz" || word == "rzi") return Rounding::kZero;
  if (word == "rm" || word == "rmi") return Rounding::kDown;
  if (word == "rp" || word == "rpi") return Rounding::kUp;
  return std::nullopt;
}

}  // namespace

bool OpcodeName::Has(absl::string_view word) const {
  return std::find(words.begin(), words.end(), word) != words.end();
}

bool OpcodeName::WordsAre(std::vector<absl::string_view> expected) const {
  return std::equal(words.begin(), words.end(), expected.begin(), expected.end());
}

OpcodeName ParseOpcodeName(const Instruction& instruction) {
  OpcodeName name{.opcode = instruction.opcode, .types = {}, .words = {}};
  for (const std::string& word : instruction.modifiers) {
    if (const auto type = ParseScalarType(word); type.has_value()) {
      name.types.push_back(*type);
    } else if (const auto rounding = ParseRounding(word); rounding.has_value()) {
      name.rounding = *rounding;
      name.has_rounding = true;
      name.to_integer = word.size() == 3;
    } else if (word == "ftz") {
      name.ftz = true;
    } else if (word == "sat") {
      name.sat = true;
    } else if (word == "relu") {
      name.relu = true;
    } else if (word == "NaN") {
      name.nan = true;
    } else if (word == "approx" || word == "full") {
      name.approx = true;
    } else {
      name.words.push_back(word);
    }
  }
  return name;
}

}  // namespace cotan::cuda::ptx
