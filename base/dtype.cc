// SPDX-License-Identifier: Apache-2.0

#include "base/dtype.h"

#include <array>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace cotan {
namespace {

struct DTypeFacts {
  absl::string_view name;
  size_t byte_size;
  bool is_floating_point;
  bool is_complex;
  bool is_integer;
  int mantissa_bits;  // stored bits; epsilon = 2^-mantissa_bits
};

constexpr std::array<DTypeFacts, kNumDTypes> kFacts = {{
    {"undefined", 0, false, false, false, 0},
    {"bool", 1, false, false, false, 0},
    {"u8", 1, false, false, true, 0},
    {"i8", 1, false, false, true, 0},
    {"i16", 2, false, false, true, 0},
    {"i32", 4, false, false, true, 0},
    {"i64", 8, false, false, true, 0},
    {"f16", 2, true, false, false, 10},
    {"bf16", 2, true, false, false, 7},
    {"f32", 4, true, false, false, 23},
    {"f64", 8, true, false, false, 52},
    {"c64", 8, false, true, false, 23},
    {"c128", 16, false, true, false, 52},
    {"f8e4m3fn", 1, true, false, false, 3},
    {"f8e5m2", 1, true, false, false, 2},
}};

const DTypeFacts& Facts(DType dtype) {
  const auto index = static_cast<size_t>(dtype);
  return kFacts[index < kFacts.size() ? index : 0];
}

}  // namespace

size_t ByteSize(DType dtype) { return Facts(dtype).byte_size; }

absl::string_view DTypeName(DType dtype) { return Facts(dtype).name; }

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  std::string known;
  for (size_t i = 1; i < kFacts.size(); ++i) {
    if (kFacts[i].name == name) return static_cast<DType>(i);
    absl::StrAppend(&known, i == 1 ? "" : ", ", kFacts[i].name);
  }
  return absl::InvalidArgumentError(absl::StrCat("'", name, "' is not a dtype; expected one of ", known));
}

bool IsFloatingPoint(DType dtype) { return Facts(dtype).is_floating_point; }
bool IsComplex(DType dtype) { return Facts(dtype).is_complex; }
bool IsInteger(DType dtype) { return Facts(dtype).is_integer; }
bool IsStorageOnly(DType dtype) { return dtype == DType::kFloat8E4m3fn || dtype == DType::kFloat8E5m2; }

double Epsilon(DType dtype) {
  const int bits = Facts(dtype).mantissa_bits;
  return bits == 0 ? 0.0 : std::ldexp(1.0, -bits);
}

}  // namespace cotan
