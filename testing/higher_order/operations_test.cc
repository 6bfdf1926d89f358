// SPDX-License-Identifier: Apache-2.0

// Operations at second order: compiled with order 2, beside LibTorch eager.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

struct Case {
  std::string name;
  aot::TensorFunction function;
  Tensors inputs;
};

std::vector<Case> PointwiseCases() {
  const auto unary = [](const std::string& name, at::Tensor (*op)(const at::Tensor&)) {
    return Case{name, [op](const Tensors& in) -> Tensors { return {op(in[0])}; }, {Leaf(1, {3, 2})}};
  };
  return {
      unary("exp", at::exp),
      unary("log", at::log),
      unary("sin", at::sin),
      unary("tanh", at::tanh),
      unary("sigmoid", at::sigmoid),
      unary("sqrt", at::sqrt),
      unary("rsqrt", at::rsqrt),
      unary("reciprocal", at::reciprocal),
      unary("erf", at::erf),
      unary("silu", at::silu),
      unary("abs", at::abs),
      unary("relu", at::relu),
      {"gelu", [](const Tensors& in) -> Tensors { return {at::gelu(in[0] - 0.5)}; }, {Leaf(1, {3, 2})}},
      {"softplus", [](const Tensors& in) -> Tensors { return {at::softplus(in[0])}; }, {Leaf(1, {3, 2})}},
      {"elu", [](const Tensors& in) -> Tensors { return {at::elu(in[0] - 0.7)}; }, {Leaf(1, {3, 2})}},
      {"leaky_relu", [](const Tensors& in) -> Tensors { return {at::leaky_relu(in[0] - 0.7)}; }, {Leaf(1, {3, 2})}},
      {"divided", [](const Tensors& in) -> Tensors { return {in[0] / in[1]}; }, {Leaf(1, {3, 2}), Leaf(2, {2})}},
      {"power", [](const Tensors& in) -> Tensors { return {at::pow(in[0], in[1])}; }, {Leaf(1, {3}), Leaf(2, {3})}},
      {"atan2", [](const Tensors& in) -> Tensors { return {at::atan2(in[0], in[1])}; }, {Leaf(1, {3}), Leaf(2, {3})}},
      {"where",
       [](const Tensors& in) -> Tensors { return {at::where(in[0] > in[1], in[0] * in[1], in[1].exp())}; },
       {Leaf(1, {3}), Leaf(2, {3})}},
      {"clamp", [](const Tensors& in) -> Tensors { return {in[0].clamp(0.4, 0.9).pow(2)}; }, {Leaf(1, {6})}},
      {"maximum",
       [](const Tensors& in) -> Tensors { return {at::maximum(in[0], in[1]).pow(3)}; },
       {Leaf(1, {5}), Leaf(2, {5})}},
      {"lerp",
       [](const Tensors& in) -> Tensors { return {at::lerp(in[0], in[1], in[2])}; },
       {Leaf(1, {5}), Leaf(2, {5}), Leaf(3, {5})}},
      {"addcdiv",
       [](const Tensors& in) -> Tensors { return {at::addcdiv(in[0], in[1], in[2], 2)}; },
       {Leaf(1, {5}), Leaf(2, {5}), Leaf(3, {5})}},
  };
}

std::vector<Case> ReductionCases() {
  return {
      {"sum", [](const Tensors& in) -> Tensors { return {in[0].pow(2).sum(1)}; }, {Leaf(1, {3, 4})}},
      {"mean", [](const Tensors& in) -> Tensors { return {in[0].pow(3).mean()}; }, {Leaf(1, {3, 4})}},
      {"prod", [](const Tensors& in) -> Tensors { return {in[0].prod(1)}; }, {Leaf(1, {3, 4})}},
      {"var", [](const Tensors& in) -> Tensors { return {in[0].var(1)}; }, {Leaf(1, {3, 4})}},
      {"norm", [](const Tensors& in) -> Tensors { return {in[0].norm()}; }, {Leaf(1, {3, 4})}},
      {"logsumexp", [](const Tensors& in) -> Tensors { return {in[0].logsumexp(1)}; }, {Leaf(1, {3, 4})}},
      {"amax", [](const Tensors& in) -> Tensors { return {in[0].amax(1).pow(2)}; }, {Leaf(1, {3, 4})}},
      {"cumsum", [](const Tensors& in) -> Tensors { return {in[0].cumsum(1).pow(2)}; }, {Leaf(1, {3, 4})}},
      {"softmax", [](const Tensors& in) -> Tensors { return {in[0].softmax(1)}; }, {Leaf(1, {3, 4})}},
      {"log_softmax", [](const Tensors& in) -> Tensors { return {in[0].log_softmax(1)}; }, {Leaf(1, {3, 4})}},
      {"layer_norm",
       [](const Tensors& in) -> Tensors { return {at::layer_norm(in[0], {4}, in[1], in[2])}; },
       {Leaf(1, {3, 4}), Leaf(2, {4}), Leaf(3, {4})}},
      {"mse", [](const Tensors& in) -> Tensors { return {at::mse_loss(in[0], in[1])}; }, {Leaf(1, {3}), Leaf(2, {3})}},
      {"smooth_l1",
       [](const Tensors& in) -> Tensors { return {at::smooth_l1_loss(in[0] * 3, in[1])}; },
       {Leaf(1, {5}), Leaf(2, {5})}},
      {"cross_entropy",
       [](const Tensors& in) -> Tensors { return {at::cross_entropy_loss(in[0], in[1])}; },
       {Leaf(1, {3, 4}), torch::tensor({1, 3, 0}, torch::kLong)}},
  };
}

