// SPDX-License-Identifier: Apache-2.0

// Captured and linked backwards of compiled modules, whose parameters and buffers are states of sessions, beside the
// walk and LibTorch eager.
#include <ATen/CPUGeneratorImpl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/compile.h"
#include "runtime/autograd/engine.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "runtime/execution/program.h"
#include "runtime/session.h"
#include "testing/autograd/loaded.h"
#include "testing/e2e/compiled_trainer.h"

namespace cotan::testing {
namespace {

using Values = std::map<std::string, at::Tensor>;

torch::nn::Sequential Backbone() {
  return torch::nn::Sequential(torch::nn::Linear(6, 8), torch::nn::BatchNorm1d(8), torch::nn::ReLU(),
                               torch::nn::Linear(8, 8));
}
torch::nn::Sequential Head() {
  return torch::nn::Sequential(torch::nn::LayerNorm(torch::nn::LayerNormOptions({8})), torch::nn::Linear(8, 3));
}

// Compiles a module and returns the path of its file.
std::string Artifact(const std::string& name, torch::nn::Sequential (*factory)(), const at::Tensor& example) {
  aot::CompileOptions options;
  options.dynamic_dims = {{0, 0, "batch", 2, 64}};
  return WriteArtifact("module_" + name, aot::CompileModule(factory, {example}, options));
}

// Adds copies of the gradients of all parameters and the contents of all states.
void Note(Session& session, const std::string& prefix, Values& values) {
  for (const serialization::State& state : session.program().artifact().states()) {
    if (state.role() == serialization::State::PARAMETER) {
      const Variable parameter = *session.Parameter(state.name());
      values[absl::StrCat(prefix, state.name(), ".grad")] = ToTorch(parameter.grad().tensor())->clone();
    } else if (state.role() == serialization::State::BUFFER) {
      values[absl::StrCat(prefix, state.name())] = ToTorch(*session.State(state.name()))->clone();
    }
  }
}

void Note(torch::nn::Sequential& module, const std::string& prefix, Values& values) {
  for (const auto& item : module->named_parameters()) values[prefix + item.key() + ".grad"] = item.value().grad();
  for (const auto& item : module->named_buffers()) values[prefix + item.key()] = item.value();
}

at::Tensor Input(int64_t batch) { return at::randn({batch, 6}, at::make_generator<at::CPUGeneratorImpl>(batch)); }

class ModuleCasesTest : public ::testing::Test {
 protected:
  ModuleCasesTest() : backbone_(Artifact("backbone", Backbone, Input(6))), head_(Artifact("head", Head, Example())) {
    EXPECT_TRUE(CompiledAutograd::Reset().ok());
  }
  ~ModuleCasesTest() override { EXPECT_TRUE(CompiledAutograd::Reset().ok()); }

  static at::Tensor Example() { return at::randn({6, 8}).requires_grad_(); }

  // Calls the backbone twice in each step, and sums gradients over the steps. `options`: null to walk. `hook`: added to
  // the features, doubles their gradient.
  Values Train(const std::vector<int64_t>& batches, const CompiledAutogradOptions* options, bool hook = false) const {
    Loaded backbone(backbone_), head(head_);
    Values values;
    for (const int64_t batch : batches) {
      std::vector<Variable> roots;
      std::vector<Tensor> ones;
      for (const int64_t rows : {batch, batch + 1}) {
        Variable features = backbone({Variable(*ToCotan(Input(rows)))});
        if (hook) {
          const auto doubled = [&](const Tensor& gradient) { return head.session.ops().Add(gradient, gradient); };
          EXPECT_TRUE(features.AddHook(doubled).ok());
        }
        roots.push_back(head({features}));
        ones.push_back(*head.session.ops().Ones(DType::kFloat32, {rows, 3}));
      }
      const auto scope = options == nullptr ? nullptr : std::make_unique<CompiledAutograd>(*options);
      const absl::Status status = autograd::Backward(roots, ones, head.session.ops());
      EXPECT_TRUE(status.ok()) << status;
    }
    Note(backbone.session, "backbone.", values);
    Note(head.session, "head.", values);
    return values;
  }

  static Values Eager(const std::vector<int64_t>& batches) {
    torch::manual_seed(0);
    torch::nn::Sequential backbone = Backbone();
    torch::manual_seed(0);
    torch::nn::Sequential head = Head();
    Values values;
    for (const int64_t batch : batches) {
      std::vector<at::Tensor> roots, ones;
      for (const int64_t rows : {batch, batch + 1}) {
        roots.push_back(head->forward(backbone->forward(Input(rows))));
        ones.push_back(at::ones_like(roots.back()));
      }
      torch::autograd::backward(roots, ones);
    }
    Note(backbone, "backbone.", values);
    Note(head, "head.", values);
    return values;
  }

  static void ExpectSameBits(const Values& actual, const Values& expected) {
    ASSERT_EQ(actual.size(), expected.size());
    for (const auto& [name, value] : expected) EXPECT_TRUE(at::equal(actual.at(name), value)) << name;
  }

