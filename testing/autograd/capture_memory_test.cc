// SPDX-License-Identifier: Apache-2.0

// Memory of captured backwards, on a device that counts its bytes: rows of C2 and G5 of cases.txt.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <utility>
#include <variant>
#include <vector>

#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/function_node.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "runtime/testing/limited_device.h"
#include "testing/autograd/three_ways.h"

namespace cotan::testing {
namespace {

constexpr int64_t kElements = 1'000'000;
constexpr int64_t kVectorBytes = 4 * kElements;
constexpr int64_t kSmallBytes = 1 << 16;  // of scalars and of the scratch memory of kernels

Tensor FullVector(Device& device, float value) {
  const Tensor vector = *Tensor::Empty(DType::kFloat32, {kElements}, device);
  std::fill_n(vector.data<float>(), kElements, value);
  return vector;
}

// Returns a copy of x by a node whose backward calls `run`.
Variable Observed(const Variable& x, std::function<void()> run) {
  const auto backward = [run](autograd::BackwardContext&,
                              absl::Span<Tensor> incoming) -> absl::StatusOr<autograd::Gradients> {
    run();
    return autograd::Gradients{incoming[0]};
  };
  return (*autograd::ApplyFunction("Observed", {x}, {*x.tensor().Clone()}, backward))[0];
}

// A function on a device that counts its bytes.
struct Counted {
  explicit Counted(const CompiledFunction& f)
      : session(*Session::Create(*Program::LoadBytes(f.bytes),
                                 {.kernels = &CpuKernels(), .device = &device, .threads = 1})),
        function(*Function::Create(session, "forward")) {
    EXPECT_TRUE(CompiledAutograd::Reset().ok());
  }
  ~Counted() { EXPECT_TRUE(CompiledAutograd::Reset().ok()); }

  Variable Call(const std::vector<Variable>& arguments) {
    const auto results = function.Call(arguments);
    EXPECT_TRUE(results.ok()) << results.status();
    return std::get<Variable>((*results)[0]);
  }
  // `gradients`: of the root; none: 1.
  void Backward(const Variable& root, bool captured, const std::vector<Tensor>& gradients = {},
                bool retain_graph = false) {
    const auto scope = captured ? std::make_unique<CompiledAutograd>() : nullptr;
    const absl::Status status = autograd::Backward({root}, gradients, session.ops(), {.retain_graph = retain_graph});
    EXPECT_TRUE(status.ok()) << status;
  }
  // Forgets what was captured, and returns the bytes that become free.
  int64_t BytesOfCaptures() {
    const int64_t before = device.live_bytes();
    EXPECT_TRUE(CompiledAutograd::Reset().ok());
    return before - device.live_bytes();
  }

  LimitedDevice device;
  Session session;
  Function function;
};

TEST(CaptureMemoryTest, ALargeSavedValueIsFreeWhenTheNextNodeIsCalled) {
  Counted f(CompileFor([](const Tensors& in) -> Tensors { return {(in[0] * in[0]).sum()}; }, {Example({kElements})}));
  for (const bool captured : {false, true}) {
    for (int round = 0; round < 3; ++round) {
      const Variable x = *Variable::Leaf(FullVector(f.device, 3));
      const int64_t before = f.device.live_bytes();
      int64_t live = 0;
      const Variable y = f.Call({Observed(x, [&] { live = f.device.live_bytes() - before; })});
      EXPECT_GE(f.device.live_bytes() - before, kVectorBytes);  // the copy, which is saved
      f.Backward(y, captured);
      EXPECT_GE(live, kVectorBytes) << captured << round;  // the gradient that arrives
      EXPECT_LE(live, kVectorBytes + kSmallBytes) << captured << round;
      EXPECT_EQ(x.grad().tensor().data<float>()[kElements - 1], 6);
    }
  }
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
}

TEST(CaptureMemoryTest, OnlyTheGradientIsLeftWhenALeafHasAccumulatedIt) {
  Counted f(CompileFor([](const Tensors& in) -> Tensors { return {(2 * in[0] * in[1]).sum()}; },
                       {Example({kElements}), at::randn({kElements})}));
  for (const bool captured : {false, true}) {
    Variable parameter = *Variable::Leaf(FullVector(f.device, 3));
    const int64_t before = f.device.live_bytes();
    int64_t live = 0;
    const auto note = [&](Variable&) {
      live = f.device.live_bytes() - before;
      return absl::OkStatus();
    };
    ASSERT_TRUE(parameter.AddPostAccumulateHook(note).ok());
    for (int round = 0; round < 3; ++round) {
      const Variable y = f.Call({parameter, Variable(FullVector(f.device, 5))});
      EXPECT_GE(f.device.live_bytes() - before, kVectorBytes);  // the argument, which is saved
      f.Backward(y, captured);
      EXPECT_EQ(parameter.grad().tensor().data<float>()[kElements - 1], 10);
      EXPECT_LE(live, kVectorBytes + kSmallBytes) << captured << round;
      EXPECT_LE(f.device.live_bytes() - before, kVectorBytes + kSmallBytes) << captured << round;
      parameter.ClearGrad();
      EXPECT_LE(f.device.live_bytes() - before, kSmallBytes) << captured << round;
      EXPECT_EQ(parameter.tensor().data<float>()[kElements - 1], 3);
    }
  }
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
}

// Twice sin(exp(x)), each of which saves exp(x): the gradient between the calls takes the memory of a saved value.
TEST(CaptureMemoryTest, TheBackwardOfOneProgramOverwritesWhatAnotherOneSaved) {
  Counted f(CompileFor([](const Tensors& in) -> Tensors { return {in[0].exp().sin()}; }, {Example({kElements})},
                       {.partitioner = aot::Partitioner::kDefault}));
  Variable x = *Variable::Leaf(FullVector(f.device, 0.5));
  const Variable y = f.Call({f.Call({x})});
  const std::vector<Tensor> ones = {FullVector(f.device, 1)};
  f.Backward(y, /*captured=*/false, ones, /*retain_graph=*/true);
  const float expected = x.grad().tensor().data<float>()[kElements - 1];
  int64_t arena[2];
  for (const bool retains : {true, false}) {
    x.ClearGrad();
    f.Backward(y, /*captured=*/true, ones, retains);
    EXPECT_EQ(x.grad().tensor().data<float>()[kElements - 1], expected) << retains;
    EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 0);
    arena[retains ? 1 : 0] = f.BytesOfCaptures();
  }
  EXPECT_GE(arena[1], kVectorBytes);
  EXPECT_LE(arena[0], arena[1] - kVectorBytes);
  EXPECT_EQ(f.function.stats().backwards_in_donated_memory, 2) << "a node each";
}

}  // namespace
}  // namespace cotan::testing
