// SPDX-License-Identifier: Apache-2.0

// Trains a model with complex parameters beside a twin in eager mode that has them as pairs of real numbers:
// torch.optim updates both alike.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "aot/optimizer/optimizer.h"
#include "testing/e2e/compiled_trainer.h"
#include "testing/e2e/eager_trainer.h"
#include "testing/models/models.h"

namespace cotan::testing {
namespace {

constexpr int kModes = 5;
constexpr int kChannels = 3;
constexpr int kPoints = 16;

// A layer of a Fourier neural operator (Li et al., 2021): multiplies the lowest frequencies by complex weights.
class SpectralLayer : public Network {
 public:
  explicit SpectralLayer(bool is_complex) : is_complex_(is_complex) {
    const at::Tensor pairs = torch::randn({kChannels, kChannels, kModes, 2});
    weight_ = register_parameter("weight", is_complex ? torch::view_as_complex(pairs).clone() : pairs);
    bias_ = register_parameter("bias", torch::randn({kChannels, 1}));
  }

  torch::Tensor forward(torch::Tensor input) override {
    const at::Tensor weight = is_complex_ ? weight_ : torch::view_as_complex(weight_);
    const at::Tensor frequencies = torch::fft::rfft(input);
    at::Tensor result = torch::zeros_like(frequencies);
    result.slice(-1, 0, kModes).copy_(torch::einsum("bix,iox->box", {frequencies.slice(-1, 0, kModes), weight}));
    return torch::fft::irfft(result, kPoints) + bias_;
  }

 private:
  const bool is_complex_;
  at::Tensor weight_, bias_;
};

ModelCase Spectral(bool is_complex) {
  const auto draw = [](at::Generator generator) { return torch::randn({4, kChannels, kPoints}, generator); };
  return {is_complex ? "complex" : "pairs",
          "a spectral convolution",
          [is_complex] { return std::make_shared<SpectralLayer>(is_complex); },
          [](const at::Tensor& output, const at::Tensor& label) { return torch::mse_loss(output, label); },
          draw,
          draw};
}

struct OptimizerCase {
  std::string name;
  aot::OptimizerConfig config;
};

std::vector<OptimizerCase> OptimizerCases() {
  const aot::SgdOptions sgd = {.lr = 0.1, .momentum = 0.9, .weight_decay = 0.01, .nesterov = true};
  return {
      {"Sgd", {.options = sgd}},
      {"AdamW",
       {.options = aot::AdamOptions{.lr = 0.05, .weight_decay = 0.1, .amsgrad = true, .decoupled_weight_decay = true}}},
      {"ClippedNorm", {.options = sgd, .clip_norm = 0.05}},
      {"ClippedValue", {.options = sgd, .clip_value = 0.01}}};
}

class ComplexParametersTest : public ::testing::TestWithParam<OptimizerCase> {};

at::Tensor AsReal(const at::Tensor& tensor) { return tensor.is_complex() ? torch::view_as_real(tensor) : tensor; }

TEST_P(ComplexParametersTest, AreUpdatedAsPairsOfRealNumbers) {
  const ModelCase complex = Spectral(/*is_complex=*/true);
  const ModelCase pairs = Spectral(/*is_complex=*/false);
  at::Generator generator = at::detail::createCPUGenerator(1);
  const at::Tensor input = complex.make_input(generator), label = complex.make_label(generator);
  for (const bool accumulate : {false, true}) {
    const auto trainer = CompiledTrainer::Create(complex, input, label,
                                                 {.seed = 3, .optimizer = GetParam().config, .accumulate = accumulate});
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    EagerTrainer eager(pairs, /*seed=*/3, GetParam().config);
    for (int step = 0; step < 4; ++step) {
      if (accumulate) {
        for (int i = 0; i < 2; ++i) {
          const auto loss = (*trainer)->Accumulate(input, label);
          ASSERT_TRUE(loss.ok()) << loss.status();
          EXPECT_NEAR(*loss, eager.Accumulate(input, label), 1e-4);
        }
        const absl::Status updated = (*trainer)->Update();
        ASSERT_TRUE(updated.ok()) << updated;
        eager.Update();
      } else {
        const auto loss = (*trainer)->Step(input, label);
        ASSERT_TRUE(loss.ok()) << loss.status();
        EXPECT_NEAR(*loss, eager.Step(input, label), 1e-4);
      }
    }
    const auto states = (*trainer)->States();
    ASSERT_TRUE(states.ok()) << states.status();
    EXPECT_TRUE(states->at("weight").is_complex());
    for (const auto& [name, expected] : eager.States()) {
      ASSERT_TRUE(states->contains(name)) << name;
      const at::Tensor state = AsReal(states->at(name));
      ASSERT_EQ(state.sizes(), expected.sizes()) << name;
      EXPECT_TRUE(torch::allclose(state, expected, 1e-4, 1e-5)) << name;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Optimizers, ComplexParametersTest, ::testing::ValuesIn(OptimizerCases()),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace cotan::testing
