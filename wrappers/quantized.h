// SPDX-License-Identifier: Apache-2.0

// Quantized tensors: 8-bit integers times a scale.
#ifndef COTAN_WRAPPERS_QUANTIZED_H_
#define COTAN_WRAPPERS_QUANTIZED_H_

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace cotan {

// Represents data * scale. `data` is i8. `scale` is floating point; it has one element, or, if `axis` is
// not -1, one element for each index of dimension `axis` of `data`. Gradients flow to the scale only.
template <typename T>
struct Quantized {
  using Tensor = T;

  T data;
  T scale;
  int64_t axis = -1;

  // Returns data * scale. For T = at::Tensor.
  T Dequantize() const {
    const T numbers = data.to(scale.scalar_type());
    if (axis < 0) return numbers * scale;
    std::vector<int64_t> sizes(static_cast<size_t>(data.dim()), 1);
    sizes[static_cast<size_t>(axis)] = data.size(axis);
    return numbers * scale.reshape(sizes);
  }

  static std::string TypeName() { return "cotan.quantized"; }
  static std::vector<std::string> PartNames() { return {"data", "scale"}; }
  auto Parts() { return std::tie(data, scale); }
  std::string Metadata() const { return absl::StrCat("axis=", axis); }
  absl::Status SetMetadata(absl::string_view text) {
    if (text.substr(0, 5) == "axis=" && absl::SimpleAtoi(text.substr(5), &axis)) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("'", text, "' is not of the form axis=NUMBER"));
  }
  std::vector<int64_t> OuterSizes() const { return {data.sizes().begin(), data.sizes().end()}; }
};

}  // namespace cotan

#endif  // COTAN_WRAPPERS_QUANTIZED_H_
