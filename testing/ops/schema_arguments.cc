// SPDX-License-Identifier: Apache-2.0

#include "testing/ops/schema_arguments.h"

#include <ATen/ATen.h>

namespace cotan::testing {
namespace {

at::Tensor Values(at::IntArrayRef sizes, at::ScalarType dtype) {
  if (dtype == at::kBool) return at::randint(0, 2, sizes, at::kLong).to(at::kBool);
  if (!at::isFloatingType(dtype)) {
    // Zeros are excluded because integers cannot be divided by them.
    const at::Tensor x = at::randint(1, 6, sizes, at::kLong);
    return (dtype == at::kByte ? x : x * (at::randint(0, 2, sizes, at::kLong) * 2 - 1)).to(dtype);
  }
  return (at::rand(sizes, at::kDouble) * 6 - 3).to(dtype);
}

// Returns a value for an argument that is not a tensor; None if none can be guessed.
c10::IValue GuessArgument(const c10::Argument& argument, at::ScalarType dtype) {
  if (argument.default_value().has_value()) return *argument.default_value();
  switch (argument.type()->kind()) {
    case c10::TypeKind::NumberType:
      return at::isFloatingType(dtype) ? at::Scalar(0.75) : at::Scalar(2);
    case c10::TypeKind::FloatType:
      return 0.75;
    case c10::TypeKind::IntType:
      return argument.name() == "reduction" ? 1 : 0;
    case c10::TypeKind::BoolType:
      return false;
    default:
      return c10::IValue();
  }
}

}  // namespace

std::vector<Shape> Shapes() {
  return {
      {"0-d", [](int, at::ScalarType dtype) { return Values({}, dtype); }},
      {"empty",
       [](int, at::ScalarType dtype) {
         return Values({2, 0, 3}, dtype);
       }},
      {"vector", [](int, at::ScalarType dtype) { return Values({1500}, dtype); }},
      {"matrix",
       [](int, at::ScalarType dtype) {
         return Values({6, 34}, dtype);
       }},
      {"broadcast",
       [](int k, at::ScalarType dtype) {
         return k % 2 == 0 ? Values({3, 1, 5}, dtype) : Values({4, 1}, dtype);
       }},
      {"transposed",
       [](int k, at::ScalarType dtype) {
         return k % 2 == 0 ? Values({8, 6, 5}, dtype).transpose(0, 2) : Values({5, 6, 8}, dtype);
       }},
      {"channels last",
       [](int, at::ScalarType dtype) {
         return Values({2, 4, 3, 5}, dtype).contiguous(at::MemoryFormat::ChannelsLast);
       }},
      {"expanded slice",
       [](int k, at::ScalarType dtype) {
         return k % 2 == 0 ? Values({1, 20}, dtype).expand({7, 20}).slice(1, 1, 19, 2) : Values({7, 9}, dtype);
       }},
  };
}

OpArguments MakeArguments(const c10::FunctionSchema& schema, const Shape& shape, at::ScalarType dtype) {
  OpArguments stack;
  int tensors = 0;
  for (const c10::Argument& argument : schema.arguments()) {
    const bool is_tensor = argument.type()->kind() == c10::TypeKind::TensorType;
    const bool is_condition = argument.name() == "condition" || argument.name() == "mask";
    if (is_tensor) {
      stack.emplace_back(shape.make(tensors++, is_condition ? at::kBool : dtype));
    } else {
      stack.push_back(GuessArgument(argument, dtype));
    }
  }
  return stack;
}

}  // namespace cotan::testing
