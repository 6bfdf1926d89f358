// SPDX-License-Identifier: Apache-2.0

#include "testing/autograd/three_ways.h"

#include <map>
#include <memory>
#include <utility>

#include "gtest/gtest.h"
#include "runtime/compiled_autograd/compiled_autograd.h"

namespace cotan::testing {
namespace {

Outcome RunIn(Mode mode, const Case& run) {
  torch::manual_seed(5);
  const std::unique_ptr<World> world = World::Make(mode);
  Outcome outcome;
  outcome.gradients = run(*world);
  outcome.log = world->log;
  return outcome;
}

}  // namespace

Outcome ExpectThreeWays(const Case& run, int captures, int walked_segments) {
  RunIn(Mode::kEager, run);  // compiles the functions, which draws random numbers
  const Outcome eager = RunIn(Mode::kEager, run);
  const Outcome walked = RunIn(Mode::kWalked, run);
  EXPECT_TRUE(CompiledAutograd::Reset().ok());
  Outcome captured = RunIn(Mode::kCaptured, run);
  EXPECT_EQ(CompiledAutograd::Stats().captures, captures) << ::testing::PrintToString(CompiledAutograd::Reasons());
  EXPECT_EQ(CompiledAutograd::Stats().walked_segments, walked_segments)
      << ::testing::PrintToString(CompiledAutograd::Messages());
  EXPECT_EQ(walked.log, eager.log);
  EXPECT_EQ(captured.log, eager.log);
  EXPECT_EQ(walked.gradients.size(), eager.gradients.size());
  for (size_t i = 0; i < eager.gradients.size(); ++i) {
    const at::Tensor& expected = eager.gradients[i];
    EXPECT_TRUE(SameBits(walked.gradients[i], captured.gradients[i])) << "gradient " << i;
    EXPECT_EQ(captured.gradients[i].defined(), expected.defined()) << "gradient " << i;
    if (!expected.defined() || !captured.gradients[i].defined()) continue;
    EXPECT_TRUE(at::allclose(captured.gradients[i], expected.detach(), 1e-5, 1e-5)) << "gradient " << i;
  }
  return captured;
}

const CompiledFunction& Compiled(const std::string& name, const TensorFunction& function,
                                 const std::vector<std::vector<int64_t>>& sizes, bool dynamic) {
  static auto& functions = *new std::map<std::string, std::unique_ptr<CompiledFunction>>();
  std::unique_ptr<CompiledFunction>& found = functions[name];
  if (found == nullptr) {
    Tensors examples;
    for (const std::vector<int64_t>& size : sizes) examples.push_back(at::randn(size));
    found = std::make_unique<CompiledFunction>(function, examples, dynamic);
    found->name = name;
  }
  return *found;
}

CompiledFunction CompileFor(const TensorFunction& function, const Tensors& examples,
                            const aot::CompileOptions& options) {
  const auto model = aot::CompileFunction(function, examples, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return CompiledFunction(function, model.ok() ? std::string(model->bytes()) : "");
}

at::Tensor Example(at::IntArrayRef sizes) { return at::randn(sizes).requires_grad_(); }

bool SameBits(const at::Tensor& a, const at::Tensor& b) {
  if (a.defined() != b.defined()) return false;
  if (!a.defined()) return true;
  return a.sizes() == b.sizes() && a.scalar_type() == b.scalar_type() &&
         at::equal(a.contiguous().view(at::kInt), b.contiguous().view(at::kInt));
}

World::GradientHook Scaled(World& world, std::string name, double factor) {
  return [&world, name, factor](const at::Tensor& gradient) {
    world.log.push_back(name);
    return gradient * factor;
  };
}

Tensors GradsOf(World& world, const std::vector<int>& values) {
  Tensors grads;
  for (const int value : values) {
    const at::Tensor grad = world.GradOf(value);
    grads.push_back(grad.defined() ? grad.clone() : grad);
  }
  return grads;
}

void Append(Tensors& to, Tensors from) { to.insert(to.end(), from.begin(), from.end()); }

}  // namespace cotan::testing
