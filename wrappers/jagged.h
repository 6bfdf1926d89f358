// SPDX-License-Identifier: Apache-2.0

// Jagged tensors: rows of different lengths, stored one after another.
#ifndef COTAN_WRAPPERS_JAGGED_H_
#define COTAN_WRAPPERS_JAGGED_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace cotan {

// Row i is values[offsets[i] : offsets[i + 1]]. `values` is [total, ...]; `offsets` is i64[rows + 1],
// ascending. The outer sizes are [rows, total, ...].
template <typename T>
struct Jagged {
  using Tensor = T;

  T values;
  T offsets;

  static std::string TypeName() { return "cotan.jagged"; }
  static std::vector<std::string> PartNames() { return {"values", "offsets"}; }
  auto Parts() { return std::tie(values, offsets); }
  std::string Metadata() const { return ""; }
  absl::Status SetMetadata(absl::string_view text) {
    if (text.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("must be empty, got '", text, "'"));
  }
  std::vector<int64_t> OuterSizes() const {
    std::vector<int64_t> sizes = {offsets.sizes()[0] - 1};
    sizes.insert(sizes.end(), values.sizes().begin(), values.sizes().end());
    return sizes;
  }
};

}  // namespace cotan

#endif  // COTAN_WRAPPERS_JAGGED_H_
