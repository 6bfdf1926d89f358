// SPDX-License-Identifier: Apache-2.0

// Compares the number of values that a forward saves for its backward with that of PyTorch's minimal cut: it is at most
// the same. Only the count is compared, neither bytes nor identity.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "aot/compile.h"
#include "runtime/execution/program.h"

namespace cotan {
namespace {

using Tensors = std::vector<at::Tensor>;

struct Row {
  const char* name;
  std::vector<std::vector<int64_t>> sizes;  // of inputs, which all require grad
  aot::TensorFunction function;
  uint32_t most;
};

const std::vector<Row>& Rows() {
  static const auto& rows = *new std::vector<Row>{
      {"cosines", {{4}}, [](const Tensors& x) -> Tensors { return {x[0].cos().cos().cos()}; }, 1},
      {"cosines_of_a_sum",
       {{4}, {4}, {4}, {4}},
       [](const Tensors& x) -> Tensors { return {(x[0] + x[1] + x[2] + x[3]).cos().cos()}; },
       1},
      {"rows_summed", {{2, 3}}, [](const Tensors& x) -> Tensors { return {x[0].sum(1)}; }, 0},
      {"joined",
       {{4}, {3, 4}, {2, 4}},
       [](const Tensors& x) -> Tensors {
         return {at::cat({x[0].expand({5, 4}), x[1], x[2]})};
       },
       0},
      {"layer_norm",
       {{3, 4}, {4}, {4}},
       [](const Tensors& x) -> Tensors { return {at::layer_norm(x[0], {4}, x[1], x[2])}; },
       5},
      {"two_layers",
       {{2, 3}, {3, 4}, {4, 2}},
       [](const Tensors& x) -> Tensors { return {at::relu(x[0].mm(x[1])).mm(x[2])}; },
       4},
      {"softmax", {{2, 3}}, [](const Tensors& x) -> Tensors { return {x[0].softmax(1)}; }, 1},
      {"negative_elements", {{2, 3}}, [](const Tensors& x) -> Tensors { return {(x[0] < 0) * x[0]}; }, 1},
      {"tanh_joined",
       {{2, 3}, {2, 3}},
       [](const Tensors& x) -> Tensors {
         return {at::cat({x[0].tanh(), x[1]})};
       },
       1},
      {"outer_product", {{6, 1}, {1, 6}}, [](const Tensors& x) -> Tensors { return {(x[0] * x[1]).cos().sum(1)}; }, 2},
      {"gelu_of_a_product", {{2, 3}, {3, 4}}, [](const Tensors& x) -> Tensors { return {at::gelu(x[0].mm(x[1]))}; }, 3},
      {"sum_of_sines", {{2, 3}}, [](const Tensors& x) -> Tensors { return {x[0].sin().sum()}; }, 1},
      {"embedding",
       {{5, 3}},
       [](const Tensors& x) -> Tensors {
         return {at::embedding(x[0], torch::tensor({4, 0, 4, 1}, at::kLong))};
       },
       1},
      {"convolution",
       {{1, 2, 5, 5}, {3, 2, 3, 3}},
       [](const Tensors& x) -> Tensors { return {at::conv2d(x[0], x[1])}; },
       2},
      {"attention",
       {{1, 2, 4, 8}, {1, 2, 4, 8}, {1, 2, 4, 8}},
       [](const Tensors& x) -> Tensors { return {at::scaled_dot_product_attention(x[0], x[1], x[2])}; },
       5},
      {"cross_entropy",
       {{4, 3}},
       [](const Tensors& x) -> Tensors {
         return {at::cross_entropy_loss(x[0], torch::tensor({2, 0, 1, 1}, at::kLong))};
       },
       3},
      {"a_sum_added", {{2, 3}, {2, 3}}, [](const Tensors& x) -> Tensors { return {x[0] + x[1].sum()}; }, 0},
  };
  return rows;
}

TEST(SavedCountTest, IsAtMostThatOfTheReferencesMinimalCut) {
  for (const Row& row : Rows()) {
    Tensors examples;
    for (const std::vector<int64_t>& sizes : row.sizes) examples.push_back(torch::rand(sizes).requires_grad_(true));
    const auto model = aot::CompileFunction(row.function, examples, {});
    ASSERT_TRUE(model.ok()) << row.name << ": " << model.status();
    const auto program = *Program::LoadBytes(model->bytes());
    const auto& forward = program->method(*program->FindMethod("forward"));
    ASSERT_EQ(forward.backward_method(), "backward") << row.name;
    EXPECT_LE(forward.num_saved(), row.most) << row.name;
  }
}

}  // namespace
}  // namespace cotan
