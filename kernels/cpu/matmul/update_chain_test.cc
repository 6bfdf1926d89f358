// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/update_chain.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/expr_builder.h"

namespace cotan::cpu {
namespace {

using testing::ExprBuilder;

constexpr DType kF32 = DType::kFloat32;

TensorSpec Dense(const DimVector& sizes) { return {kF32, {sizes, ContiguousStrides(sizes), 0}}; }

// Inputs 0 to 2 have the domain's sizes, 3 and 4 are 0-d.
std::vector<ChainStep> Find(const ExprBuilder& b) {
  const serialization::Op op = b.Build();
  const std::vector<TensorSpec> inputs = {Dense({2, 3}), Dense({2, 3}), Dense({2, 3}), Dense({}), Dense({})};
  const std::vector<TensorSpec> outputs(static_cast<size_t>(op.expr().outputs_size()), Dense({2, 3}));
  const absl::StatusOr<ExprProgram> program = ResolveExpr({op, inputs, outputs, {}});
  EXPECT_TRUE(program.ok()) << program.status();
  return FindUpdateChain(*program, inputs);
}

TEST(UpdateChainTest, MomentumIsTwoSteps) {
  ExprBuilder b({2, 3});
  const int gradient = b.Input(0, kF32);
  const int momentum = b.Mul(b.Input(3, kF32), b.Input(1, kF32));
  const int next = b.Add(momentum, gradient);
  b.Output(b.Sub(b.Input(2, kF32), b.Mul(b.Input(4, kF32), next)));
  b.Output(next);
  const std::vector<ChainStep> chain = Find(b);
  ASSERT_EQ(chain.size(), 2U);
  EXPECT_EQ(chain[0].product.input, -1);
  EXPECT_EQ(chain[0].product.constant, 1);
  EXPECT_EQ(chain[0].operand.input, 3);
  EXPECT_EQ(chain[0].input, 1);
  EXPECT_EQ(chain[0].output, 1);
  EXPECT_EQ(chain[1].product.input, 4);
  EXPECT_EQ(chain[1].product.constant, -1);
  EXPECT_EQ(chain[1].operand.constant, 1);
  EXPECT_EQ(chain[1].input, 2);
  EXPECT_EQ(chain[1].output, 0);
}

TEST(UpdateChainTest, ChainMinusOperandHasTheSignAtTheOperand) {
  ExprBuilder b({2, 3});
  b.Output(b.Sub(b.Input(0, kF32), b.Mul(b.Input(1, kF32), b.Constant(kF32, 3))));
  const std::vector<ChainStep> chain = Find(b);
  ASSERT_EQ(chain.size(), 1U);
  EXPECT_EQ(chain[0].product.constant, 1);
  EXPECT_EQ(chain[0].operand.constant, -3);
}

TEST(UpdateChainTest, ValueThatIsUsedAgainLaterIsNoChain) {
  ExprBuilder b({2, 3});
  const int gradient = b.Input(0, kF32);
  const int next = b.Add(gradient, b.Input(1, kF32));
  b.Output(b.Add(next, b.Mul(gradient, b.Input(2, kF32))));
  EXPECT_TRUE(Find(b).empty());
  ExprBuilder again({2, 3});
  const int product = again.Input(0, kF32);
  again.Output(again.Add(product, again.Input(1, kF32)));
  again.Output(again.Add(product, again.Input(2, kF32)));
  EXPECT_TRUE(Find(again).empty());
}

TEST(UpdateChainTest, OtherFunctionsAreNoChain) {
  ExprBuilder b({2, 3});
  b.Output(b.Apply(serialization::FN_RELU, {b.Input(0, kF32)}));
  EXPECT_TRUE(Find(b).empty());
}

TEST(UpdateChainTest, ProductItselfOrAnInputAsOutputIsNoChain) {
  ExprBuilder b({2, 3});
  const int product = b.Input(0, kF32);
  b.Output(b.Add(product, b.Input(1, kF32)));
  b.Output(product);
  EXPECT_TRUE(Find(b).empty());
  ExprBuilder input({2, 3});
  input.Output(input.Add(input.Input(0, kF32), input.Input(1, kF32)));
  input.Output(input.Input(2, kF32));
  EXPECT_TRUE(Find(input).empty());
}

TEST(UpdateChainTest, FactorOfTwoFactorsIsNoChain) {
  ExprBuilder b({2, 3});
  const int scaled = b.Mul(b.Mul(b.Input(1, kF32), b.Input(3, kF32)), b.Input(4, kF32));
  b.Output(b.Add(b.Input(0, kF32), scaled));
  EXPECT_TRUE(Find(b).empty());
}

TEST(UpdateChainTest, FourStepsAreTooMany) {
  ExprBuilder b({2, 3});
  int value = b.Input(0, kF32);
  for (int i = 0; i < 4; ++i) value = b.Add(value, b.Input(1, kF32));
  b.Output(value);
  EXPECT_TRUE(Find(b).empty());
}

}  // namespace
}  // namespace cotan::cpu
