// SPDX-License-Identifier: Apache-2.0

// Guesses arguments for pointwise ops from their schema.
#ifndef COTAN_TESTING_OPS_SCHEMA_ARGUMENTS_H_
#define COTAN_TESTING_OPS_SCHEMA_ARGUMENTS_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>

#include <functional>
#include <vector>

#include "testing/ops/op_runner.h"

namespace cotan::testing {

// Shape and layout of the tensor arguments of a case.
struct Shape {
  const char* name;
  std::function<at::Tensor(int k, at::ScalarType dtype)> make;
};

// Returns 0-d, empty, broadcast, strided and other shapes.
std::vector<Shape> Shapes();

// Returns one value for each argument: tensors of `shape`, defaults, or values that most ops
// accept; None if there is no such value.
OpArguments MakeArguments(const c10::FunctionSchema& schema, const Shape& shape, at::ScalarType dtype);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_SCHEMA_ARGUMENTS_H_
