// SPDX-License-Identifier: Apache-2.0

// Compares generated kernels of random expressions with the reference kernel: the results are bitwise equal, in place
// too where that is allowed.
#include <algorithm>
#include <cstdlib>
#include <random>
#include <string>

#include "gtest/gtest.h"
#include "kernels/cuda/expr/expr_case.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/random_expr.h"

namespace cotan::cuda::testing {
namespace {

using cotan::testing::HostTensor;

int Number(const char* variable, int by_default) {
  const char* text = std::getenv(variable);
  return text == nullptr ? by_default : std::atoi(text);
}

ExprCase MakeCase(uint64_t seed) {
  std::mt19937_64 random(seed);
  cotan::testing::RandomExpr expr = cotan::testing::MakeRandomExpr(random, seed % 10 == 0 ? 20'000 : 2'000);
  // The sign of the NaN of an invalid operation differs between processors.
  for (serialization::ExprInstruction& instruction : *expr.op.mutable_expr()->mutable_instructions()) {
    if (instruction.fn() == serialization::FN_COPYSIGN) instruction.set_fn(serialization::FN_MAXIMUM);
  }
  ExprCase result;
  result.op = std::move(expr.op);
  result.inputs = std::move(expr.inputs);
  for (size_t k = 0; k < expr.output_layouts.size(); ++k) {
    result.outputs.push_back(std::make_unique<HostTensor>(expr.output_dtypes[k], expr.output_layouts[k]));
  }
  return result;
}

// Compares runs of expressions from seeds; returns the number of runs in place, and in `launches` the largest number
// of launches.
int ExpectReference(int first, int end, const expr::ScheduleOptions& schedule, int& launches) {
  int in_place = 0;
  for (int i = first; i < end && !::testing::Test::HasFailure(); ++i) {
    ExprCase expr = MakeCase(static_cast<uint64_t>(i));
    expr.schedule = schedule;
    SCOPED_TRACE("seed " + std::to_string(i) + "\n" + cotan::testing::ToText(expr.op.expr()));
    const RunOptions options = {.seed = static_cast<uint64_t>(i)};
    const Tensors expected = expr.Reference();
    RunResult result;
    EXPECT_EQ(Difference(expected, expr.Run(options, &result)), "");
    launches = std::max(launches, result.launches);
    for (size_t input = 0; input < expr.inputs.size(); ++input) {
      for (size_t output = 0; output < expr.outputs.size(); ++output) {
        if (!expr.AllowsInPlace(input, output)) continue;
        ++in_place;
        EXPECT_EQ(Difference(expected, expr.RunInPlace(input, output, options)), "")
            << "output " << output << " in place of input " << input;
      }
    }
  }
  return in_place;
}

TEST(ExprRandomTest, EqualsTheReferenceBitForBit) {
  const int first = Number("COTAN_TEST_FIRST", 0);
  const int end = first + Number("COTAN_TEST_ITERATIONS", 300);
  int launches = 0;
  EXPECT_GT(ExpectReference(first, end, {}, launches), (end - first) / 20);
}

TEST(ExprRandomTest, PhasesInLaunchesOfTheirOwnEqualTheReferenceBitForBit) {
  const int first = Number("COTAN_TEST_FIRST", 0);
  const int end = first + Number("COTAN_TEST_ITERATIONS", 200);
  int launches = 0;
  EXPECT_GT(ExpectReference(first, end, {.threads = 32, .min_split_elements = 1, .min_part_steps = 1}, launches),
            (end - first) / 20);
  EXPECT_GE(launches, 3);
}

}  // namespace
}  // namespace cotan::cuda::testing
