// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/dequantization.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "base/layout.h"

namespace cotan::cpu::expr {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

constexpr int kBytes = 256;

bool IsByte(DType dtype) { return dtype == DType::kInt8 || dtype == DType::kUInt8; }

// The values of a node that depends on a byte and on an index of 0 or 1 only. Integers below 2^24 and f32 are exact.
struct Value {
  bool known = false;
  double number = 0;
};

// Returns `number` as an element of `dtype`; unknown if the dtype, or a number out of its range, is not supported.
Value Converted(double number, DType dtype) {
  if (dtype == DType::kFloat32) return {true, static_cast<float>(number)};
  if (std::abs(number) >= 1 << 24) return {};
  const auto integer = static_cast<int64_t>(number);
  if (dtype == DType::kInt32 || dtype == DType::kInt64) return {true, static_cast<double>(integer)};
  if (dtype == DType::kUInt8) return {true, static_cast<double>(static_cast<uint8_t>(integer))};
  if (dtype == DType::kInt8) return {true, static_cast<double>(static_cast<int8_t>(integer))};
  return {};
}

// Evaluates nodes for one byte of one input and one index of one dimension of size 2.
class Evaluator {
 public:
  Evaluator(const ExprProgram& program, const Dequantization& form)
      : program_(program), data_(form.data), shift_(form.shift), half_dim_(form.half_dim) {}

  int half_dim() const { return half_dim_; }

  // Returns the value of node `root`.
  Value Evaluate(int root, int byte, int index) {
    values_.assign(program_.nodes.size(), {});
    for (int i = 0; i <= root; ++i) {
      values_[static_cast<size_t>(i)] = ValueOf(program_.nodes[static_cast<size_t>(i)], byte, index);
    }
    return values_[static_cast<size_t>(root)];
  }

 private:
  Value ValueOf(const ExprNode& node, int byte, int index) {
    switch (node.fn) {
      case FN_INPUT:
        if (node.index == shift_) return Converted(4 * index, node.dtype);
        return node.index == data_ ? Converted(byte, node.dtype) : Value();
      case FN_CONSTANT:
        return Converted(IsFloatingPoint(node.dtype) ? node.float_value : static_cast<double>(node.int_value),
                         node.dtype);
      case FN_IOTA:
        return Position(node, index);
      case FN_CAST:
        return Operand(node, 0).known ? Converted(Operand(node, 0).number, node.dtype) : Value();
      case FN_ADD:
      case FN_SUB:
      case FN_MUL:
      case FN_AND:
      case FN_SHIFT_RIGHT:
        return Operand(node, 0).known && Operand(node, 1).known
                   ? Applied(node, Operand(node, 0).number, Operand(node, 1).number)
                   : Value();
      default:
        return {};
    }
  }

  Value Operand(const ExprNode& node, size_t k) const { return values_[static_cast<size_t>(node.operands[k])]; }

  Value Position(const ExprNode& node, int index) {
    if (program_.domain_sizes[static_cast<size_t>(node.index)] != 2) return {};
    if (half_dim_ >= 0 && half_dim_ != node.index) return {};
    half_dim_ = node.index;
    return Converted(index, node.dtype);
  }

  static Value Applied(const ExprNode& node, double a, double b) {
    const bool is_integer = !IsFloatingPoint(node.dtype);
    switch (node.fn) {
      case FN_ADD:
        return Converted(a + b, node.dtype);
      case FN_SUB:
        return Converted(a - b, node.dtype);
      case FN_MUL:
        return Converted(a * b, node.dtype);
      case FN_AND:
        if (!is_integer) return {};
        return Converted(static_cast<double>(static_cast<int64_t>(a) & static_cast<int64_t>(b)), node.dtype);
      default:  // FN_SHIFT_RIGHT
        if (!is_integer || b < 0 || b >= 8) return {};
        return Converted(static_cast<double>(static_cast<int64_t>(a) >> static_cast<int64_t>(b)), node.dtype);
    }
  }

  const ExprProgram& program_;
  const int data_;
  const int shift_;
  int half_dim_;
  std::vector<Value> values_;  // by node
};

// Returns the integer of a byte.
int IntegerOf(int byte, DType dtype, bool has_halves, int index) {
  if (has_halves) return index == 0 ? byte & 15 : byte >> 4;
  return dtype == DType::kInt8 ? static_cast<int8_t>(byte) : byte;
}

// Returns true if both are the same bits.
bool IsSame(float a, double b) { return std::bit_cast<uint32_t>(a) == std::bit_cast<uint32_t>(static_cast<float>(b)); }

// Returns the product's operands as (integer - zero) and the input of factors; -1 if the expression has another form.
std::pair<int, int> FactorsOf(const ExprProgram& program) {
  if (program.has_reduce_dims || program.outputs.size() != 1) return {-1, -1};
  const ExprNode& product = program.nodes[static_cast<size_t>(program.outputs[0])];
  if (product.fn != FN_MUL || product.dtype != DType::kFloat32) return {-1, -1};
  for (size_t k = 0; k < 2; ++k) {
    const ExprNode& factor = program.nodes[static_cast<size_t>(product.operands[k])];
    if (factor.fn == FN_INPUT) return {product.operands[1 - k], factor.index};
  }
  return {-1, -1};
}

// Sets the inputs, given that of the factors, and the dimension of an input of shifts. Returns false if there are
// others.
bool FindInputs(const ExprProgram& program, absl::Span<const TensorSpec> inputs, Dequantization& form) {
  if (inputs.size() < 2 || inputs.size() > 3) return false;
  for (int i = 0; i < static_cast<int>(inputs.size()); ++i) {
    const StridedLayout& layout = inputs[static_cast<size_t>(i)].layout;
    if (i == form.factor) continue;
    if (!IsByte(inputs[static_cast<size_t>(i)].dtype)) return false;
    const bool is_shift = inputs.size() == 3 && form.shift < 0 && NumElements(layout.sizes) == 2;
    (is_shift ? form.shift : form.data) = i;
    for (int d = 0; is_shift && d < layout.rank(); ++d) {
      if (layout.sizes[static_cast<size_t>(d)] == 2) form.half_dim = program.rank() - layout.rank() + d;
    }
  }
  return form.data >= 0 && (inputs.size() == 2 || form.shift >= 0);
}

}  // namespace

std::optional<Dequantization> FindDequantization(const ExprProgram& program, absl::Span<const TensorSpec> inputs) {
  const auto [root, factor] = FactorsOf(program);
  Dequantization found = {.factor = factor};
  if (root < 0 || !FindInputs(program, inputs, found)) return std::nullopt;
  const DType dtype = inputs[static_cast<size_t>(found.data)].dtype;
  Evaluator evaluator(program, found);
  const Value origin = evaluator.Evaluate(root, 0, 0);
  if (!origin.known) return std::nullopt;
  found.half_dim = evaluator.half_dim();
  found.zero = 0 - static_cast<float>(origin.number);
  const bool has_halves = found.half_dim >= 0;
  for (int index = 0; index < (has_halves ? 2 : 1); ++index) {
    for (int byte = 0; byte < kBytes; ++byte) {
      const Value value = evaluator.Evaluate(root, byte, index);
      const float expected = static_cast<float>(IntegerOf(byte, dtype, has_halves, index)) - found.zero;
      if (!value.known || !IsSame(expected, value.number)) return std::nullopt;
    }
  }
  return found;
}

}  // namespace cotan::cpu::expr
