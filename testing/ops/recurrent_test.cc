// SPDX-License-Identifier: Apache-2.0

// Compares recurrent layers, through the whole compiler, with LibTorch: results and gradients.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/compile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/ops/function_runner.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

constexpr int64_t kInput = 5, kHidden = 20;

struct Layer {
  std::string kind;  // "lstm", "gru", "rnn_tanh", "rnn_relu"
  int64_t num_layers = 1;
  bool has_biases = true;
  bool bidirectional = false;
  bool batch_first = false;
  int64_t projection = 0;  // of an LSTM
  int64_t steps = 6;
  int64_t batch = 3;
};

std::string NameOf(const Layer& layer) {
  return absl::StrCat(layer.kind, " x", layer.num_layers, layer.has_biases ? "" : " without biases",
                      layer.bidirectional ? " both ways" : "", layer.batch_first ? " batch first" : "",
                      layer.projection > 0 ? " projected" : "", " ", layer.steps, " steps of ", layer.batch);
}

// Input, states, weights; uniform, so that halves stay accurate.
Tensors InputsOf(const Layer& layer, at::ScalarType dtype) {
  const int64_t directions = layer.bidirectional ? 2 : 1, cells = layer.num_layers * directions;
  const int64_t out = layer.projection > 0 ? layer.projection : kHidden;
  const int64_t gates = (layer.kind == "lstm" ? 4 : layer.kind == "gru" ? 3 : 1) * kHidden;
  const auto draw = [&](std::vector<int64_t> sizes, double range) {
    return ((at::rand(sizes) * 2 - 1) * range).to(dtype);
  };
  Tensors inputs = {layer.batch_first ? draw({layer.batch, layer.steps, kInput}, 1)
                                      : draw({layer.steps, layer.batch, kInput}, 1)};
  inputs.push_back(draw({cells, layer.batch, out}, 1));
  if (layer.kind == "lstm") inputs.push_back(draw({cells, layer.batch, kHidden}, 1));
  for (int64_t i = 0; i < cells; ++i) {
    inputs.push_back(draw({gates, i < directions ? kInput : out * directions}, 0.3));
    inputs.push_back(draw({gates, out}, 0.3));
    if (layer.has_biases) inputs.insert(inputs.end(), {draw({gates}, 0.3), draw({gates}, 0.3)});
    if (layer.projection > 0) inputs.push_back(draw({out, kHidden}, 0.3));
  }
  return inputs;
}

Tensors Compute(const Layer& layer, const Tensors& inputs) {
  const Tensors weights(inputs.begin() + (layer.kind == "lstm" ? 3 : 2), inputs.end());
  const auto run = [&](auto function) {
    const auto [output, state] = function(inputs[0], inputs[1], weights, layer.has_biases, layer.num_layers, 0.0, true,
                                          layer.bidirectional, layer.batch_first);
    return Tensors{output, state};
  };
  if (layer.kind == "gru") return run([](auto... x) { return at::gru(x...); });
  if (layer.kind == "rnn_tanh") return run([](auto... x) { return at::rnn_tanh(x...); });
  if (layer.kind == "rnn_relu") return run([](auto... x) { return at::rnn_relu(x...); });
  const auto [output, hidden, cell] = at::lstm(inputs[0], Tensors{inputs[1], inputs[2]}, weights, layer.has_biases,
                                               layer.num_layers, 0.0, true, layer.bidirectional, layer.batch_first);
  return {output, hidden, cell};
}

void ExpectLayer(const Layer& layer, at::ScalarType dtype, const Tensors& inputs) {
  SCOPED_TRACE(absl::StrCat(at::toString(dtype), " ", NameOf(layer)));
  const FunctionOutcome outcome =
      RunFunctionBothWays([&](const Tensors& x) { return Compute(layer, x); }, inputs, {.tolerance = kMatmul});
  EXPECT_EQ(outcome.forward.verdict, Verdict::kAgrees) << outcome.forward.message;
  EXPECT_EQ(outcome.backward.verdict, Verdict::kAgrees) << outcome.backward.message;
}

std::vector<Layer> Layers() {
  std::vector<Layer> layers = {{.kind = "lstm", .projection = 7}};
  for (const std::string kind : {"lstm", "gru", "rnn_tanh", "rnn_relu"}) {
    layers.push_back({.kind = kind});
    layers.push_back({.kind = kind, .num_layers = 2, .bidirectional = true, .batch_first = true});
    layers.push_back({.kind = kind, .has_biases = false, .bidirectional = true});
    layers.push_back({.kind = kind, .batch_first = true, .steps = 1, .batch = 1});
  }
  return layers;
}

TEST(RecurrentTest, LayersAgreeWithLibTorchInAllDtypes) {
  at::manual_seed(21);
  for (const Layer& layer : Layers()) {
    for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kBFloat16, at::kHalf}) {
      ExpectLayer(layer, dtype, InputsOf(layer, dtype));
    }
  }
}