std::vector<Case> MatrixCases() {
  return {
      {"mm", [](const Tensors& in) -> Tensors { return {in[0].mm(in[1])}; }, {Leaf(1, {2, 3}), Leaf(2, {3, 4})}},
      {"addmm",
       [](const Tensors& in) -> Tensors { return {at::addmm(in[0], in[1], in[2])}; },
       {Leaf(0, {4}), Leaf(1, {2, 3}), Leaf(2, {3, 4})}},
      {"bmm",
       [](const Tensors& in) -> Tensors { return {in[0].bmm(in[1])}; },
       {Leaf(1, {2, 2, 3}), Leaf(2, {2, 3, 2})}},
      {"linear_and_relu",
       [](const Tensors& in) -> Tensors { return {at::relu(at::linear(in[0], in[1], in[2]) - 1)}; },
       {Leaf(1, {2, 3}), Leaf(2, {4, 3}), Leaf(3, {4})}},
      {"two_layers",
       [](const Tensors& in) -> Tensors { return {at::tanh(in[0].mm(in[1])).mm(in[2])}; },
       {Leaf(1, {2, 3}), Leaf(2, {3, 4}), Leaf(3, {4, 2})}},
      {"conv2d",
       [](const Tensors& in) -> Tensors { return {at::tanh(at::conv2d(in[0], in[1], in[2], 1, 1))}; },
       {Leaf(1, {1, 2, 4, 4}), Leaf(2, {3, 2, 3, 3}), Leaf(3, {3})}},
      {"avg_pool2d",
       [](const Tensors& in) -> Tensors {
         return {at::avg_pool2d(in[0].pow(2), {2, 2})};
       },
       {Leaf(1, {1, 2, 4, 4})}},
      {"max_pool2d",
       [](const Tensors& in) -> Tensors {
         return {at::max_pool2d(in[0], {2, 2}).pow(2)};
       },
       {Leaf(1, {1, 2, 4, 4})}},
      {"attention",
       [](const Tensors& in) -> Tensors {
         return {at::matmul(at::softmax(at::matmul(in[0], in[1].transpose(-1, -2)) / 2, -1), in[2])};
       },
       {Leaf(1, {1, 3, 4}), Leaf(2, {1, 3, 4}), Leaf(3, {1, 3, 4})}},
  };
}

std::vector<Case> IndexingCases() {
  return {
      {"transposed", [](const Tensors& in) -> Tensors { return {in[0].t().pow(2)}; }, {Leaf(1, {2, 3})}},
      {"cat",
       [](const Tensors& in) -> Tensors {
         return {at::cat({in[0].pow(2), in[1].exp()})};
       },
       {Leaf(1, {2, 3}), Leaf(2, {1, 3})}},
      {"sliced_and_written",
       [](const Tensors& in) -> Tensors {
         const at::Tensor y = in[0] * in[0];
         y.select(0, 1).mul_(in[1]);
         return {y};
       },
       {Leaf(1, {3, 2}), Leaf(2, {2})}},
      {"gather",
       [](const Tensors& in) -> Tensors { return {in[0].pow(2).gather(1, in[1])}; },
       {Leaf(1, {2, 3}), torch::tensor({{2, 2}, {0, 1}}, torch::kLong)}},
      {"index_add",
       [](const Tensors& in) -> Tensors { return {in[0].index_add(0, in[1], in[2]).pow(2)}; },
       {Leaf(1, {3, 2}), torch::tensor({1, 1}, torch::kLong), Leaf(2, {2, 2})}},
      {"embedding",
       [](const Tensors& in) -> Tensors { return {at::embedding(in[0], in[1]).pow(2)}; },
       {Leaf(1, {4, 3}), torch::tensor({3, 0, 3}, torch::kLong)}},
      {"sorted", [](const Tensors& in) -> Tensors { return {std::get<0>(in[0].sort(0)).pow(3)}; }, {Leaf(1, {5})}},
      {"unfolded", [](const Tensors& in) -> Tensors { return {in[0].unfold(0, 3, 1).pow(2).sum(1)}; }, {Leaf(1, {6})}},
  };
}

