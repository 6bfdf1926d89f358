// SPDX-License-Identifier: Apache-2.0

// Expressions that dequantize a matrix, with random operands, for tests of kernels.
#ifndef COTAN_KERNELS_TESTING_QUANTIZED_CASE_H_
#define COTAN_KERNELS_TESTING_QUANTIZED_CASE_H_

#include <cstdint>
#include <random>
#include <vector>

#include "kernels/testing/host_tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan::testing {

// The expression of a matrix [rows, columns] in groups of columns with one factor each. `bits` is 8 or 4. The value is
// [rows, columns] if a group is a row of 8 bits, else [rows, groups, elements, 1] or [rows, groups, 2, elements].
// aot/decompositions/quantized_weights.h describes the data.
struct QuantizedMatrix {
  serialization::Op op;
  std::vector<HostTensor> inputs;  // bytes (i8 or u8), factors (f32) and, with HalvesBy::kInput, shifts (u8)
  DimVector sizes;                 // of the value
};

// Selects the low and high four bits: by the position in the domain, or by an input with 0 and 4, as the compiler makes
// it for several matrices.
enum class HalvesBy { kPosition, kInput };

// Returns a matrix of random integers and factors, whose rows are `gap` elements longer in memory. `group` divides
// `columns` and is even for 4 bits.
QuantizedMatrix MakeQuantizedMatrix(int64_t rows, int64_t columns, int bits, int64_t group, std::mt19937_64& random,
                                    int64_t gap = 0, HalvesBy halves = HalvesBy::kInput);

}  // namespace cotan::testing

#endif  // COTAN_KERNELS_TESTING_QUANTIZED_CASE_H_
