// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/accumulate_grad.h"

#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

using ::testing::ElementsAre;

class AccumulateGradTest : public ::testing::Test {
 protected:
  absl::Status Accumulate(const Variable& leaf, Tensor gradient) {
    AccumulateGrad node(leaf, leaf.tensor().sizes());
    BackwardContext context(Ops(), {});
    return node.Apply(context, absl::MakeSpan(&gradient, 1)).status();
  }

  Variable leaf_ = *Variable::Leaf(Count({2, 3}));
};

TEST_F(AccumulateGradTest, AFirstGradientOfItsOwnIsTakenOver) {
  Tensor gradient = Count({2, 3});
  const void* const address = gradient.address();
  AccumulateGrad node(leaf_, leaf_.tensor().sizes());
  BackwardContext context(Ops(), {});
  ASSERT_TRUE(node.Apply(context, absl::MakeSpan(&gradient, 1)).ok());
  EXPECT_EQ(leaf_.grad().tensor().address(), address);
}

TEST_F(AccumulateGradTest, AFirstGradientThatSomebodyHoldsIsCopied) {
  const Tensor gradient = Count({2, 3});
  ASSERT_TRUE(Accumulate(leaf_, gradient).ok());
  EXPECT_NE(leaf_.grad().tensor().address(), gradient.address());
  EXPECT_EQ(ToVector(leaf_.grad()), ToVector(gradient));
}

TEST_F(AccumulateGradTest, LaterOnesAreAddedInPlace) {
  ASSERT_TRUE(Accumulate(leaf_, Count({2, 3})).ok());
  const Variable grad = leaf_.grad();
  const uint32_t version = grad.version();
  ASSERT_TRUE(Accumulate(leaf_, Count({2, 3})).ok());
  EXPECT_TRUE(leaf_.grad().is_same(grad));
  EXPECT_THAT(ToVector(grad), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_GT(grad.version(), version);
}

TEST_F(AccumulateGradTest, TheGradientLiesAsTheLeafDoes) {
  const Variable columns =
      *Variable::Leaf(*Tensor::InStorage(Count({6}).storage(), DType::kFloat32, {.sizes = {2, 3}, .strides = {1, 2}}));
  ASSERT_TRUE(Accumulate(columns, Count({2, 3})).ok());
  EXPECT_EQ(columns.grad().layout().strides, (DimVector{1, 2}));
  EXPECT_EQ(ToVector(columns.grad()), ToVector(Count({2, 3})));

  const Variable gaps =
      *Variable::Leaf(*Tensor::InStorage(Count({6}).storage(), DType::kFloat32, {.sizes = {3}, .strides = {2}}));
  ASSERT_TRUE(Accumulate(gaps, Count({3})).ok());
  EXPECT_EQ(gaps.grad().layout().strides, (DimVector{1}));
}

TEST_F(AccumulateGradTest, NoGradientLeavesItUndefined) {
  ASSERT_TRUE(Accumulate(leaf_, Tensor()).ok());
  EXPECT_FALSE(leaf_.grad().defined());
}

TEST_F(AccumulateGradTest, AGradOfOtherSizesCannotBeAddedTo) {
  EXPECT_THAT(leaf_.SetGrad(Variable(Vector({1, 2}))), Fails(absl::StatusCode::kInvalidArgument, "f32[2]"));
  ASSERT_TRUE(leaf_.SetGrad(Variable(Count({2, 3}))).ok());
  EXPECT_THAT(Accumulate(leaf_, Vector({1, 2})), Fails(absl::StatusCode::kInvalidArgument, "f32[2]"));
}

TEST_F(AccumulateGradTest, AFormerLeafCannotBeAddedTo) {
  AccumulateGrad node(leaf_, leaf_.tensor().sizes());
  ASSERT_TRUE(leaf_.RequiresGrad(false).ok());
  ASSERT_TRUE(leaf_.CopyInPlace(*Variable::Leaf(Count({2, 3})), Ops()).ok());
  BackwardContext context(Ops(), {});
  Tensor gradient = Count({2, 3});
  EXPECT_THAT(node.Apply(context, absl::MakeSpan(&gradient, 1)).status(),
              Fails(absl::StatusCode::kFailedPrecondition, "has been moved into the graph interior"));
}

TEST_F(AccumulateGradTest, ALeafLearnsThatItsBaseWasWritten) {
  for (const bool grad_mode : {true, false}) {
    Variable base(Count({2, 3}));
    Variable view;
    {
      GradModeGuard mode(grad_mode);
      view = *base.View({});
    }
    ASSERT_TRUE(view.RequiresGrad(true).ok());
    AccumulateGrad node(view, view.tensor().sizes());
    ASSERT_TRUE(base.CopyInPlace(leaf_, Ops()).ok());
    ASSERT_TRUE(view.is_leaf()) << "grad_fn() has not been called yet";
    BackwardContext context(Ops(), {});
    Tensor gradient = Count({2, 3});
    EXPECT_THAT(node.Apply(context, absl::MakeSpan(&gradient, 1)).status(),
                Fails(absl::StatusCode::kFailedPrecondition,
                      grad_mode ? "has been moved into the graph interior" : "A view was created in no_grad mode"));
  }
}

TEST_F(AccumulateGradTest, HooksAfterItSeeTheSum) {
  std::vector<float> seen;
  ASSERT_TRUE(leaf_
                  .AddPostAccumulateHook([&](Variable& leaf) {
                    seen = ToVector(leaf.grad());
                    leaf.ClearGrad();
                    return absl::OkStatus();
                  })
                  .ok());
  ASSERT_TRUE(Accumulate(leaf_, Count({2, 3})).ok());
  EXPECT_THAT(seen, ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_FALSE(leaf_.grad().defined());
}

TEST_F(AccumulateGradTest, HooksAfterItAreCalledWithoutAGradientToo) {
  int calls = 0;
  ASSERT_TRUE(leaf_
                  .AddPostAccumulateHook([&](Variable& leaf) {
                    ++calls;
                    EXPECT_FALSE(leaf.grad().defined());
                    return absl::OkStatus();
                  })
                  .ok());
  ASSERT_TRUE(Accumulate(leaf_, Tensor()).ok());
  EXPECT_EQ(calls, 1);
}

}  // namespace
}  // namespace cotan::autograd
