// SPDX-License-Identifier: Apache-2.0

// Tests whole models: the results of the trace must equal those of LibTorch eager.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include "aot/aotautograd/graph_interpreter.h"
#include "aot/aotautograd/tracer.h"
#include "aot/capture/tensor_data.h"
#include "aot/frontend/module.h"
#include "aot/ir/text.h"
#include "aot/ir/verifier.h"
#include "base/dtype.h"
#include "testing/e2e/philox_dropout.h"
#include "testing/models/models.h"
#include "testing/tolerance.h"

namespace cotan::aot {
namespace {

using cotan::testing::AllModels;
using cotan::testing::kModelGradient;
using cotan::testing::kModelState;
using cotan::testing::ModelCase;
using Tensors = std::vector<at::Tensor>;

constexpr uint64_t kSeed = 3;

at::Generator Seeded(uint64_t seed) { return at::detail::createCPUGenerator(seed); }

double Largest(const at::Tensor& tensor) {
  return tensor.numel() == 0 ? 0 : tensor.detach().abs().max().to(at::kDouble).item<double>();
}

// Runs a training step of a model in LibTorch eager, with dropout that draws as Cotan's does.
struct Eager {
  explicit Eager(const ModelCase& model) {
    torch::manual_seed(kSeed);
    network = model.make_network();
    input = model.make_input(Seeded(1));
    label = model.make_label(Seeded(2));
    cotan::testing::PhiloxDropout dropout;
    dropout.Seek(kSeed, 0);
    output = network->forward(input);
    loss = model.loss(output, label);
    loss.backward();
    draws = dropout.offset();
  }
  at::Tensor Named(const std::string& name) const {
    if (const at::Tensor* parameter = network->named_parameters().find(name)) return *parameter;
    return network->named_buffers()[name];
  }
  double LargestGradient() const {
    double largest = 0;
    for (const at::Tensor& parameter : network->parameters()) {
      if (parameter.grad().defined()) largest = std::max(largest, Largest(parameter.grad()));
    }
    return largest;
  }

  std::shared_ptr<cotan::testing::Network> network;
  at::Tensor input, label, output, loss;
  uint64_t draws = 0;
};

// `bound` is in units of eps times the largest magnitude of `expected`, or of `scale` if that is
// larger: a gradient that cancels to zero has the rounding error of its summands.
void ExpectNear(const at::Tensor& actual, const at::Tensor& expected, double bound, const std::string& what,
                double scale = 1e-6) {
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << what;
  const double allowed = bound * Epsilon(ToDType(expected.scalar_type())) * std::max(scale, Largest(expected));
  EXPECT_LE(Largest(actual - expected), allowed) << what;
}

class TracedModelTest : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override { at::set_num_threads(1); }

