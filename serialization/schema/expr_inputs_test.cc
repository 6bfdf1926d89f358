// SPDX-License-Identifier: Apache-2.0

#include "serialization/schema/expr_inputs.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using serialization::Expr;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

void Add(Expr& expr, serialization::ScalarFn fn, const std::vector<uint32_t>& operands, uint32_t index = 0) {
  serialization::ExprInstruction& instruction = *expr.add_instructions();
  instruction.set_fn(fn);
  instruction.set_index(index);
  for (const uint32_t operand : operands) instruction.add_operands(operand);
}

TEST(InputsOfOutputsTest, AreThoseThatInstructionsReach) {
  Expr expr;
  Add(expr, serialization::FN_INPUT, {}, 0);
  Add(expr, serialization::FN_INPUT, {}, 2);
  Add(expr, serialization::FN_INPUT, {}, 1);
  Add(expr, serialization::FN_ADD, {0, 1});
  Add(expr, serialization::FN_MUL, {3, 3});
  Add(expr, serialization::FN_CONSTANT, {});
  for (const uint32_t output : {4, 2, 5}) expr.add_outputs(output);
  EXPECT_THAT(InputsOfOutputs(expr), ElementsAre(ElementsAre(0, 2), ElementsAre(1), IsEmpty()));
}

}  // namespace
}  // namespace cotan
