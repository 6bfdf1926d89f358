// SPDX-License-Identifier: Apache-2.0

#include "testing/distributed/parallel_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "absl/strings/str_cat.h"
#include "testing/models/networks.h"

namespace cotan::testing {
namespace {

namespace nn = torch::nn;

constexpr int64_t kClasses = 5;

torch::Tensor CrossEntropy(torch::Tensor output, torch::Tensor label) {
  return nn::functional::cross_entropy(output, label);
}

// A model whose batches have one row, which DrawData() repeats.
ModelCase Case(std::string name, std::vector<int64_t> sizes, std::function<nn::Sequential()> layers) {
  ModelCase model;
  model.name = std::move(name);
  model.make_network = [layers] { return std::make_shared<Chain>(layers()); };
  model.loss = CrossEntropy;
  model.make_input = [sizes](at::Generator generator) { return torch::randn(sizes, generator); };
  model.make_label = [](at::Generator generator) {
    return torch::randint(0, kClasses, {}, generator, torch::TensorOptions(torch::kInt64));
  };
  return model;
}

}  // namespace

ModelCase Perceptron() {
  return Case("perceptron", {12}, [] {
    return nn::Sequential(nn::Linear(12, 24), nn::Tanh(), nn::Linear(24, 16), nn::Tanh(), nn::Linear(16, kClasses));
  });
}

ModelCase PerceptronWithDropout() {
  return Case("dropout", {12}, [] {
    return nn::Sequential(nn::Linear(12, 24), nn::ReLU(), nn::Dropout(0.5), nn::Linear(24, kClasses));
  });
}

ModelCase NormalizedNetwork() {
  return Case("normalized", {2, 6, 6}, [] {
    return nn::Sequential(nn::Conv2d(nn::Conv2dOptions(2, 4, 3).bias(false)), nn::BatchNorm2d(4), nn::Tanh(),
                          nn::Flatten(), nn::Linear(4 * 4 * 4, 8), nn::BatchNorm1d(8), nn::Tanh(),
                          nn::Linear(8, kClasses));
  });
}

RankData DrawData(const ModelCase& model, int ranks, int64_t batch, int64_t steps, uint64_t seed) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  RankData data;
  data.batch = batch;
  data.steps = steps;
  for (int64_t row = 0; row < ranks * batch * steps; ++row) {
    const torch::Tensor input = model.make_input(generator).contiguous();
    data.sizes = input.sizes().vec();
    data.inputs.insert(data.inputs.end(), input.data_ptr<float>(), input.data_ptr<float>() + input.numel());
    data.labels.push_back(model.make_label(generator).item<int64_t>());
  }
  return data;
}

std::pair<torch::Tensor, torch::Tensor> RowsOf(const RankData& data, int64_t first, int64_t count) {
  const int64_t row = std::accumulate(data.sizes.begin(), data.sizes.end(), int64_t{1}, std::multiplies<>());
  std::vector<int64_t> sizes = data.sizes;
  sizes.insert(sizes.begin(), count);
  auto* const inputs = const_cast<float*>(data.inputs.data()) + first * row;
  auto* const labels = const_cast<int64_t*>(data.labels.data()) + first;
  return {torch::from_blob(inputs, sizes).clone(), torch::from_blob(labels, {count}, torch::kInt64).clone()};
}

std::string CompileParallel(const ModelCase& model, int64_t batch, const aot::OptimizerConfig& optimizer,
                            const std::optional<aot::DataParallelOptions>& parallel, bool accumulate) {
  const RankData example = DrawData(model, /*ranks=*/1, batch, /*steps=*/1, /*seed=*/1);
  const auto [input, label] = RowsOf(example, 0, batch);
  aot::CompileOptions options;
  options.loss.function = [&model](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets) {
    return model.loss(outputs[0], targets[0]);
  };
  options.loss.targets = {label};
  options.optimizer = optimizer;
  options.data_parallel = parallel;
  options.methods.forward_backward = false;
  options.methods.accumulate = accumulate;
  options.module.seed = kModelSeed;
  const absl::StatusOr<aot::CompiledModel> compiled = aot::CompileModule(model.make_network, {input}, options);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  if (!compiled.ok()) return "";
  static int number = 0;
  const std::string path = absl::StrCat(::testing::TempDir(), "/", model.name, number++, ".cotan");
  const absl::Status saved = compiled->Save(path);
  EXPECT_TRUE(saved.ok()) << saved;
  return path;
}

}  // namespace cotan::testing