  const ModelCase& model() const { return *cotan::testing::FindModel(GetParam()); }
};

TEST_P(TracedModelTest, StepEqualsEager) {
  const Eager eager(model());
  const auto module = TraceableModule::Create(AdaptFactory(model().make_network), {.seed = kSeed});
  ASSERT_TRUE(module.ok()) << module.status();
  const auto traced = Trace(
      [&](const Tensors& in) -> Tensors {
        const at::Tensor output = module->forward()({in[0]})[0];
        return {output, model().loss(output, in[1])};
      },
      module->states(), {eager.input, eager.label},
      {.name = "step", .backward = TraceOptions::Backward::kLoss, .loss_output = 1, .seed = kSeed});
  ASSERT_TRUE(traced.ok()) << traced.status();
  ASSERT_TRUE(VerifyGraph(traced->graph).ok()) << VerifyGraph(traced->graph);
  EXPECT_EQ(traced->rng_blocks, SymInt(static_cast<int64_t>(eager.draws)));

  Tensors inputs;
  for (const TracedState& state : traced->states) inputs.push_back(FromTensorData(state.initial));
  ASSERT_EQ(traced->states.back().role == serialization::State::CONSTANT, false);
  inputs.push_back(eager.input);
  inputs.push_back(eager.label);
  if (eager.draws > 0) inputs.push_back(at::tensor({static_cast<int64_t>(kSeed), int64_t{0}}));
  inputs.push_back(at::ones({}));
  ASSERT_EQ(inputs.size(), traced->graph.inputs().size());
  const auto results = InterpretGraph(traced->graph, inputs);
  ASSERT_TRUE(results.ok()) << results.status();

  size_t mutated = 0, gradient = 0;
  for (size_t i = 0; i < results->size(); ++i) {
    const GraphOutput& output = traced->graph.outputs()[i];
    const at::Tensor& result = (*results)[i];
    switch (output.kind) {
      case OutputKind::kUserOutput:
        ExpectNear(result, output.index == 0 ? eager.output : eager.loss, kModelState, output.name);
        break;
      case OutputKind::kMutatedInput:
        ExpectNear(result, eager.Named(output.name), kModelState, output.name);
        ExpectNear(FromTensorData(traced->reference.mutated[mutated++]), result, kModelState, output.name);
        break;
      case OutputKind::kGradient:
        ASSERT_EQ(result.defined(), eager.Named(output.name).grad().defined()) << output.name;
        if (!result.defined()) break;
        ExpectNear(result, eager.Named(output.name).grad(), kModelGradient, "gradient of " + output.name,
                   eager.LargestGradient());
        ExpectNear(FromTensorData(traced->reference.gradients[gradient++]), result, kModelGradient,
                   "stored gradient of " + output.name, eager.LargestGradient());
        break;
      default:
        FAIL() << output.name;
    }
  }
  EXPECT_GT(gradient, 0u);
}

TEST_P(TracedModelTest, EvalEqualsEager) {
  torch::manual_seed(kSeed);
  const auto network = model().make_network();
  network->eval();
  const at::Tensor input = model().make_input(Seeded(1));
  auto module = TraceableModule::Create(AdaptFactory(model().make_network), {.seed = kSeed});
  ASSERT_TRUE(module.ok()) << module.status();
  module->Train(false);
  const auto traced = Trace(module->forward(), module->states(), {input}, {.name = "eval"});
  ASSERT_TRUE(traced.ok()) << traced.status();
  for (const auto& info : traced->metadata.input_info()) EXPECT_FALSE(info.mutates_data());
  EXPECT_EQ(traced->rng_blocks, SymInt(0));
  ExpectNear(FromTensorData(traced->reference.outputs[0]), network->forward(input), kModelState, "output");
}

std::vector<std::string> ModelNames() {
  std::vector<std::string> names;
  for (const ModelCase& model : AllModels()) names.push_back(model.name);
  return names;
}

INSTANTIATE_TEST_SUITE_P(Models, TracedModelTest, ::testing::ValuesIn(ModelNames()),
                         [](const auto& info) { return info.param; });

TEST(TracedModelTest, BatchNormStatisticsAreMutatedInputs) {
  const auto module =
      TraceableModule::Create(AdaptFactory([] { return torch::nn::Sequential(torch::nn::BatchNorm1d(3)); }), {});
  ASSERT_TRUE(module.ok()) << module.status();
  const auto traced = Trace(module->forward(), module->states(), {torch::rand({4, 3})},
                            {.name = "forward", .backward = TraceOptions::Backward::kOutputs});
  ASSERT_TRUE(traced.ok()) << traced.status();
  // weight, bias, running_mean, running_var, num_batches_tracked, input.
  std::vector<bool> mutated, requires_grad;
  for (const auto& info : traced->metadata.input_info()) {
    mutated.push_back(info.mutates_data());
    requires_grad.push_back(info.requires_grad());
  }
  EXPECT_THAT(mutated, ::testing::ElementsAre(false, false, true, true, true, false));
  EXPECT_THAT(requires_grad, ::testing::ElementsAre(true, true, false, false, false, false));
  std::vector<std::string> targets;
  for (const auto& mutation : traced->signature.buffers_to_mutate()) {
    targets.push_back(mutation.target());
  }
  EXPECT_THAT(targets, ::testing::ElementsAre("0.running_mean", "0.running_var", "0.num_batches_tracked"));
}

// An unregistered tensor that forward() replaces.
struct Remembering : torch::nn::Module {
  at::Tensor forward(at::Tensor x) {
    last_ = x * 2;
    return x + 1;
  }
  at::Tensor last_;
};

// A registered parameter that forward() replaces.
struct Replacing : torch::nn::Module {
  Replacing() { register_parameter("gain", torch::ones({2})); }
  at::Tensor forward(at::Tensor x) {
    parameters_["gain"] = torch::ones({2});
    return x;
  }
};

// An attribute, made in the constructor, that views a parameter.
struct Viewing : torch::nn::Module {
  Viewing() : row_(register_parameter("matrix", torch::ones({2, 2})).detach().select(0, 0)) {}
  at::Tensor forward(at::Tensor x) { return x + row_; }
  at::Tensor row_;
};

// A tensor made in the constructor and written to.
struct Counting : torch::nn::Module {
  Counting() : calls_(torch::zeros({2})) {}
  at::Tensor forward(at::Tensor x) { return x + calls_.add_(1); }
  at::Tensor calls_;
};

template <typename Module>
std::string ErrorOf() {
  const auto module = TraceableModule::Create(AdaptFactory([] { return std::make_shared<Module>(); }), {});
  if (!module.ok()) return std::string(module.status().message());
  const auto traced = Trace(module->forward(), module->states(), {torch::ones({2})}, {.name = "forward"});
  return traced.ok() ? "no error" : std::string(traced.status().message());
}

TEST(TracedModelTest, AttributeThatForwardChangesIsUnimplemented) {
  using ::testing::HasSubstr;
  EXPECT_THAT(ErrorOf<Remembering>(), HasSubstr("a result of aten.mul.Scalar: it is kept"));
  EXPECT_THAT(ErrorOf<Replacing>(), HasSubstr("'gain': forward() replaced or registered it"));
  EXPECT_THAT(ErrorOf<Viewing>(), HasSubstr("it is an attribute that views 'matrix'"));
  EXPECT_THAT(ErrorOf<Counting>(), HasSubstr("aten.add_.Scalar: it writes to a tensor ([2])"));
}

}  // namespace
}  // namespace cotan::aot
