// SPDX-License-Identifier: Apache-2.0

#include "kernels/testing/quantized_case.h"

#include <utility>

#include "base/layout.h"
#include "kernels/testing/expr_builder.h"

namespace cotan::testing {
namespace {

// Returns a row-major layout whose first dimension has a stride that is `gap` larger.
StridedLayout WithGap(const DimVector& sizes, int64_t gap) {
  StridedLayout layout = {sizes, ContiguousStrides(sizes), 0};
  layout.strides[0] += gap;
  return layout;
}

// Returns the instruction of the integers of bytes that are input 0, as f32.
int Integers(ExprBuilder& b, int bits, HalvesBy halves) {
  if (bits == 8) return b.Cast(b.Input(0, DType::kInt8), DType::kFloat32);
  const int bytes = b.Input(0, DType::kUInt8);
  const int shift = halves == HalvesBy::kInput
                        ? b.Input(2, DType::kUInt8)
                        : b.Cast(b.Mul(b.Iota(DType::kInt64, 2), b.Constant(DType::kInt64, 4)), DType::kUInt8);
  const int shifted = b.Apply(serialization::FN_SHIFT_RIGHT, {bytes, shift});
  const int integer = b.Apply(serialization::FN_AND, {shifted, b.Constant(DType::kUInt8, 15)});
  return b.Sub(b.Cast(integer, DType::kFloat32), b.Constant(DType::kFloat32, 8));
}

}  // namespace

QuantizedMatrix MakeQuantizedMatrix(int64_t rows, int64_t columns, int bits, int64_t group, std::mt19937_64& random,
                                    int64_t gap, HalvesBy halves) {
  const int64_t groups = columns / group;
  const bool by_rows = bits == 8 && groups == 1;
  DimVector sizes = {rows, columns};
  DimVector data_sizes = sizes;
  DimVector factor_sizes = {rows, 1};
  if (!by_rows) {
    sizes = bits == 8 ? DimVector{rows, groups, group, 1} : DimVector{rows, groups, 2, group / 2};
    data_sizes = bits == 8 ? sizes : DimVector{rows, groups, 1, group / 2};
    factor_sizes = {rows, groups, 1, 1};
  }
  ExprBuilder b(sizes);
  const int integers = Integers(b, bits, halves);
  b.Output(b.Mul(integers, b.Input(1, DType::kFloat32)));
  QuantizedMatrix matrix = {.op = b.Build(), .inputs = {}, .sizes = std::move(sizes)};
  HostTensor data(bits == 8 ? DType::kInt8 : DType::kUInt8, WithGap(data_sizes, gap));
  HostTensor factor(DType::kFloat32, WithGap(factor_sizes, gap));
  FillRandom(data, random, bits == 8 ? -128 : 0, bits == 8 ? 128 : 256);
  FillRandom(factor, random, 0.01, 0.1);
  matrix.inputs.push_back(std::move(data));
  matrix.inputs.push_back(std::move(factor));
  if (bits == 4 && halves == HalvesBy::kInput)
    matrix.inputs.emplace_back(DType::kUInt8, DimVector{2, 1}, std::vector<double>{0, 4});
  return matrix;
}

}  // namespace cotan::testing
