// SPDX-License-Identifier: Apache-2.0

#include "testing/blocks/found_blocks.h"

#include <gtest/gtest.h>

#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/execution/program.h"
#include "testing/e2e/compiled_trainer.h"

namespace cotan::testing {
namespace {

namespace pt2 = aot::pt2;
using TensorMap = std::map<std::string, torch::Tensor>;

TensorMap StatesOf(const Session& session) {
  TensorMap states;
  for (const serialization::State& state : session.program().artifact().states()) {
    if (state.role() != serialization::State::CONSTANT) states[state.name()] = *ToTorch(*session.State(state.name()));
  }
  return states;
}

// Without blocks, the embedding is fused with the sum that is the gradient of the first norm, which then adds in
// another order. All other values have the same bits.
bool IsFusedWithTheEmbedding(const std::string& name) { return absl::StrContains(name, "layers.0.norm1."); }

void ExpectSameBits(const TensorMap& actual, const TensorMap& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (const auto& [name, tensor] : expected) {
    ASSERT_TRUE(actual.contains(name)) << name;
    const double difference = (actual.at(name) - tensor).abs().max().item<double>();
    EXPECT_EQ(actual.at(name).sizes(), tensor.sizes()) << name;
    EXPECT_LE(difference, IsFusedWithTheEmbedding(name) ? 1e-6 : 0) << name;
  }
}

}  // namespace

pt2::Model Load(const pt2::ArchiveFiles& files) {
  static int num_files = 0;
  auto model = pt2::Model::Load(pt2::WriteArchive(absl::StrCat("found", num_files++, ".pt2"), files));
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

aot::CompileOptions TrainingOptions(bool find_blocks) {
  aot::CompileOptions options;
  options.loss.output = 0;
  options.optimizer = aot::OptimizerConfig{aot::SgdOptions{.lr = 0.05, .momentum = 0.9}};
  options.find_blocks = find_blocks ? aot::FindBlocks::kOn : aot::FindBlocks::kOff;
  options.outline_repeats = false;  // calls are those of the trace
  return options;
}

aot::CompiledModel Compile(const pt2::Model& model, const aot::CompileOptions& options) {
  auto compiled = aot::CompilePt2(model, *model.ExampleInputs(), options);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

std::vector<Tensor> Arguments(const Tensors& tensors) {
  std::vector<Tensor> arguments;
  for (const torch::Tensor& tensor : tensors) arguments.push_back(*ToCotan(tensor));
  return arguments;
}

Session MakeSession(const aot::CompiledModel& model) {
  Session session = *Session::Create(*Program::LoadBytes(model.bytes()), {.kernels = &CpuKernels(), .threads = 1});
  const bool draws = session.Rng().ok();
  EXPECT_TRUE(!draws || session.SetRng(RngState{}).ok());
  return session;
}

void ExpectSameSteps(const aot::CompiledModel& actual, const aot::CompiledModel& expected, const Batches& batch,
                     int steps) {
  Session session = MakeSession(actual), reference = MakeSession(expected);
  for (int step = 0; step < steps; ++step) {
    const auto results = session.Run("train_step", Arguments(batch(step)));
    const auto expected_results = reference.Run("train_step", Arguments(batch(step)));
    ASSERT_TRUE(results.ok() && expected_results.ok()) << results.status() << expected_results.status();
    EXPECT_TRUE(torch::equal(*ToTorch((*results)[0]), *ToTorch((*expected_results)[0]))) << step;
    ExpectSameBits(StatesOf(session), StatesOf(reference));
    // The next step begins with the same bits, also of what this one may have rounded in another way.
    for (const auto& [name, tensor] : StatesOf(reference)) {
      if (!IsFusedWithTheEmbedding(name)) continue;
      ASSERT_TRUE(session.SetState(name, *ToCotan(tensor)).ok()) << name;
    }
  }
  for (Session* each : {&session, &reference}) {
    ASSERT_TRUE(each->Run("forward", Arguments(batch(9))).ok());
    ASSERT_TRUE(each->Run("backward", Arguments({torch::ones({})})).ok());
  }
  TensorMap gradients, expected_gradients;
  for (const auto& [name, state] : StatesOf(reference)) {
    if (!reference.Gradient(name).ok()) continue;
    gradients[name] = *ToTorch(*session.Gradient(name));
    expected_gradients[name] = *ToTorch(*reference.Gradient(name));
  }
  EXPECT_FALSE(gradients.empty());
  ExpectSameBits(gradients, expected_gradients);
}

void ExpectEager(const aot::CompiledModel& compiled, const pt2::Model& model, const Tensors& batch) {
  Session session = MakeSession(compiled);
  Tensors states;
  for (const aot::InitialState& state : model.states()) {
    states.push_back(state.value.clone().set_requires_grad(state.requires_grad));
  }
  const torch::Tensor loss = model.function()(states, batch)[0];
  loss.backward();
  const auto results = session.Run("forward", Arguments(batch));
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_TRUE(torch::allclose(*ToTorch((*results)[0]), loss.detach(), 1e-5, 1e-6));
  ASSERT_TRUE(session.Run("backward", Arguments({torch::ones({})})).ok());
  for (size_t i = 0; i < states.size(); ++i) {
    const std::string& name = model.states()[i].name;
    if (states[i].requires_grad()) {
      EXPECT_TRUE(torch::allclose(*ToTorch(*session.Gradient(name)), states[i].grad(), 1e-4, 1e-6)) << name;
    } else {
      EXPECT_TRUE(torch::allclose(*ToTorch(*session.State(name)), states[i], 1e-5, 1e-6)) << name;
    }
  }
}

}  // namespace cotan::testing
