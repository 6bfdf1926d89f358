// SPDX-License-Identifier: Apache-2.0

#include "examples/chars/text.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <iterator>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/philox.h"

namespace cotan::chars {

absl::StatusOr<std::string> ReadText(const std::string& path, size_t min_bytes) {
  std::ifstream file(path, std::ios::binary);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot open ", path));
  std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  if (file.bad()) return absl::DataLossError(absl::StrCat("cannot read ", path));
  if (text.size() < min_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, " has ", text.size(), " bytes; training needs at least ", min_bytes));
  }
  return text;
}

void FillBatch(absl::string_view text, int64_t context, uint64_t seed, uint64_t step, absl::Span<int64_t> inputs,
               absl::Span<int64_t> targets) {
  const auto length = static_cast<size_t>(context);
  const uint64_t places = text.size() - length;
  constexpr uint64_t kBlocksPerStep = uint64_t{1} << 20;
  for (size_t row = 0; row * length < inputs.size(); ++row) {
    const PhiloxBlock draw = Philox(seed, step * kBlocksPerStep + row);
    const uint64_t bits = static_cast<uint64_t>(draw.lane[0]) << 32 | draw.lane[1];
    const size_t start = bits % places;
    for (size_t t = 0; t < length; ++t) {
      inputs[row * length + t] = static_cast<uint8_t>(text[start + t]);
      targets[row * length + t] = static_cast<uint8_t>(text[start + t + 1]);
    }
  }
}

int64_t Sample(absl::Span<const float> logits, double temperature, float uniform) {
  const auto largest = std::max_element(logits.begin(), logits.end());
  if (temperature <= 0) return largest - logits.begin();
  std::vector<double> cumulative;
  cumulative.reserve(logits.size());
  double sum = 0;
  for (float logit : logits) {
    sum += std::exp((logit - *largest) / temperature);
    cumulative.push_back(sum);
  }
  const auto chosen = std::upper_bound(cumulative.begin(), cumulative.end(), uniform * sum);
  return std::min<int64_t>(chosen - cumulative.begin(), static_cast<int64_t>(logits.size()) - 1);
}

}  // namespace cotan::chars
