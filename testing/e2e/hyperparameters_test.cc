// SPDX-License-Identifier: Apache-2.0

// Changes the options of optimizers between the steps of one compiled artifact, beside torch::optim with the same
// changes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "aot/compile.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/execution/program.h"
#include "runtime/session.h"
#include "testing/e2e/compiled_trainer.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;

// A change of the options before a step.
struct Change {
  std::vector<std::pair<std::string, double>> values;  // for SetHyperparameter()
  std::function<void(torch::optim::OptimizerOptions& options)> in_eager;
};

struct Case {
  std::string name;
  aot::OptimizerOptions options;
  std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<torch::Tensor> parameters)> in_eager;
  std::vector<Change> changes;
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

using SgdEager = torch::optim::SGDOptions;
using AdamEager = torch::optim::AdamOptions;
using AdamWEager = torch::optim::AdamWOptions;

template <typename Options>
Options& As(torch::optim::OptimizerOptions& options) {
  return static_cast<Options&>(options);
}

// Changes that Adam and AdamW have in common.
template <typename Options>
std::vector<Change> AdamChanges() {
  return {
      {{}, [](auto&) {}},
      {{{"lr", 0.05}}, [](auto& o) { As<Options>(o).lr(0.05); }},
      {{{"beta1", 0.5}, {"beta2", 0.75}},
       [](auto& o) {
         As<Options>(o).betas({0.5, 0.75});
       }},
      {{{"weight_decay", 0.25}}, [](auto& o) { As<Options>(o).weight_decay(0.25); }},
      {{{"eps", 1e-2}, {"lr", 0.2}},
       [](auto& o) {
         As<Options>(o).eps(1e-2);
         As<Options>(o).lr(0.2);
       }},
      {{{"lr", 0}, {"beta1", 0}},
       [](auto& o) {
         As<Options>(o).lr(0);
         As<Options>(o).betas({0, 0.75});
       }},
  };
}

std::vector<Case> Cases() {
  return {
      {"Sgd",
       aot::SgdOptions{.lr = 0.1, .momentum = 0.9, .dampening = 0.1, .weight_decay = 0.01},
       [](std::vector<torch::Tensor> parameters) {
         return std::make_unique<torch::optim::SGD>(std::move(parameters),
                                                    SgdEager(0.1).momentum(0.9).dampening(0.1).weight_decay(0.01));
       },
       {
           {{}, [](auto&) {}},
           {{{"lr", 0.025}}, [](auto& o) { As<SgdEager>(o).lr(0.025); }},
           {{{"momentum", 0.25}}, [](auto& o) { As<SgdEager>(o).momentum(0.25); }},
           {{{"weight_decay", 0.5}}, [](auto& o) { As<SgdEager>(o).weight_decay(0.5); }},
           {{{"dampening", 0.75}, {"lr", 0.3}},
            [](auto& o) {
              As<SgdEager>(o).dampening(0.75);
              As<SgdEager>(o).lr(0.3);
            }},
           {{{"lr", 0}, {"weight_decay", 0}},
            [](auto& o) {
              As<SgdEager>(o).lr(0);
              As<SgdEager>(o).weight_decay(0);
            }},
       }},
      {"Adam", aot::AdamOptions{.lr = 0.1},
       [](std::vector<torch::Tensor> parameters) {
         return std::make_unique<torch::optim::Adam>(std::move(parameters), AdamEager(0.1));
       },
       AdamChanges<AdamEager>()},
      {"AdamW", aot::AdamOptions{.lr = 0.1, .weight_decay = 0.01, .decoupled_weight_decay = true},
       [](std::vector<torch::Tensor> parameters) {
         return std::make_unique<torch::optim::AdamW>(std::move(parameters), AdamWEager(0.1).weight_decay(0.01));
       },
       AdamChanges<AdamWEager>()},
  };
}

// A layer with fixed parameters.
torch::nn::Linear MakeLayer() {
  torch::nn::Linear layer(3, 2);
  const torch::NoGradGuard no_grad;
  layer->weight.copy_(torch::tensor({{0.5f, -1.0f, 0.25f}, {1.5f, 0.75f, -0.5f}}));
  layer->bias.copy_(torch::tensor({0.125f, -0.25f}));
  return layer;
}

torch::Tensor Loss(const torch::Tensor& output) { return (output * output).mean(); }

class Hyperparameters : public ::testing::TestWithParam<Case> {};

TEST_P(Hyperparameters, ChangesTakeEffectAtTheNextStepWithoutCompilingAgain) {
  const Case& c = GetParam();
  const torch::Tensor x = torch::linspace(-1, 2, 12).view({4, 3});
  aot::CompileOptions options;
  options.loss.function = [](const auto& outputs, const auto&) { return Loss(outputs[0]); };
  options.optimizer = aot::OptimizerConfig{c.options};
  const auto model = aot::CompileModule(MakeLayer, {x}, options);
  ASSERT_TRUE(model.ok()) << model.status();
  auto session = Session::Create(*Program::LoadBytes(model->bytes()), {.kernels = &CpuKernels(), .threads = 1});
  ASSERT_TRUE(session.ok()) << session.status();

  torch::nn::Linear eager = MakeLayer();
  const auto optimizer = c.in_eager(eager->parameters());
  for (size_t step = 0; step < c.changes.size(); ++step) {
    SCOPED_TRACE(step);
    for (const auto& [name, value] : c.changes[step].values) {
      ASSERT_TRUE(session->SetHyperparameter(name, value).ok()) << name;
      EXPECT_EQ(*session->Hyperparameter(name), value);
    }
    c.changes[step].in_eager(optimizer->param_groups()[0].options());
    for (int repeat = 0; repeat < 2; ++repeat) {
      const auto results = session->Run("train_step", {*ToCotan(x)});
      ASSERT_TRUE(results.ok()) << results.status();
      optimizer->zero_grad();
      Loss(eager->forward(x)).backward();
      optimizer->step();
      for (const auto& parameter : eager->named_parameters()) {
        const torch::Tensor trained = *ToTorch(*session->State(parameter.key()));
        EXPECT_TRUE(torch::allclose(trained, parameter.value(), 2e-5, 1e-6)) << parameter.key() << "\n"
                                                                             << trained << "\nexpected\n"
                                                                             << parameter.value();
      }
    }
  }
  EXPECT_EQ(session->num_plans_made(), 1);
}

INSTANTIATE_TEST_SUITE_P(Optimizers, Hyperparameters, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

TEST(HyperparametersTest, AreNamedIfTheOptimizerHasOthers) {
  aot::CompileOptions options;
  options.loss.function = [](const auto& outputs, const auto&) { return Loss(outputs[0]); };
  options.optimizer = aot::OptimizerConfig{aot::SgdOptions{.lr = 0.1}};  // without momentum: no buffers
  const auto model = aot::CompileModule(MakeLayer, {torch::ones({4, 3})}, options);
  ASSERT_TRUE(model.ok()) << model.status();
  auto session = Session::Create(*Program::LoadBytes(model->bytes()), {.kernels = &CpuKernels(), .threads = 1});
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::Status status = session->SetHyperparameter("momentum", 0.9);
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("weight_decay"));
}

}  // namespace
}  // namespace cotan::testing
