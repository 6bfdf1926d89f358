// SPDX-License-Identifier: Apache-2.0

// Element types of tensors. The numeric values are part of the file format
// (serialization/schema/program.proto, enum DTypeProto): never renumber.
#ifndef COTAN_BASE_DTYPE_H_
#define COTAN_BASE_DTYPE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cotan {

enum class DType : uint8_t {
  kUndefined = 0,
  kBool = 1,
  kUInt8 = 2,
  kInt8 = 3,
  kInt16 = 4,
  kInt32 = 5,
  kInt64 = 6,
  kFloat16 = 7,
  kBFloat16 = 8,
  kFloat32 = 9,
  kFloat64 = 10,
  kComplex64 = 11,
  kComplex128 = 12,
  kFloat8E4m3fn = 13,  // ATen: Float8_e4m3fn
  kFloat8E5m2 = 14,    // ATen: Float8_e5m2
};

// Number of enumerators, kUndefined included.
inline constexpr int kNumDTypes = 15;

// Returns the bytes per element; 0 for kUndefined.
size_t ByteSize(DType dtype);

// Returns the short name as in the text form of programs: "f32", "bf16", "i64", "bool", "c64"; "undefined"
// for kUndefined.
absl::string_view DTypeName(DType dtype);

// Inverse of DTypeName(). InvalidArgument if `name` is not a dtype's name; the message lists all names.
absl::StatusOr<DType> ParseDType(absl::string_view name);

bool IsFloatingPoint(DType dtype);  // f8e4m3fn, f8e5m2, f16, bf16, f32, f64
bool IsComplex(DType dtype);        // c64, c128
bool IsInteger(DType dtype);        // u8, i8, i16, i32, i64; not bool

// Returns true for the 8-bit floats: they are stored, moved and converted, but no function computes in them.
bool IsStorageOnly(DType dtype);

// Returns the distance between 1 and the next larger value; 0 for integers and bool; for a complex type,
// the value of its component type.
double Epsilon(DType dtype);

}  // namespace cotan

#endif  // COTAN_BASE_DTYPE_H_
