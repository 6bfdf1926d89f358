// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/scalar_type.h"

#include <optional>

#include "absl/strings/string_view.h"

namespace cotan::cuda::ptx {

std::optional<ScalarType> ParseScalarType(absl::string_view name) {
  static constexpr struct {
    absl::string_view name;
    ScalarType type;
  } kTypes[] = {
      {"b8", {TypeClass::kBits, 8}},
      {"b16", {TypeClass::kBits, 16}},
      {"b32", {TypeClass::kBits, 32}},
      {"b64", {TypeClass::kBits, 64}},
      {"b128", {TypeClass::kBits, 128}},
      {"u8", {TypeClass::kUnsigned, 8}},
      {"u16", {TypeClass::kUnsigned, 16}},
      {"u32", {TypeClass::kUnsigned, 32}},
      {"u64", {TypeClass::kUnsigned, 64}},
      {"s8", {TypeClass::kSigned, 8}},
      {"s16", {TypeClass::kSigned, 16}},
      {"s32", {TypeClass::kSigned, 32}},
      {"s64", {TypeClass::kSigned, 64}},
      {"f16", {TypeClass::kFloat, 16}},
      {"f16x2", {TypeClass::kFloat, 16, true}},
      {"bf16", {TypeClass::kBfloat, 16}},
      {"bf16x2", {TypeClass::kBfloat, 16, true}},
      {"f32", {TypeClass::kFloat, 32}},
      {"f64", {TypeClass::kFloat, 64}},
      {"pred", {TypeClass::kPredicate, 1}},
  };
  for (const auto& entry : kTypes) {
    if (entry.name == name) return entry.type;
  }
  return std::nullopt;
}

}  // namespace cotan::cuda::ptx
