// Arguments for an op, guessed from its schema: for pointwise ops they make
// sense.
#ifndef COTAN_TESTING_OPS_SCHEMA_ARGUMENTS_H_
#define COTAN_TESTING_OPS_SCHEMA_ARGUMENTS_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/function_schema.h>

#include <functional>
#include <vector>

#include "testing/ops/op_runner.h"

namespace cotan::testing {

// The k-th tensor argument of a case.
struct Shape {
  const char* name;
  std::function<at::Tensor(int k, at::ScalarType dtype)> make;
};

// 0-d, empty, broadcast, strided, ...
std::vector<Shape> Shapes();

// One for each argument: tensors of `shape`, defaults, and otherwise values
// that suit most ops; None where there is none to be guessed.
OpArguments MakeArguments(const c10::FunctionSchema& schema, const Shape& shape, at::ScalarType dtype);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_SCHEMA_ARGUMENTS_H_
