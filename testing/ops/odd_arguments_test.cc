// SPDX-License-Identifier: Apache-2.0

// Calls the ops of the core opset with guessed arguments: the compiler compiles the op or returns a
// status, and never throws or crashes.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/enum_tag.h>

#include <algorithm>
#include <exception>
#include <string>
#include <vector>

#include "aot/capture/argument.h"
#include "aot/compile.h"
#include "gtest/gtest.h"
#include "testing/ops/function_runner.h"
#include "testing/ops/schema_arguments.h"

namespace cotan::testing {
namespace {

std::vector<std::string> CoreOps() {
  std::vector<std::string> ops;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto handle = c10::Dispatcher::singleton().findSchema(name);
    if (handle.has_value() && handle->schema().name().rfind("aten::", 0) == 0 && handle->hasTag(at::Tag::core)) {
      ops.push_back(aot::NodeOpName(handle->schema()));
    }
  }
  std::sort(ops.begin(), ops.end());
  return ops;
}

// Returns a few small numbers for lists, and the guesses of MakeArguments() for other arguments.
OpArguments OddArguments(const c10::FunctionSchema& schema, const Shape& shape, at::ScalarType dtype) {
  OpArguments arguments = MakeArguments(schema, shape, dtype);
  for (size_t i = 0; i < arguments.size(); ++i) {
    const c10::Argument& declared = schema.arguments()[i];
    if (!arguments[i].isNone() || declared.default_value().has_value()) continue;
    if (declared.type()->isSubtypeOf(*c10::ListType::ofInts())) arguments[i] = std::vector<int64_t>{1, 2};
    if (declared.type()->isSubtypeOf(*c10::ListType::ofTensors())) {
      arguments[i] = c10::List<at::Tensor>({shape.make(0, dtype), shape.make(1, dtype)});
    }
  }
  return arguments;
}

// Returns the number of cases that compiled.
int CompileWith(const std::string& op, at::ScalarType dtype, bool requires_grad) {
  std::vector<at::Tensor> inputs;
  const c10::OperatorHandle handle = aot::FindOperator(op).value();
  int compiled = 0;
  for (const Shape& shape : Shapes()) {
    inputs.clear();
    const aot::TensorFunction function = FunctionOf(op, OddArguments(handle.schema(), shape, dtype), inputs);
    for (at::Tensor& input : inputs) {
      if (requires_grad && at::isFloatingType(input.scalar_type())) input.requires_grad_();
    }
    aot::CompileOptions options;
    options.debug.store_references = false;
    compiled += aot::CompileFunction(function, inputs, options).ok();
  }
  return compiled;
}

TEST(OddArgumentsTest, NeverCrashTheCompiler) {
  int compiled = 0;
  for (const std::string& op : CoreOps()) {
    SCOPED_TRACE(op);
    for (const at::ScalarType dtype : {at::kFloat, at::kBool, at::kComplexFloat, at::kByte}) {
      for (const bool requires_grad : {false, true}) {
        EXPECT_NO_THROW(compiled += CompileWith(op, dtype, requires_grad)) << at::toString(dtype);
      }
    }
  }
  EXPECT_GT(compiled, 500);
}

}  // namespace
}  // namespace cotan::testing
