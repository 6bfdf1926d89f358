// SPDX-License-Identifier: Apache-2.0

// Compares generated kernels of random expressions with the reference kernel: the results are bitwise equal, in place
// too where that is allowed.
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

struct Runs {
  int in_place = 0;  // outputs in the memory of inputs
  int shared = 0;    // expressions of which blocks share reductions
};

// Compares runs of expressions from seeds.
Runs ExpectReference(int first, int end, const expr::ScheduleOptions& schedule) {
  Runs runs;
  for (int i = first; i < end && !::testing::Test::HasFailure(); ++i) {
    ExprCase expr = MakeCase(static_cast<uint64_t>(i));
    expr.schedule = schedule;
    SCOPED_TRACE("seed " + std::to_string(i) + "\n" + cotan::testing::ToText(expr.op.expr()));
    const RunOptions options = {.seed = static_cast<uint64_t>(i)};
    const Tensors expected = expr.Reference();
    RunResult result;
    EXPECT_EQ(Difference(expected, expr.Run(options, &result)), "");
    if (result.counters.global_atomics > 0) ++runs.shared;
    for (size_t input = 0; input < expr.inputs.size(); ++input) {
      for (size_t output = 0; output < expr.outputs.size(); ++output) {
        if (!expr.AllowsInPlace(input, output)) continue;
        ++runs.in_place;
        EXPECT_EQ(Difference(expected, expr.RunInPlace(input, output, options)), "")
            << "output " << output << " in place of input " << input;
      }
    }
  }
  return runs;
}

TEST(ExprRandomTest, EqualsTheReferenceBitForBit) {
  const int first = Number("COTAN_TEST_FIRST", 0);
  const int end = first + Number("COTAN_TEST_ITERATIONS", 300);
  EXPECT_GT(ExpectReference(first, end, {}).in_place, (end - first) / 20);
}

TEST(ExprRandomTest, ReductionsThatBlocksShareEqualTheReferenceBitForBit) {
  const int first = Number("COTAN_TEST_FIRST", 0);
  const int end = first + Number("COTAN_TEST_ITERATIONS", 200);
  const Runs runs = ExpectReference(first, end, {.threads = 32, .wait_instructions = 0, .min_part_steps = 1});
  EXPECT_GT(runs.in_place, (end - first) / 20);
  EXPECT_GT(runs.shared, (end - first) / 60);
}

// Then blocks have many kept indices.
TEST(ExprRandomTest, SchedulesForASmallGpuEqualTheReferenceBitForBit) {
  const int first = Number("COTAN_TEST_FIRST", 0);
  const int end = first + Number("COTAN_TEST_ITERATIONS", 100);
  EXPECT_GT(ExpectReference(first, end, {.threads = 1024, .processors = 1}).in_place, (end - first) / 20);
}

}  // namespace
}  // namespace cotan::cuda::testing
