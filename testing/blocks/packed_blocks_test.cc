// SPDX-License-Identifier: Apache-2.0

// Blocks of programs with saved-tensor hooks: what is packed, and its bits, are those of the program without blocks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "aot/blocks/block.h"
#include "aot/compile.h"
#include "aot/saved_tensor_hooks/hook_pairs.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/session.h"
#include "serialization/schema/tensor_type.h"
#include "testing/blocks/block_counts.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::IsEmpty;

aot::CompiledModel Compiling(const aot::TensorFunction& function, const Tensors& inputs,
                             const aot::CompileOptions& options = {}) {
  absl::StatusOr<aot::CompiledModel> model = aot::CompileFunction(function, inputs, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// Returns the results of the compiled function, then the gradients of their sum.
Tensors ResultsAndGradients(const aot::CompiledModel& model, const Tensors& inputs) {
  auto compiled = Compiled::Load(model);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  const Variables arguments = ToVariables(inputs);
  const Variables results = (*compiled)(arguments);
  Tensors all;
  std::vector<Tensor> ones;
  for (const Variable& result : results) {
    all.push_back(ToTorch(result.tensor()));
    ones.push_back(ToCotan(torch::ones_like(all.back())));
  }
  const auto gradients = autograd::Grad(results, arguments, ones, compiled->ops());
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  for (const Tensor& gradient : *gradients) all.push_back(ToTorch(gradient));
  return all;
}

bool AreEqual(const Tensors& a, const Tensors& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const at::Tensor& x, const at::Tensor& y) { return torch::equal(x, y); });
}

// Returns the types of what "forward" saves, in the order of their texts.
std::multiset<std::string> SavedTypes(const aot::CompiledModel& model) {
  std::multiset<std::string> types;
  const serialization::Artifact artifact = StoredArtifact(model);
  for (const serialization::Method& method : artifact.methods()) {
    for (int i = method.outputs_size() - static_cast<int>(method.num_saved()); i < method.outputs_size(); ++i) {
      types.insert(TensorTypeText(method.values(static_cast<int>(method.outputs(i))).type()));
    }
  }
  return types;
}

// The default partitioner saves the same values with and without blocks: nothing is computed again from values of other
// blocks. Equal ops of the caller, such as those of pack, stay apart.
aot::CompileOptions Int8Options(aot::HookFilter filter) {
  aot::CompileOptions options;
  options.partitioner = aot::Partitioner::kDefault;
  options.outline_repeats = false;
  options.saved_tensor_hooks = aot::Int8Hooks();
  options.saved_tensor_hooks.filter = filter;
  options.saved_tensor_hooks.min_elements = 1;
  return options;
}

TEST(PackedBlocksTest, PackedValuesAreThoseOfTheFunctionWithoutBlocks) {
  const auto body = [](at::Tensor x, at::Tensor w) { return torch::matmul(x, w).sin(); };
  const auto layers = [body](bool shared) -> aot::TensorFunction {
    return [body, shared](const Tensors& x) {
      at::Tensor y = x[0];
      for (int i = 0; i < 3; ++i) y = shared ? COTAN_BLOCK(body, y, x[1]) : body(y, x[1]);
      return Tensors{y};
    };
  };
  const Tensors inputs{Leaf(1, {24, 24}), Leaf(2, {24, 24})};
  const Tensors exact = ResultsAndGradients(Compiling(layers(true), inputs), inputs);
  for (const aot::HookFilter filter : {aot::HookFilter::kDonated, aot::HookFilter::kNoStatic, aot::HookFilter::kAll}) {
    const aot::CompileOptions options = Int8Options(filter);
    const aot::CompiledModel model = Compiling(layers(true), inputs, options);
    const aot::CompiledModel inlined = Compiling(layers(false), inputs, options);
    EXPECT_THAT(model.inlined_blocks(), IsEmpty());
    EXPECT_EQ(CountBlocks(model).blocks, 2);
    EXPECT_EQ(CountBlocks(model).calls, (std::map<std::string, int>{{"forward", 3}, {"backward", 3}}));
    EXPECT_EQ(SavedTypes(model), SavedTypes(inlined));
    const Tensors packed = ResultsAndGradients(model, inputs);
    EXPECT_TRUE(AreEqual(packed, ResultsAndGradients(inlined, inputs)));
    EXPECT_TRUE(torch::equal(packed[0], exact[0]));
    EXPECT_FALSE(torch::equal(packed[1], exact[1]));
  }
}

