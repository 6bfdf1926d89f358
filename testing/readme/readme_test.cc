// SPDX-License-Identifier: Apache-2.0

// Compiles and runs the example of README.md, which is copied word for word between the two marks.
// readme_text_test compares the texts.
#include <gtest/gtest.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdint>
#include <vector>

#include "aot/compile.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/session.h"

namespace {

float last_loss = 0;

void NextBatch(std::vector<float>& images, std::vector<int64_t>& labels) {
  for (size_t i = 0; i < images.size(); ++i) images[i] = static_cast<float>(i % 7 == i / 784 % 7);
  for (size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<int64_t>(i % 7);
}

void Report(float loss) { last_loss = loss; }

// README begin
absl::Status Compile() {  // on your machine: links //aot and LibTorch
  cotan::aot::CompileOptions options;
  options.loss.function = [](const auto& outputs, const auto& targets) {
    return torch::nn::functional::cross_entropy(outputs[0], targets[0]);
  };
  options.loss.targets = {torch::zeros({32}, torch::kInt64)};
  options.optimizer = cotan::aot::OptimizerConfig{cotan::aot::SgdOptions{.lr = 0.1, .momentum = 0.9}};
  auto net = [] {
    return torch::nn::Sequential(torch::nn::Linear(784, 64), torch::nn::ReLU(), torch::nn::Linear(64, 10));
  };
  COTAN_ASSIGN_OR_RETURN(auto model, cotan::aot::CompileModule(net, {torch::zeros({32, 784})}, options));
  return model.Save("net.cotan");
}

absl::Status Train() {  // on the device: links //runtime and //kernels/cpu:register_cpu
  COTAN_ASSIGN_OR_RETURN(auto program, cotan::Program::Load("net.cotan"));
  COTAN_ASSIGN_OR_RETURN(auto session, cotan::Session::Create(program, {.kernels = &cotan::CpuKernels()}));
  std::vector<float> images(32 * 784);
  std::vector<int64_t> labels(32);
  COTAN_ASSIGN_OR_RETURN(auto x, cotan::Tensor::Borrow(absl::MakeSpan(images), {32, 784}));
  COTAN_ASSIGN_OR_RETURN(auto y, cotan::Tensor::Borrow(absl::MakeSpan(labels), {32}));
  for (int step = 0; step < 100; ++step) {
    NextBatch(images, labels);
    COTAN_ASSIGN_OR_RETURN(auto results, session.Run("train_step", {x, y}));  // logits, loss
    COTAN_ASSIGN_OR_RETURN(float loss, results[1].Item<float>());
    Report(loss);
  }
  return session.SaveCheckpoint("net.safetensors");
}
// README end

TEST(ReadmeTest, ExampleCompilesAndLearns) {
  ASSERT_EQ(chdir(::testing::TempDir().c_str()), 0);
  const absl::Status compiled = Compile();
  ASSERT_TRUE(compiled.ok()) << compiled;
  const absl::Status trained = Train();
  ASSERT_TRUE(trained.ok()) << trained;
  EXPECT_LT(last_loss, 0.1f);
}

}  // namespace
