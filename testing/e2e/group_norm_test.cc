// SPDX-License-Identifier: Apache-2.0

// Trains group and instance normalisation between convolutions, beside LibTorch eager, and checks that images stay
// channels-last.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "aot/compile.h"
#include "aot/optimizer/optimizer.h"
#include "runtime/execution/program.h"
#include "serialization/schema/program.pb.h"
#include "testing/e2e/step_comparison.h"
#include "testing/models/models.h"

namespace cotan::testing {
namespace {

constexpr uint64_t kSeed = 3;
constexpr int64_t kChannels = 12;

struct Settings {
  int64_t groups = 3;
  bool by_instance = false;  // instance normalisation, which ATen computes as batch normalisation of a view
  bool affine = true;
  std::vector<int64_t> area = {6, 4};
};

// Two convolutions, each after group normalisation and SiLU, between images of twice their size.
class Normalized : public Network {
 public:
  explicit Normalized(const Settings& settings) : spatial_(settings.area.size()), by_instance_(settings.by_instance) {
    const auto norm = [&](int64_t groups) {
      return torch::nn::GroupNorm(torch::nn::GroupNormOptions(groups, kChannels).affine(settings.affine));
    };
    first_norm = register_module("first_norm", norm(settings.groups));
    second_norm = register_module("second_norm", norm(settings.groups));
    const std::vector<int64_t> kernel(spatial_, 3);
    std::vector<int64_t> weight = {kChannels, kChannels};
    weight.insert(weight.end(), kernel.begin(), kernel.end());
    first = register_parameter("first", torch::randn(weight) / 6);
    second = register_parameter("second", torch::randn(weight) / 6);
    scale = register_parameter("scale", torch::randn({kChannels}));
  }

  torch::Tensor forward(torch::Tensor input) override {
    const torch::Tensor x = Convolve(input, first);
    const torch::Tensor y = torch::silu(Normalize(first_norm, x));
    namespace F = torch::nn::functional;
    const torch::Tensor z = F::interpolate(
        y, F::InterpolateFuncOptions().scale_factor(std::vector<double>(spatial_, 2.0)).mode(torch::kNearest));
    return Convolve(torch::silu(Normalize(second_norm, z)), second);
  }

  torch::nn::GroupNorm first_norm = nullptr, second_norm = nullptr;
  torch::Tensor first, second, scale;

 private:
  torch::Tensor Convolve(const torch::Tensor& x, const torch::Tensor& weight) {
    const std::vector<int64_t> ones(spatial_, 1);
    return torch::convolution(x, weight, scale, ones, ones, ones, false, std::vector<int64_t>(spatial_, 0), 1);
  }

  torch::Tensor Normalize(torch::nn::GroupNorm& norm, const torch::Tensor& x) const {
    if (!by_instance_) return norm(x);
    return torch::instance_norm(x, norm->weight, norm->bias, {}, {}, /*use_input_stats=*/true, /*momentum=*/0.1,
                                /*eps=*/1e-5, /*cudnn_enabled=*/false);
  }

  size_t spatial_;
  bool by_instance_;
};

ModelCase Model(const Settings& settings) {
  const auto image = [area = settings.area](int64_t factor) {
    std::vector<int64_t> sizes = {2, kChannels};
    for (const int64_t size : area) sizes.push_back(factor * size);
    return sizes;
  };
  return {.name = "normalized",
          .description = "group normalisation between convolutions",
          .make_network = [settings] { return std::make_shared<Normalized>(settings); },
          .loss = [](torch::Tensor output, torch::Tensor label) { return (output - label).square().mean(); },
          .make_input = [image](at::Generator generator) { return torch::randn(image(1), generator) + 3; },
          .make_label = [image](at::Generator generator) { return torch::randn(image(2), generator); }};
}

void ExpectMatch(const Settings& settings) {
  aot::OptimizerConfig config;
  config.options = aot::SgdOptions{.lr = 0.1, .momentum = 0.9};
  ExpectStepsMatchEager(Model(settings), config, kSeed);
}

TEST(GroupNormTest, SomeChannelsPerGroupMatchEager) { ExpectMatch({}); }

TEST(GroupNormTest, OneGroupMatchesEager) { ExpectMatch({.groups = 1}); }

TEST(GroupNormTest, OneChannelPerGroupMatchesEager) { ExpectMatch({.groups = kChannels}); }

TEST(GroupNormTest, WithoutWeightsMatchesEager) { ExpectMatch({.affine = false}); }

TEST(GroupNormTest, InstancesMatchEager) { ExpectMatch({.by_instance = true}); }

TEST(GroupNormTest, InstancesWithoutWeightsMatchEager) { ExpectMatch({.by_instance = true, .affine = false}); }

TEST(GroupNormTest, RowsOfChannelsMatchEager) { ExpectMatch({.area = {7}}); }

TEST(GroupNormTest, VolumesOfChannelsMatchEager) { ExpectMatch({.area = {2, 3, 2}}); }

TEST(GroupNormTest, OnePixelMatchesEager) { ExpectMatch({.area = {1, 1}}); }

// Returns the ops of a method that store an image row-major, other than views and those of the method's results.
std::vector<std::string> RowMajorImages(const serialization::Method& method) {
  std::vector<std::string> ops;
  for (const serialization::Op& op : method.ops()) {
    if (op.has_view()) continue;
    for (const uint32_t output : op.outputs()) {
      const serialization::TensorType& type = method.values(static_cast<int>(output)).type();
      const bool is_image = type.sizes_size() == 4 && type.sizes(0) == "2" && type.sizes(2) != "1";
      const bool is_result = absl::c_linear_search(method.outputs(), output);
      if (is_image && !is_result && type.dim_order_size() == 0) ops.push_back(op.ShortDebugString());
    }
  }
  return ops;
}

class LayoutTest : public ::testing::TestWithParam<bool> {};

TEST_P(LayoutTest, ImagesStayChannelsLast) {
  const ModelCase model = Model({.by_instance = GetParam()});
  at::Generator generator = at::detail::createCPUGenerator(kSeed);
  const auto compiled = aot::CompileModule(model.make_network, {model.make_input(generator)}, {});
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto program = Program::LoadBytes(compiled->bytes());
  ASSERT_TRUE(program.ok()) << program.status();
  for (const serialization::Method& method : (*program)->artifact().methods()) {
    EXPECT_THAT(RowMajorImages(method), ::testing::IsEmpty()) << method.name();
  }
}

INSTANTIATE_TEST_SUITE_P(ByInstance, LayoutTest, ::testing::Bool());

}  // namespace
}  // namespace cotan::testing