// Sequences and weights that are not row-major.
TEST(RecurrentTest, LayersAgreeWithLibTorchOnAnyStrides) {
  at::manual_seed(22);
  for (const std::string kind : {"lstm", "gru", "rnn_tanh"}) {
    const Layer layer = {.kind = kind};
    Tensors inputs = InputsOf(layer, at::kFloat);
    inputs[0] = at::rand({kInput, layer.batch, layer.steps}).permute({2, 1, 0});
    inputs[1] = at::rand({1, 1, kHidden}).expand({1, layer.batch, kHidden});
    inputs.back() = inputs.back().flip(0);
    Tensors& weights = inputs;
    const size_t hidden_weight = kind == "lstm" ? 4 : 3;
    weights[hidden_weight] = weights[hidden_weight].t().contiguous().t();
    ExpectLayer(layer, at::kFloat, inputs);
  }
}

// A loss that depends on the last states only, and on one of them.
TEST(RecurrentTest, LossesOfStatesAloneHaveGradients) {
  at::manual_seed(23);
  const Layer layer = {.kind = "lstm", .num_layers = 2, .bidirectional = true};
  const Tensors inputs = InputsOf(layer, at::kFloat);
  for (const size_t which : {1, 2}) {
    const FunctionOutcome outcome = RunFunctionBothWays(
        [&](const Tensors& x) { return Tensors{Compute(layer, x)[which].exp()}; }, inputs, {.tolerance = kMatmul});
    EXPECT_EQ(outcome.forward.verdict, Verdict::kAgrees) << outcome.forward.message;
    EXPECT_EQ(outcome.backward.verdict, Verdict::kAgrees) << outcome.backward.message;
  }
}

// A gradient penalty, which needs second derivatives.
TEST(RecurrentTest, SupportsDoubleBackward) {
  at::manual_seed(24);
  for (const std::string kind : {"lstm", "gru", "rnn_tanh"}) {
    SCOPED_TRACE(kind);
    const Layer layer = {.kind = kind, .bidirectional = true, .steps = 3};
    const auto penalty = [&](const Tensors& x) {
      const at::Tensor input = x[0].requires_grad() ? x[0] : x[0].detach().requires_grad_();
      Tensors inputs = x;
      inputs[0] = input;
      const at::Tensor loss = Compute(layer, inputs)[0].pow(2).sum();
      const at::Tensor gradient = torch::autograd::grad({loss}, {input}, {}, true, /*create_graph=*/true)[0];
      return Tensors{gradient.pow(2).sum()};
    };
    const FunctionOutcome outcome =
        RunFunctionBothWays(penalty, InputsOf(layer, at::kDouble), {.tolerance = 16 * kMatmul});
    EXPECT_EQ(outcome.backward.verdict, Verdict::kAgrees) << outcome.backward.message;
  }
}

TEST(RecurrentTest, LongSequencesMakeSmallPrograms) {
  const Layer layer = {.kind = "lstm", .num_layers = 2, .bidirectional = true, .steps = 200};
  Tensors inputs = InputsOf(layer, at::kFloat);
  for (at::Tensor& input : inputs) input.requires_grad_();
  aot::CompileOptions options;
  options.debug.store_references = false;
  const auto model = aot::CompileFunction([&](const Tensors& x) { return Compute(layer, x); }, inputs, options);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->methods().size(), 2u);
  for (const aot::MethodSummary& method : model->methods()) EXPECT_LT(method.runtime_ops, 100) << method.name;
}

TEST(RecurrentTest, RejectsOperandsThatLibTorchRejects) {
  for (const std::string kind : {"lstm", "gru", "rnn_relu"}) {
    const Layer layer = {.kind = kind};
    const auto refuses = [&](const Tensors& inputs) {
      return aot::CompileFunction([&](const Tensors& x) { return Compute(layer, x); }, inputs, {}).status().code() ==
             absl::StatusCode::kInvalidArgument;
    };
    Tensors inputs = InputsOf(layer, at::kFloat);
    inputs[0] = inputs[0].narrow(0, 0, 0);
    EXPECT_TRUE(refuses(inputs)) << "no steps";
    inputs = InputsOf(layer, at::kFloat);
    inputs[0] = inputs[0][0];
    EXPECT_TRUE(refuses(inputs)) << "no batch";
    inputs = InputsOf(layer, at::kFloat);
    inputs[1] = inputs[1].narrow(1, 0, 1);
    EXPECT_TRUE(refuses(inputs)) << "a state that broadcasts";
    inputs = InputsOf(layer, at::kFloat);
    inputs.pop_back();
    EXPECT_TRUE(refuses(inputs)) << "a missing bias";
    inputs = InputsOf(layer, at::kFloat);
    inputs[1] = inputs[1].to(at::kLong);
    EXPECT_TRUE(refuses(inputs)) << "a state of integers";
  }
}

TEST(RecurrentTest, RejectsPackedSequencesByName) {
  const Layer layer = {.kind = "gru"};
  const Tensors inputs = InputsOf(layer, at::kFloat);
  const at::Tensor batch_sizes = at::tensor({3, 3, 2, 1}, at::kLong);
  const auto packed = [&](const Tensors& x) {
    const auto [output, state] = at::gru(x[0].flatten(0, 1).narrow(0, 0, 9), batch_sizes, x[1],
                                         Tensors(x.begin() + 2, x.end()), true, 1, 0.0, true, false);
    return Tensors{output, state};
  };
  const absl::Status status = aot::CompileFunction(packed, inputs, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("aten.gru.data: the number of steps and rows of a packed sequence depends on data"));
}

}  // namespace
}  // namespace cotan::testing
