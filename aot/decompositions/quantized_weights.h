// SPDX-License-Identifier: Apache-2.0

// Weights that are stored as small integers while a function is traced: an op that takes one computes with
// integer * scale, in the dtype of the weight.
#ifndef COTAN_AOT_DECOMPOSITIONS_QUANTIZED_WEIGHTS_H_
#define COTAN_AOT_DECOMPOSITIONS_QUANTIZED_WEIGHTS_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <string>

#include "absl/types/span.h"

namespace cotan::aot {

// A weight [out, ...], of which a row has `columns` elements in groups of equal size. Group g of row o has the factor
// scale[o, g]. With 8 bits, data is i8[out, columns]. With 4 bits it is u8[out, columns / 2], each group's bytes one
// after another: the first half of a group's elements are the low four bits of its bytes, minus 8, the second half the
// high ones.
struct QuantizedWeight {
  std::string name;   // for messages
  at::Tensor weight;  // the object that the traced function uses; never computed with
  at::Tensor data;
  at::Tensor scale;  // f32[out, groups]
  int bits = 8;
};

// Integers and their factors.
struct QuantizedData {
  at::Tensor data;
  at::Tensor scale;
};

// Returns the integers and factors of `weight`: a row's group is divided by its largest magnitude, which becomes 127 or
// 7. `columns` is a multiple of the number of groups, and a group's size is even for 4 bits. Real tensors.
QuantizedData Quantize(const at::Tensor& weight, int bits, int64_t groups);

// Returns the values of rows, data [..., bytes] and scale [..., groups], as [..., columns] of `dtype`.
at::Tensor Dequantize(const at::Tensor& data, const at::Tensor& scale, int bits, at::ScalarType dtype);

// Within its scope, ops of this thread that take one of the weights take its dequantized value instead, one per op, so
// that no value lives longer than its op. aten::embedding dequantizes the rows that it returns. The weights outlive
// the scope. Scopes nest; the innermost one holds.
class QuantizedWeightScope {
 public:
  explicit QuantizedWeightScope(absl::Span<const QuantizedWeight> weights);
  ~QuantizedWeightScope();
  QuantizedWeightScope(const QuantizedWeightScope&) = delete;
  QuantizedWeightScope& operator=(const QuantizedWeightScope&) = delete;

 private:
  absl::Span<const QuantizedWeight> outer_;
};

// Returns whether a tensor is a weight of the scope.
bool IsQuantizedWeight(const at::Tensor& tensor);

// Computes the call if it is an embedding of a weight of the scope: replaces the arguments on the stack by the result
// and returns true.
bool CallQuantizedEmbedding(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Replaces the weights of the scope among the arguments on the stack. Throws c10::Error if the op writes to one.
void DequantizeArguments(const c10::OperatorHandle& op, torch::jit::Stack* stack);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_QUANTIZED_WEIGHTS_H_
