// SPDX-License-Identifier: Apache-2.0

// Tests LibTorch's deterministic mode while tracing and the runtime's deterministic mode in the backward.
#include "runtime/function/core/deterministic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <variant>
#include <vector>

#include "aot/compile.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

// Sets LibTorch's deterministic mode in its scope.
class TracedWith {
 public:
  explicit TracedWith(bool deterministic) { Set(deterministic); }
  ~TracedWith() { Set(false); }

 private:
  static void Set(bool on) { at::globalContext().setDeterministicAlgorithms(on, /*warn_only=*/false); }
};

// Sets the runtime's deterministic mode in its scope.
class RunWith {
 public:
  explicit RunWith(bool deterministic) { DeterministicMode::set_enabled(deterministic); }
  ~RunWith() { DeterministicMode::set_enabled(false); }
};

absl::StatusOr<aot::CompiledModel> CompileSquare(bool deterministic) {
  const TracedWith traced(deterministic);
  return aot::CompileFunction([](const Tensors& in) -> Tensors { return {in[0] * in[0]}; },
                              {torch::rand({2}).requires_grad_(true)}, {});
}

// Calls f(x) = x * x of a compiled artifact with {3, 4}.
struct CalledSquare {
  explicit CalledSquare(const aot::CompiledModel& model)
      : session(*Session::Create(*Program::LoadBytes(model.bytes()), {.kernels = &CpuKernels(), .threads = 1})),
        result(std::get<Variable>((*Function::Create(session, "forward")->Call({x}))[0])) {}

  absl::Status Backward() {
    return autograd::Backward({result}, {*Tensor::From<float>({1, 1}, {2})}, session.ops(), {.retain_graph = true});
  }

  Session session;
  Variable x = *Variable::Leaf(*Tensor::From<float>({3, 4}, {2}));
  Variable result;
};

TEST(DeterministicTest, IsRecordedInTheMetadata) {
  for (const bool deterministic : {false, true}) {
    const auto model = CompileSquare(deterministic);
    ASSERT_TRUE(model.ok()) << model.status();
    const auto program = *Program::LoadBytes(model->bytes());
    ASSERT_TRUE(program->method(0).metadata().has_deterministic());
    EXPECT_EQ(program->method(0).metadata().deterministic(), deterministic);
  }
}

TEST(DeterministicTest, ABackwardThatWasTracedWithoutIsRefusedUnderIt) {
  const auto model = CompileSquare(/*deterministic=*/false);
  ASSERT_TRUE(model.ok()) << model.status();
  CalledSquare square(*model);
  {
    const RunWith run(true);
    const absl::Status refused = square.Backward();
    EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(refused.message(), HasSubstr("the backward of 'forward' runs with deterministic algorithms enabled"));
    EXPECT_FALSE(square.x.grad().defined());
  }
  ASSERT_TRUE(square.Backward().ok());
  EXPECT_THAT(*square.x.grad().tensor().ToVector<float>(), ElementsAre(6, 8));
}

TEST(DeterministicTest, ABackwardThatWasTracedWithItRunsUnderBothModes) {
  const auto model = CompileSquare(/*deterministic=*/true);
  ASSERT_TRUE(model.ok()) << model.status();
  for (const bool deterministic : {false, true}) {
    CalledSquare square(*model);
    const RunWith run(deterministic);
    const absl::Status ran = square.Backward();
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_THAT(*square.x.grad().tensor().ToVector<float>(), ElementsAre(6, 8));
  }
}

// Only the mode of the trace and of the backward's run counts.
TEST(DeterministicTest, IgnoresTheModeOfTheForwardCall) {
  const auto model = CompileSquare(/*deterministic=*/false);
  ASSERT_TRUE(model.ok()) << model.status();
  DeterministicMode::set_enabled(true);
  CalledSquare square(*model);
  DeterministicMode::set_enabled(false);
  EXPECT_TRUE(square.Backward().ok());
}

}  // namespace
}  // namespace cotan