TEST(PackedBlocksTest, BlocksOfBlocksPackEachValueOnce) {
  const auto inner = [](at::Tensor x, at::Tensor w) { return torch::matmul(x, w).sin(); };
  const auto outer = [inner](at::Tensor x, at::Tensor w) {
    return COTAN_BLOCK(inner, COTAN_BLOCK(inner, x, w), w) * 2;
  };
  const aot::TensorFunction nested = [outer](const Tensors& x) {
    return Tensors{COTAN_BLOCK(outer, COTAN_BLOCK(outer, x[0], x[1]), x[1])};
  };
  const aot::TensorFunction plain = [inner](const Tensors& x) {
    const auto twice = [&](const at::Tensor& y) { return inner(inner(y, x[1]), x[1]) * 2; };
    return Tensors{twice(twice(x[0]))};
  };
  const Tensors inputs{Leaf(1, {24, 24}), Leaf(2, {24, 24})};
  const aot::CompileOptions options = Int8Options(aot::HookFilter::kDonated);
  const aot::CompiledModel model = Compiling(nested, inputs, options);
  const aot::CompiledModel inlined = Compiling(plain, inputs, options);
  EXPECT_THAT(model.inlined_blocks(), IsEmpty());
  EXPECT_EQ(CountBlocks(model).blocks, 4);
  EXPECT_EQ(SavedTypes(model), SavedTypes(inlined));
  // The gradients of the weight are added in another order.
  const Tensors nested_results = ResultsAndGradients(model, inputs),
                plain_results = ResultsAndGradients(inlined, inputs);
  ASSERT_EQ(nested_results.size(), plain_results.size());
  for (size_t i = 0; i < plain_results.size(); ++i) {
    EXPECT_TRUE(torch::allclose(nested_results[i], plain_results[i], 1e-12, 1e-12)) << i;
  }
}

// Two equal layers, which are blocks if `shared`.
class Layers : public torch::nn::Module {
 public:
  explicit Layers(bool shared) : shared_(shared) {
    for (const char* name : {"first", "second"}) layers_.push_back(register_module(name, torch::nn::Linear(16, 16)));
  }
  at::Tensor forward(const at::Tensor& x) {
    const auto wave = [](torch::nn::Linear& layer, const at::Tensor& y) { return layer->forward(y).sin(); };
    at::Tensor y = x;
    for (torch::nn::Linear& layer : layers_) {
      const aot::TensorFunction body = [&](const Tensors& in) { return Tensors{wave(layer, in[0])}; };
      y = shared_ ? aot::RunBlock({.module = layer.ptr().get(), .body = body}, {y})[0] : wave(layer, y);
    }
    return y;
  }

 private:
  const bool shared_;
  std::vector<torch::nn::Linear> layers_;
};

// Returns the parameters after two steps.
Tensors Trained(bool shared, aot::CompileOptions options) {
  options.loss.function = [](const Tensors& outputs, const Tensors&) { return outputs[0].square().sum(); };
  options.optimizer = aot::OptimizerConfig{aot::SgdOptions{.lr = 0.1}};
  options.methods = {.forward_backward = false, .eval = false};
  options.module.seed = 3;
  const auto model = aot::CompileModule([shared] { return std::make_shared<Layers>(shared); },
                                        {Leaf(1, {8, 16}).detach().to(at::kFloat)}, options);
  EXPECT_TRUE(model.ok()) << model.status();
  EXPECT_THAT(model->inlined_blocks(), IsEmpty());
  // A forward and a backward of each layer; equal updates of parameters may be calls, too.
  const std::map<std::string, int> calls = CountBlocks(*model).calls;
  EXPECT_EQ(calls.contains("train_step") && calls.at("train_step") >= 4, shared);
  Session session =
      *Session::Create(*Program::LoadBytes(std::string(model->bytes())), {.kernels = &CpuKernels(), .threads = 1});
  const std::vector<float> values(8 * 16, 0.5);
  for (int step = 0; step < 2; ++step) {
    const auto results = session.Run("train_step", {*Tensor::From<float>(values, {8, 16})});
    EXPECT_TRUE(results.ok()) << results.status();
  }
  Tensors parameters;
  for (const char* name : {"first.weight", "first.bias", "second.weight", "second.bias"}) {
    parameters.push_back(torch::tensor(*session.State(name)->ToVector<float>()));
  }
  return parameters;
}

TEST(PackedBlocksTest, StepsHaveTheBitsOfTheModelWithoutBlocks) {
  const Tensors packed = Trained(true, Int8Options(aot::HookFilter::kDonated));
  EXPECT_TRUE(AreEqual(packed, Trained(false, Int8Options(aot::HookFilter::kDonated))));
  EXPECT_FALSE(AreEqual(packed, Trained(true, {})));
}

}  // namespace
}  // namespace cotan::testing
