// SPDX-License-Identifier: Apache-2.0

// The fundamental types of PTX.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_SCALAR_TYPE_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_SCALAR_TYPE_H_

#include <cstdint>
#include <optional>

#include "absl/strings/string_view.h"

namespace cotan::cuda::ptx {

enum class TypeClass : uint8_t { kBits, kUnsigned, kSigned, kFloat, kBfloat, kPredicate };

// A fundamental type, for example .u32 or .bf16x2.
struct ScalarType {
  TypeClass type_class = TypeClass::kBits;
  uint8_t bits = 32;    // Of one element: 1 (predicates), 8, 16, 32, 64 or 128.
  bool packed = false;  // Two elements in one register: f16x2, bf16x2.

  int TotalBits() const { return packed ? 2 * bits : bits; }
  int Bytes() const { return (TotalBits() + 7) / 8; }
  bool IsFloat() const { return type_class == TypeClass::kFloat || type_class == TypeClass::kBfloat; }
  bool IsSigned() const { return type_class == TypeClass::kSigned; }
  bool operator==(const ScalarType&) const = default;
};

// Returns the type of a name without its dot ("u32"), or nothing.
std::optional<ScalarType> ParseScalarType(absl::string_view name);

// Returns a number with the lowest `bits` bits set; `bits` is in [0, 64].
inline uint64_t LowBits(int bits) { return bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1; }

// Extends the lowest `bits` bits of `value` by their sign.
inline int64_t SignExtend(uint64_t value, int bits) {
  return static_cast<int64_t>(value << (64 - bits)) >> (64 - bits);
}

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_SCALAR_TYPE_H_
