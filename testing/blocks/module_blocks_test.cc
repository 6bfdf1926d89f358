// SPDX-License-Identifier: Apache-2.0

// Blocks with parameters and buffers of their own.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "aot/blocks/block.h"
#include "aot/capture/effects.h"
#include "aot/compile.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/grad_mode.h"
#include "testing/blocks/block_counts.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using CallCounts = std::map<std::string, int>;

template <typename Net>
aot::CompiledModel Compiling(const Tensors& inputs, aot::MethodOptions methods = {}) {
  aot::CompileOptions options;
  options.methods = methods;
  auto model = aot::CompileModule([] { return std::make_shared<Net>(); }, inputs, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

// Runs "forward" twice beside eager and compares results, buffers and accumulated gradients of parameters. The states
// of the two start equal.
template <typename Net>
void ExpectEager(const aot::CompiledModel& model, const Tensors& inputs) {
  auto compiled = Compiled::Load(model);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  torch::manual_seed(0);
  const auto net = std::make_shared<Net>();
  for (int call = 0; call < 2; ++call) {
    const Variables arguments = ToVariables(inputs);
    const Variables results = (*compiled)(arguments);
    ASSERT_EQ(results.size(), 1u);
    const at::Tensor expected = net->forward(Copies(inputs)[0]);
    ExpectNear(ToTorch(results[0].tensor()), expected.detach());
    for (const auto& item : net->named_buffers()) {
      ExpectNear(ToTorch(*compiled->session().State(item.key())), item.value());
    }
    if (!expected.requires_grad()) continue;
    const at::Tensor tangent = Constant(7, expected.sizes());
    expected.backward(tangent);
    ASSERT_TRUE(autograd::Backward({results[0]}, {ToCotan(tangent)}, compiled->ops()).ok());
    for (const auto& item : net->named_parameters()) {
      const auto parameter = compiled->session().Parameter(item.key());
      ASSERT_TRUE(parameter.ok()) << parameter.status();
      const Variable found = parameter->grad();
      ExpectNear(found.defined() ? ToTorch(found.tensor()) : at::Tensor(), item.value().grad());
    }
  }
}

struct Affine : torch::nn::Module {
  explicit Affine(double scale = 1, const std::string& name = "weight")
      : scale(scale), weight(register_parameter(name, torch::randn({4, 4}, torch::kDouble))) {}
  at::Tensor forward(at::Tensor x) { return torch::matmul(x, weight).sin() * scale; }

  double scale;
  at::Tensor weight;
};

template <typename Net>
void ExpectEagerWithBlocks(int blocks, const CallCounts& calls) {
  const Tensors inputs{Leaf(1, {3, 4})};
  aot::MethodOptions methods;
  methods.eval = false;
  const aot::CompiledModel model = Compiling<Net>(inputs, methods);
  EXPECT_THAT(model.inlined_blocks(), IsEmpty());
  const BlockCounts counts = CountBlocks(model);
  EXPECT_EQ(counts.blocks, blocks);
  EXPECT_EQ(counts.calls, calls);
  ExpectEager<Net>(model, inputs);
}

// Layers whose registered names differ.
struct OtherNames : torch::nn::Module {
  OtherNames() {
    for (const char* name : {"a", "b", "c", "d", "e"}) {
      layers.push_back(register_module(name, std::make_shared<Affine>(1.5, std::string("weight_") + name)));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : layers) x = COTAN_BLOCK(layer, x);
    return x;
  }
  std::vector<std::shared_ptr<Affine>> layers;
};

TEST(ModuleBlocksTest, NamesAreNoPartOfTheIdentity) {
  ExpectEagerWithBlocks<OtherNames>(2, {{"forward", 5}, {"backward", 5}});
}

// The same constant in two instances, and another one between calls of one instance.
struct Constants : torch::nn::Module {
  at::Tensor forward(at::Tensor x) {
    first->scale = 5;
    x = COTAN_BLOCK(*first, x);
    x = COTAN_BLOCK(*second, x);
    first->scale = 10;
    return COTAN_BLOCK(*first, x);
  }
  std::shared_ptr<Affine> first = register_module("first", std::make_shared<Affine>(5));
  std::shared_ptr<Affine> second = register_module("second", std::make_shared<Affine>(5));
};

TEST(ModuleBlocksTest, ConstantsAreComparedAtEachCall) {
  ExpectEagerWithBlocks<Constants>(4, {{"forward", 3}, {"backward", 3}});
}

// A member that forward does not read.
struct Labeled : torch::nn::Module {
  struct Layer : Affine {
    int label = 0;
  };
  at::Tensor forward(at::Tensor x) {
    for (const int label : {1, 2}) {
      layer->label = label;
      x = COTAN_BLOCK(layer, x);
    }
    return x;
  }
  std::shared_ptr<Layer> layer = register_module("layer", std::make_shared<Layer>());
};

TEST(ModuleBlocksTest, MembersThatForwardDoesNotReadAreNoPartOfTheIdentity) {
  ExpectEagerWithBlocks<Labeled>(2, {{"forward", 2}, {"backward", 2}});
}

// One module in two blocks, and outside of both.
struct SharedWeight : torch::nn::Module {
  at::Tensor forward(at::Tensor x) {
    const at::Tensor before = layer->forward(x);
    return COTAN_BLOCK(layer, COTAN_BLOCK(layer, before)) + before;
  }
  std::shared_ptr<Affine> layer = register_module("layer", std::make_shared<Affine>());
};

TEST(ModuleBlocksTest, GradientsOfSharedWeightsAreAdded) {
  ExpectEagerWithBlocks<SharedWeight>(2, {{"forward", 2}, {"backward", 2}});
}

// Keys decide, whatever the layers are.
template <bool kOneKey>
struct Keyed : torch::nn::Module {
  Keyed() {
    for (int i = 0; i < 4; ++i) {
      layers.push_back(register_module("layer" + std::to_string(i), std::make_shared<Affine>()));
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (size_t i = 0; i < layers.size(); ++i) {
      x = aot::CallKeyedBlock(kOneKey ? "layer" : "layer" + std::to_string(i), layers[i], x);
    }
    return x;
  }
  std::vector<std::shared_ptr<Affine>> layers;
};

TEST(ModuleBlocksTest, EqualKeysAreOneBlock) {
  ExpectEagerWithBlocks<Keyed<true>>(2, {{"forward", 4}, {"backward", 4}});
}

// Each is traced, and its text compared.
TEST(ModuleBlocksTest, KeysThatDifferAreOneBlockIfTheirTracesAreEqual) {
  ExpectEagerWithBlocks<Keyed<false>>(2, {{"forward", 4}, {"backward", 4}});
}

// Counts its calls in a buffer.
struct Counter : torch::nn::Module {
  at::Tensor forward(at::Tensor x) {
    count.add_(1);
    return torch::matmul(x, weight) + count;
  }
  at::Tensor weight = register_parameter("weight", torch::randn({4, 4}, torch::kDouble));
  at::Tensor count = register_buffer("count", torch::zeros({}, torch::kDouble));
};
struct TwoCounts : torch::nn::Module {
  at::Tensor forward(at::Tensor x) { return COTAN_BLOCK(counter, COTAN_BLOCK(counter, x)); }
  std::shared_ptr<Counter> counter = register_module("counter", std::make_shared<Counter>());
};

TEST(ModuleBlocksTest, EachCallWritesTheBuffer) {
  ExpectEagerWithBlocks<TwoCounts>(2, {{"forward", 2}, {"backward", 2}});
}

TEST(ModuleBlocksTest, EachCallWritesTheBufferOfAnInputWithoutGradient) {
  const Tensors inputs{Constant(1, {3, 4})};
  const aot::CompiledModel model = Compiling<TwoCounts>(inputs, {.eval = false});
  EXPECT_THAT(model.inlined_blocks(), IsEmpty());
  EXPECT_EQ(CountBlocks(model).calls.at("forward"), 2);
  ExpectEager<TwoCounts>(model, inputs);
}

TEST(ModuleBlocksTest, EachCallWritesTheBufferWithoutGradMode) {
  const Tensors inputs{Leaf(1, {3, 4})};
  auto compiled = Compiled::Load(Compiling<TwoCounts>(inputs, {.eval = false}));
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  torch::manual_seed(0);
  const auto net = std::make_shared<TwoCounts>();
  const GradModeGuard no_grad(false);
  const torch::NoGradGuard eager_no_grad;
  for (int call = 1; call <= 2; ++call) {
    const Variables results = (*compiled)(ToVariables(inputs));
    ASSERT_EQ(results.size(), 1u);
    EXPECT_FALSE(results[0].requires_grad());
    ExpectNear(ToTorch(results[0].tensor()), net->forward(inputs[0]));
    EXPECT_EQ(ToTorch(*compiled->session().State("counter.count")).item<double>(), 2 * call);
  }
}

// Batch norm writes running statistics.
struct Normalized : torch::nn::Module {
  at::Tensor forward(at::Tensor x) { return torch::relu(norm(x) * 1.5); }
  torch::nn::BatchNorm1d norm = [this] {
    torch::nn::BatchNorm1d made(4);
    made->to(torch::kDouble);
    return register_module("norm", made);
  }();
};
struct TwoNorms : torch::nn::Module {
  at::Tensor forward(at::Tensor x) { return COTAN_BLOCK(second, COTAN_BLOCK(first, x)); }
  std::shared_ptr<Normalized> first = register_module("first", std::make_shared<Normalized>());
  std::shared_ptr<Normalized> second = register_module("second", std::make_shared<Normalized>());
};

TEST(ModuleBlocksTest, RunningStatisticsAreThoseOfEager) {
  const Tensors inputs{Leaf(1, {5, 4})};
  aot::MethodOptions methods;
  methods.eval = false;
  const aot::CompiledModel model = Compiling<TwoNorms>(inputs, methods);
  EXPECT_THAT(model.inlined_blocks(), IsEmpty());
  EXPECT_EQ(CountBlocks(model).calls, (CallCounts{{"forward", 2}, {"backward", 2}}));
  ExpectEager<TwoNorms>(model, inputs);
}

// A layer with a tensor that the constructor captured.
struct Captured : torch::nn::Module {
  explicit Captured(double value = 2) : table(torch::full({4}, value, torch::kDouble)) {}
  at::Tensor forward(at::Tensor x) { return (x * table).sin(); }
  at::Tensor table;
};
struct TwoCaptured : torch::nn::Module {
  at::Tensor forward(at::Tensor x) { return COTAN_BLOCK(second, COTAN_BLOCK(first, x)); }
  Captured first{2}, second{3};
};

TEST(ModuleBlocksTest, CapturedTensorsArePartOfTheIdentity) {
  ExpectEagerWithBlocks<TwoCaptured>(4, {{"forward", 2}, {"backward", 2}});
}

// A layer that may be frozen while it runs.
struct Freezing : Affine {
  at::Tensor forward(at::Tensor x) {
    weight.set_requires_grad(!is_frozen);
    const at::Tensor y = Affine::forward(x);
    weight.set_requires_grad(true);
    return y;
  }
  bool is_frozen = false;
};
struct EveryOtherFrozen : torch::nn::Module {
  EveryOtherFrozen() {
    for (int i = 0; i < 4; ++i) {
      layers.push_back(register_module("layer" + std::to_string(i), std::make_shared<Freezing>()));
      layers.back()->is_frozen = i % 2 != 0;
    }
  }
  at::Tensor forward(at::Tensor x) {
    for (const auto& layer : layers) x = COTAN_BLOCK(layer, x);
    return x;
  }
  std::vector<std::shared_ptr<Freezing>> layers;
};

TEST(ModuleBlocksTest, FrozenParametersArePartOfTheIdentity) {
  ExpectEager<EveryOtherFrozen>(Compiling<EveryOtherFrozen>({Leaf(1, {3, 4})}, {.eval = false}), {Leaf(1, {3, 4})});
}

// A layer that changes a module's mode for an op, after one in which layers differ.
struct Evaluating : torch::nn::Module {
  at::Tensor forward(at::Tensor x) {
    const bool was_training = norm->is_training();
    norm->eval();
    const at::Tensor y = is_special ? norm(x).cos() : norm(x).sin();
    norm->train(was_training);
    return y + norm(x);
  }
  torch::nn::BatchNorm1d norm = [this] {
    torch::nn::BatchNorm1d made(4);
    made->to(torch::kDouble);
    return register_module("norm", made);
  }();
  bool is_special = false;
};
struct TwoEvaluating : torch::nn::Module {
  TwoEvaluating() { second->is_special = true; }
  at::Tensor forward(at::Tensor x) { return COTAN_BLOCK(second, COTAN_BLOCK(first, x)); }
  std::shared_ptr<Evaluating> first = register_module("first", std::make_shared<Evaluating>());
  std::shared_ptr<Evaluating> second = register_module("second", std::make_shared<Evaluating>());
};

TEST(ModuleBlocksTest, ModesOfModulesStayWhereCallsDiffer) {
  ExpectEager<TwoEvaluating>(Compiling<TwoEvaluating>({Leaf(1, {5, 4})}, {.eval = false}), {Leaf(1, {5, 4})});
}

// Prints.
struct Printing : torch::nn::Module {
  at::Tensor forward(at::Tensor x) {
    const auto body = [](at::Tensor t) {
      aot::Print(t, "value");
      return t.sin();
    };
    return COTAN_BLOCK(body, COTAN_BLOCK(body, x));
  }
};

TEST(ModuleBlocksTest, EffectsAreInlinedWithTheReason) {
  const aot::CompiledModel model = Compiling<Printing>({Leaf(1, {3, 4})});
  EXPECT_EQ(CountBlocks(model).blocks, 0);
  EXPECT_THAT(model.inlined_blocks(), Each(HasSubstr("it has effects")));
}

// Adds the row that begins with the largest number: the only one of weight, so that the draw is certain.
struct Picking : torch::nn::Module {
  at::Tensor forward(at::Tensor x) {
    const auto body = [](at::Tensor t) {
      const at::Tensor begins = t.detach().select(1, 0);
      const at::Tensor weights = (begins == begins.max()).to(torch::kDouble);
      return t.sin() + t.index_select(0, at::multinomial(weights, 3, /*replacement=*/true));
    };
    return COTAN_BLOCK(body, COTAN_BLOCK(body, x));
  }
};

TEST(ModuleBlocksTest, DrawsByWeightAreShared) {
  const Tensors inputs{Leaf(1, {3, 4})};
  const aot::CompiledModel model = Compiling<Picking>(inputs, {.eval = false});
  EXPECT_EQ(CountBlocks(model).calls, (CallCounts{{"forward", 2}, {"backward", 2}}));
  EXPECT_THAT(model.inlined_blocks(), IsEmpty());
  ExpectEager<Picking>(model, inputs);
}

}  // namespace
}  // namespace cotan::testing
