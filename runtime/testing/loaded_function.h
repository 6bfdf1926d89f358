// SPDX-License-Identifier: Apache-2.0

// A session with its function "f", and helpers for tests that call functions with Variables.
#ifndef COTAN_RUNTIME_TESTING_LOADED_FUNCTION_H_
#define COTAN_RUNTIME_TESTING_LOADED_FUNCTION_H_

#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"
#include "runtime/autograd/engine.h"
#include "runtime/function/function.h"
#include "runtime/testing/function_builder.h"

namespace cotan::testing {

inline Tensor Vector(const std::vector<float>& values) {
  return *Tensor::From<float>(values, {static_cast<int64_t>(values.size())});
}

inline Variable Leaf(const std::vector<float>& values) { return *Variable::Leaf(Vector(values)); }

inline std::vector<float> Values(const Variable& variable) { return *variable.tensor().ToVector<float>(); }

inline const Variable& At(const std::vector<FunctionResult>& results, size_t index) {
  return std::get<Variable>(results[index]);
}

// A session of a program and its function "f". The test fails if a call returns an error.
struct LoadedFunction {
  explicit LoadedFunction(ProgramBuilder builder)
      : session(*Session::Create(builder.Load(), {.kernels = &TestKernels(), .device = nullptr, .threads = 1})),
        f(*Function::Create(session, "f")) {}

  std::vector<FunctionResult> Call(const std::vector<Variable>& arguments) {
    absl::StatusOr<std::vector<FunctionResult>> results = f.Call(arguments);
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? *std::move(results) : std::vector<FunctionResult>();
  }

  absl::Status Backward(const Variable& root, const std::vector<float>& gradient, bool retain_graph = false) {
    return autograd::Backward({root}, {*Tensor::From<float>(gradient, root.sizes())}, session.ops(),
                              {.retain_graph = retain_graph});
  }

  Session session;
  Function f;
};

// Returns a non-leaf copy of `leaf`, made by an autograd operation.
inline Variable Copy(LoadedFunction& program, const Variable& leaf) {
  Variable copy(Vector(std::vector<float>(Values(leaf).size())));
  EXPECT_TRUE(copy.CopyInPlace(leaf, program.session.ops()).ok());
  return copy;
}

}  // namespace cotan::testing

#endif  // COTAN_RUNTIME_TESTING_LOADED_FUNCTION_H_
