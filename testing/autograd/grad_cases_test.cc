// SPDX-License-Identifier: Apache-2.0

// What is asked of backwards of compiled functions, beside LibTorch eager: gradients of unused inputs. Rows of
// cases.txt about double backward, edges and refusals.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <utility>
#include <vector>

#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/engine.h"
#include "testing/autograd/walked_and_captured.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Compiled Compile(const aot::TensorFunction& function, const Tensors& examples, int order = 1) {
  auto compiled = Compiled::Function(function, examples, order);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

Tensor Ones(int64_t n) { return ToCotan(torch::ones({n}, torch::kDouble)); }

Tensors Product(const Tensors& in) { return {in[0] * in[1]}; }

// AG-097.
TEST(GradCasesTest, ASecondDerivativeThatDoesNotExistMayBeZeros) {
  const at::Tensor eager_x = Leaf(0, {2}), eager_a = Leaf(1, {2}), ones = torch::ones({2}, torch::kDouble);
  const at::Tensor eager = torch::autograd::grad(Product({eager_x, eager_a}), {eager_x}, {ones}, {}, true)[0];
  EXPECT_FALSE(torch::autograd::grad({eager}, {eager_x}, {ones}, true, false, /*allow_unused=*/true)[0].defined());

  Compiled f = Compile(Product, {Leaf(0, {2}), Leaf(1, {2})}, 3);
  const Variable x = ToVariable(Leaf(0, {2})), a = ToVariable(Leaf(1, {2})), one(Ones(2));
  const auto first = autograd::GradWithGraph(f({x, a}), {x}, {one}, f.ops());
  ASSERT_TRUE(first.ok()) << first.status();
  ExpectNear(ToTorch((*first)[0].tensor()), eager.detach());
  const auto undefined = autograd::GradWithGraph(*first, {x}, {one}, f.ops(), /*allow_unused=*/true);
  ASSERT_TRUE(undefined.ok()) << undefined.status();
  EXPECT_FALSE((*undefined)[0].defined());
  const auto second = autograd::GradWithGraph(*first, {x, a}, {one}, f.ops(), true, /*materialize_grads=*/true);
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_THAT(*(*second)[0].tensor().ToVector<double>(), ElementsAre(0, 0));
  EXPECT_THAT(*(*second)[1].tensor().ToVector<double>(), ElementsAre(1, 1));
  const auto third = autograd::Grad({(*second)[0]}, {x}, {Ones(2)}, f.ops(), {.materialize_grads = true});
  ASSERT_TRUE(third.ok()) << third.status();
  EXPECT_THAT(*(*third)[0].ToVector<double>(), ElementsAre(0, 0));
}

TEST(GradCasesTest, UnusedInputsAreZerosOnlyIfTheyAreAllowed) {
  Compiled f = Compile(Product, {Leaf(0, {2}), Leaf(1, {2})});
  WalkedAndCaptured([&] {
    const Variable x = ToVariable(Leaf(0, {2})), a = ToVariable(Leaf(1, {2})), other = ToVariable(Leaf(2, {3}));
    const Variables y = f({x, a});
    const auto gradients =
        autograd::Grad(y, {x, other}, {Ones(2)}, f.ops(), {.retain_graph = true, .materialize_grads = true});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    ExpectNear(ToTorch((*gradients)[0]), Constant(1, {2}));
    EXPECT_THAT(*(*gradients)[1].ToVector<double>(), ElementsAre(0, 0, 0));
    const absl::Status refused =
        autograd::Grad(y, {x, other}, {Ones(2)}, f.ops(), {.allow_unused = false, .materialize_grads = true}).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(refused.message(), HasSubstr("expected allow_unused to be true or unset"));
    EXPECT_THAT(autograd::Grad(y, {x, other}, {Ones(2)}, f.ops()).status().message(),
                HasSubstr("input 1 appears to not have been used in the graph"));
  });
}

}  // namespace
}  // namespace cotan::testing
