// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/fuzz/program_limits.h"

#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace cotan::conformance {
namespace {

// Returns a program of one input, a computed square matrix.
RandomProgram OfSquare(std::vector<RandomStep> steps, std::vector<int> outputs) {
  RandomProgram program;
  program.bases = {{RandomBase::kComputed, {3, 3}}};
  program.inputs = {{.base = 0}};
  program.steps = std::move(steps);
  program.outputs = std::move(outputs);
  return program;
}

RandomStep Step(const char* op, std::vector<int> args, int result, std::vector<int64_t> numbers = {},
                RandomStep::Mode mode = RandomStep::kCallers) {
  return {op, std::move(args), std::move(numbers), mode, result};
}

TEST(IsDefined, AcceptsWriteThroughAView) {
  EXPECT_TRUE(IsDefined(OfSquare({Step("t", {0}, 1), Step("mul_", {1}, 2, {1})}, {0, 1})));
}

TEST(IsDefined, RejectsProgramsThatEagerRefuses) {
  RandomProgram program = OfSquare({Step("mul_", {0}, 1, {1})}, {1});
  EXPECT_TRUE(IsDefined(program));
  program.bases[0].kind = RandomBase::kLeaf;
  EXPECT_FALSE(IsDefined(program));
}

TEST(IsDefined, RejectsWriteThatReadsOverlappingElements) {
  EXPECT_FALSE(IsDefined(OfSquare({Step("t", {0}, 1), Step("add_tensor_", {0, 1}, 2)}, {0})));
  EXPECT_TRUE(IsDefined(OfSquare({Step("add_tensor_", {0, 0}, 1)}, {0})));
}

TEST(IsDefined, RejectsWriteToExpandedTensor) {
  EXPECT_FALSE(IsDefined(OfSquare({Step("expand", {0}, 1, {2}), Step("mul_", {0}, 2, {1})}, {0})));
}

TEST(IsDefined, RejectsWriteToDataOfAnInput) {
  EXPECT_TRUE(IsDefined(OfSquare({Step("detach", {0}, 1), Step("mul_", {1}, 2, {1})}, {0})));
  EXPECT_FALSE(IsDefined(OfSquare({Step("data", {0}, 1), Step("mul_", {1}, 2, {1})}, {0})));
}

TEST(IsDefined, AcceptsWrittenInputWithHiddenElements) {
  const RandomStep write = Step("mul_", {0}, 1, {1});
  EXPECT_TRUE(IsDefined(OfSquare({write, Step("as_strided_", {0}, 2, {1, 8, 1, 0})}, {0})));
}

TEST(IsDefined, RejectsSetToStorageOfAnotherDType) {
  RandomProgram program = OfSquare({Step("set_", {0, 1}, 2)}, {0});
  program.bases = {{RandomBase::kBuffer, {3}}, {RandomBase::kBuffer, {3}}};
  program.inputs = {{.base = 0}, {.base = 1}};
  EXPECT_TRUE(IsDefined(program));
  program.bases[1].dtype = at::kLong;
  EXPECT_FALSE(IsDefined(program));
}

TEST(IsDefined, RejectsProgramWhoseBackwardFailsBeyondTheRoots) {
  // The value that the backward of exp needs is written; no root was used to compute it.
  RandomProgram program = OfSquare({Step("exp", {0}, 1), Step("sigmoid_", {1}, 2)}, {1});
  program.inputs[0].views = {Step("t", {0}, 0, {}, RandomStep::kNoGrad)};
  EXPECT_FALSE(IsDefined(program));
}

TEST(IsDefined, RejectsViewOfANoGradView) {
  const RandomStep view = Step("t", {0}, 1, {}, RandomStep::kNoGrad);
  EXPECT_TRUE(IsDefined(OfSquare({view}, {1})));
  EXPECT_FALSE(IsDefined(OfSquare({view, Step("t", {1}, 2)}, {2})));
}

TEST(IsDefined, RejectsUseOfAComputedTensorWithMutatedMetadataUnderNoGrad) {
  const RandomStep away = Step("t_", {0}, 1, {}, RandomStep::kNoGrad);
  const RandomStep back = Step("t_", {0}, 2, {}, RandomStep::kNoGrad);
  EXPECT_FALSE(IsDefined(OfSquare({away}, {})));
  EXPECT_TRUE(IsDefined(OfSquare({away, back, Step("sin", {0}, 3)}, {3})));
  EXPECT_FALSE(IsDefined(OfSquare({away, Step("sin", {0}, 3), back}, {3})));
}

}  // namespace
}  // namespace cotan::conformance
