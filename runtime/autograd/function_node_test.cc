// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/function_node.h"

#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

using ::testing::ElementsAre;

absl::StatusOr<Gradients> PassOn(BackwardContext&, absl::Span<Tensor> incoming) {
  return Gradients{std::move(incoming[0])};
}

TEST(FunctionNodeTest, OutputsHaveAHistoryIfAnInputRequiresGrad) {
  const Variable leaf = *Variable::Leaf(Vector({1}));
  const Variable plain(Vector({1}));
  const auto both =
      ApplyFunction("f", {plain, leaf, Variable()}, {Vector({2}), *Tensor::Scalar<int64_t>(3), Tensor()}, PassOn);
  ASSERT_TRUE(both.ok());
  EXPECT_EQ((*(*both)[0].grad_fn())->name(), "f");
  EXPECT_FALSE((*both)[1].requires_grad()) << "integers have no gradient";
  EXPECT_FALSE((*both)[2].defined());
  EXPECT_TRUE((*ApplyFunction("f", {plain}, {Vector({2})}, PassOn))[0].is_leaf());
  GradModeGuard off(false);
  EXPECT_TRUE((*ApplyFunction("f", {leaf}, {Vector({2})}, PassOn))[0].is_leaf());
}

TEST(FunctionNodeTest, TheBackwardRunsOnceUnlessRetained) {
  const Variable leaf = *Variable::Leaf(Vector({1}));
  const Variable y = Scale(leaf, 3);
  ASSERT_TRUE(Backward({y}, {}, Ops(), {.retain_graph = true}).ok());
  ASSERT_TRUE(Backward({y}, {}, Ops()).ok());
  EXPECT_THAT(ToVector(leaf.grad()), ElementsAre(6));
  EXPECT_THAT(Backward({y}, {}, Ops()), Fails(absl::StatusCode::kFailedPrecondition,
                                              "Scale: trying to backward through the graph a second time"));
}

TEST(FunctionNodeTest, ErrorsOfTheFunctionNameIt) {
  const Variable leaf = *Variable::Leaf(Vector({1}));
  const auto fail = [](BackwardContext&, absl::Span<Tensor>) -> absl::StatusOr<Gradients> {
    return absl::AbortedError("out of luck");
  };
  const Variable y = (*ApplyFunction("mine", {leaf}, {Vector({2})}, fail))[0];
  EXPECT_THAT(Backward({y}, {}, Ops()), Fails(absl::StatusCode::kAborted, "in the backward of mine: out of luck"));
}

}  // namespace
}  // namespace cotan::autograd
