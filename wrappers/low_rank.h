// SPDX-License-Identifier: Apache-2.0

// Low-rank matrices: the product of a tall and a wide matrix.
#ifndef COTAN_WRAPPERS_LOW_RANK_H_
#define COTAN_WRAPPERS_LOW_RANK_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace cotan {

// Product of a [m, rank] and b [rank, n]. Each is a plain tensor, or of a wrapper type with two dimensions:
// LowRank<T, Quantized<T>>.
template <typename T, typename Part = T>
struct LowRank {
  using Tensor = T;

  Part a;
  Part b;

  static std::string TypeName() { return "cotan.low_rank"; }
  static std::vector<std::string> PartNames() { return {"a", "b"}; }
  auto Parts() { return std::tie(a, b); }
  std::string Metadata() const { return ""; }
  absl::Status SetMetadata(absl::string_view text) {
    if (text.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("must be empty, got '", text, "'"));
  }
  std::vector<int64_t> OuterSizes() const { return {SizesOf(a)[0], SizesOf(b)[1]}; }

 private:
  static std::vector<int64_t> SizesOf(const auto& part) {
    if constexpr (requires { part.OuterSizes(); }) {
      return part.OuterSizes();
    } else {
      return {part.sizes().begin(), part.sizes().end()};
    }
  }
};

}  // namespace cotan

#endif  // COTAN_WRAPPERS_LOW_RANK_H_