// Results that are views, constants, integers, or of each other.
std::vector<Case> ResultCases() {
  return {
      {"two_results",
       [](const Tensors& in) -> Tensors {
         return {in[0] * in[1], in[0].exp() + in[1]};
       },
       {Leaf(1, {3}), Leaf(2, {3})}},
      {"a_view_of_an_argument",
       [](const Tensors& in) -> Tensors {
         return {in[0].view({6}), in[0].pow(3)};
       },
       {Leaf(1, {2, 3})}},
      {"views_of_an_intermediate",
       [](const Tensors& in) -> Tensors {
         const at::Tensor y = in[0].pow(3);
         return {y.view({6}), y.t()};
       },
       {Leaf(1, {2, 3})}},
      {"an_intermediate_and_its_view",
       [](const Tensors& in) -> Tensors {
         const at::Tensor y = in[0].pow(3);
         return {y, y.view({6})};
       },
       {Leaf(1, {2, 3})}},
      {"an_integer_result",
       [](const Tensors& in) -> Tensors {
         return {in[0].pow(3), in[0].argmax()};
       },
       {Leaf(1, {4})}},
      {"an_argument_without_gradient",
       [](const Tensors& in) -> Tensors { return {in[0].pow(2) * in[1]}; },
       {Leaf(1, {4}), Constant(2, {4})}},
      {"an_unused_argument",
       [](const Tensors& in) -> Tensors { return {in[0].pow(2) * 2}; },
       {Leaf(1, {4}), Leaf(2, {4})}},
      {"a_detached_factor",
       [](const Tensors& in) -> Tensors { return {in[0].detach() * in[0] * in[0]}; },
       {Leaf(1, {4})}},
      {"a_factor_under_no_grad",
       [](const Tensors& in) -> Tensors {
         at::Tensor factor;
         {
           const at::NoGradGuard no_grad;
           factor = in[0].exp();
         }
         return {factor * in[0] * in[0]};
       },
       {Leaf(1, {4})}},
      {"a_linear_function",
       [](const Tensors& in) -> Tensors { return {3 * in[0] + in[1]}; },
       {Leaf(1, {4}), Leaf(2, {4})}},
      {"the_same_leaf_in_an_expanded_sum",
       [](const Tensors& in) -> Tensors { return {in[0].sum() * in[0]}; },
       {Leaf(1, {4})}},
  };
}

class OperationsTest : public ::testing::TestWithParam<Case> {};

TEST_P(OperationsTest, BothOrdersAreThoseOfEager) { ExpectEagerOrders(GetParam().function, GetParam().inputs, 1e-10); }

std::string NameOf(const ::testing::TestParamInfo<Case>& info) { return info.param.name; }

INSTANTIATE_TEST_SUITE_P(Pointwise, OperationsTest, ::testing::ValuesIn(PointwiseCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Reductions, OperationsTest, ::testing::ValuesIn(ReductionCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Matrices, OperationsTest, ::testing::ValuesIn(MatrixCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Indexing, OperationsTest, ::testing::ValuesIn(IndexingCases()), NameOf);
INSTANTIATE_TEST_SUITE_P(Results, OperationsTest, ::testing::ValuesIn(ResultCases()), NameOf);

// Applies a random operation to values of sizes [3, 3].
at::Tensor RandomOperation(std::mt19937& random, const Tensors& values) {
  const auto pick = [&] { return values[random() % values.size()]; };
  switch (random() % 12) {
    case 0:
      return pick() * pick();
    case 1:
      return pick() + pick();
    case 2:
      return at::sin(pick());
    case 3:
      return at::tanh(pick());
    case 4:
      return pick().mm(pick()) / 3;
    case 5:
      return pick().t().contiguous();
    case 6:
      return pick().softmax(1);
    case 7:
      return pick() / (1 + pick().pow(2));
    case 8:
      return pick() - pick().mean(0);
    case 9:
      return at::sigmoid(pick()) * pick().sum();
    case 10:
      return at::cat({pick().slice(0, 1), pick().slice(0, 0, 1)});
    default:
      return at::exp(-pick().pow(2));
  }
}

TEST(RandomFunctionsTest, BothOrdersAreThoseOfEager) {
  for (uint32_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(::testing::Message() << "seed " << seed);
    const auto function = [seed](const Tensors& in) -> Tensors {
      std::mt19937 random(seed);
      Tensors values = in;
      for (int i = 0; i < 8; ++i) values.push_back(RandomOperation(random, values));
      return {values.back(), values[values.size() - 3]};
    };
    ExpectEagerOrders(function, {Leaf(1, {3, 3}), Leaf(2, {3, 3})}, 1e-9);
  }
}

}  // namespace
}  // namespace cotan::testing