  const std::string backbone_, head_;
};

TEST_F(ModuleCasesTest, ParametersAndBuffersAreThoseOfTheWalkAndOfEager) {
  const std::vector<int64_t> batches = {6, 6, 9, 13};
  const Values walked = Train(batches, nullptr);
  const CompiledAutogradOptions options;
  ExpectSameBits(Train(batches, &options), walked);
  EXPECT_EQ(CompiledAutograd::Stats().captures, 2) << ::testing::PrintToString(CompiledAutograd::Reasons());
  EXPECT_EQ(CompiledAutograd::Stats().called_nodes, 0);
  EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 0);
  const Values eager = Eager(batches);
  ASSERT_EQ(walked.size(), eager.size());
  for (const auto& [name, value] : eager) {
    EXPECT_TRUE(at::allclose(walked.at(name).to(value.scalar_type()), value, 1e-4, 1e-4)) << name;
  }
}

TEST_F(ModuleCasesTest, LinkedBackwardsOfModulesAreFoundAlsoBetweenHooks) {
  for (const bool hook : {false, true}) {
    SCOPED_TRACE(hook);
    ASSERT_TRUE(CompiledAutograd::Reset().ok());
    const CompiledAutogradOptions recording;
    Train({6, 9}, &recording, hook);
    Train({9, 6}, &recording, hook);
    const std::string captures = ::testing::TempDir() + "/module_captures.cotan";
    const std::string fused = ::testing::TempDir() + "/module_step.cotan";
    ASSERT_TRUE(CompiledAutograd::SaveCaptures(captures).ok());
    ASSERT_TRUE(CompiledAutograd::Reset().ok());
    const std::string command = absl::StrCat("PATH=aot/linking:$PATH runtime/tools/cotan link ", captures, " ",
                                             backbone_, " ", head_, " --out=", fused, " > /dev/null");
    ASSERT_EQ(std::system(command.c_str()), 0);
    const auto linked = LinkedMethods::Load(*Program::Load(fused));
    ASSERT_TRUE(linked.ok()) << linked.status();
    const CompiledAutogradOptions options = {.linked = *linked, .capture = false};
    const std::vector<int64_t> batches = {13, 6, 2};
    ExpectSameBits(Train(batches, &options, hook), Train(batches, nullptr, hook));
    EXPECT_EQ(CompiledAutograd::Stats().captures, 0);
    EXPECT_EQ(CompiledAutograd::Stats().hits, 3);
    EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 0) << ::testing::PrintToString(CompiledAutograd::Messages());
  }
}

// Updates the parameter and drops its gradient.
absl::Status Descend(Variable& parameter) {
  const Tensor& gradient = parameter.grad().tensor();
  const std::vector<float> by = *gradient.ToVector<float>();
  float* const values = parameter.tensor().data<float>();
  for (size_t i = 0; i < by.size(); ++i) values[i] -= 0.1F * by[i];
  parameter.BumpVersion();
  parameter.ClearGrad();
  return absl::OkStatus();
}

// Each parameter is updated while the backward runs: parameters of the head before the gradients of the backbone exist.
TEST_F(ModuleCasesTest, ParametersAreUpdatedInTheBackward) {
  const int steps = 4;
  std::vector<Values> trained;
  for (const bool captured : {false, true}) {
    Loaded backbone(backbone_), head(head_);
    for (Session* session : {&backbone.session, &head.session}) {
      for (const serialization::State& state : session->program().artifact().states()) {
        if (state.role() != serialization::State::PARAMETER) continue;
        ASSERT_TRUE(session->Parameter(state.name())->AddPostAccumulateHook(Descend).ok());
      }
    }
    Values values;
    for (int step = 0; step < steps; ++step) {
      const Variable y = head({backbone({Variable(*ToCotan(Input(6)))})});
      const auto scope = captured ? std::make_unique<CompiledAutograd>() : nullptr;
      const absl::Status status =
          autograd::Backward({y}, {*head.session.ops().Ones(DType::kFloat32, {6, 3})}, head.session.ops());
      ASSERT_TRUE(status.ok()) << status;
    }
    for (const auto& [session, prefix] :
         {std::pair(&backbone.session, "backbone."), std::pair(&head.session, "head.")}) {
      for (const serialization::State& state : session->program().artifact().states()) {
        if (state.role() != serialization::State::PARAMETER) continue;
        EXPECT_FALSE(session->Parameter(state.name())->grad().defined());
        values[prefix + state.name()] = ToTorch(*session->State(state.name()))->clone();
      }
    }
    trained.push_back(std::move(values));
  }
  ExpectSameBits(trained[1], trained[0]);
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
  EXPECT_EQ(CompiledAutograd::Stats().hits, steps - 1);

  torch::manual_seed(0);
  torch::nn::Sequential backbone = Backbone();
  torch::manual_seed(0);
  torch::nn::Sequential head = Head();
  for (int step = 0; step < steps; ++step) {
    backbone->zero_grad();
    head->zero_grad();
    head->forward(backbone->forward(Input(6))).sum().backward();
    const at::NoGradGuard no_grad;
    for (torch::nn::Sequential* module : {&backbone, &head}) {
      for (at::Tensor& parameter : (*module)->parameters()) parameter.sub_(0.1 * parameter.grad());
    }
  }
  for (const auto& [module, prefix] : {std::pair(&backbone, "backbone."), std::pair(&head, "head.")}) {
    for (const auto& item : (*module)->named_parameters()) {
      EXPECT_TRUE(at::allclose(trained[0].at(prefix + item.key()), item.value(), 1e-4, 1e-4)) << item.key();
    }
  }
}

}  // namespace
}  // namespace cotan::testing
