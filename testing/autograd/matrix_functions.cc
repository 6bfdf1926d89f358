// SPDX-License-Identifier: Apache-2.0

#include "testing/autograd/matrix_functions.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>

#include "aot/compile.h"
#include "testing/autograd/three_ways.h"

namespace cotan::testing {

const CompiledFunction& Total() {
  return Compiled("total", [](const Tensors& in) -> Tensors { return {in[0].sum()}; }, {{2, 2}});
}

const CompiledFunction& TotalOfTwo() {
  return Compiled("total of two", [](const Tensors& in) -> Tensors { return {(in[0] + in[1]).sum()}; },
                  {{2, 2}, {2, 2}});
}

const CompiledFunction& Doubled() {
  return Compiled("doubled", [](const Tensors& in) -> Tensors { return {in[0] * 2}; }, {{2, 2}});
}

const CompiledFunction& TwiceAndThrice() {
  return Compiled("twice and thrice", [](const Tensors& in) -> Tensors { return {in[0] * 2, in[0] * 3}; }, {{2, 2}});
}

const CompiledFunction& Cloned() {
  return Compiled("cloned", [](const Tensors& in) -> Tensors { return {in[0].clone()}; }, {{2, 2}});
}

const CompiledFunction& DoublesInPlace() {
  static const CompiledFunction& function = []() -> const CompiledFunction& {
    const TensorFunction doubles = [](const Tensors& in) -> Tensors {
      in[0].mul_(2);
      return {};
    };
    const auto model = aot::CompileFunction(doubles, {at::randn({2, 2}).requires_grad_().clone()}, {});
    EXPECT_TRUE(model.ok()) << model.status();
    return *new CompiledFunction(doubles, model.ok() ? std::string(model->bytes()) : "");
  }();
  return function;
}

at::Tensor Full(double value) { return at::full({2, 2}, value); }

}  // namespace cotan::testing
