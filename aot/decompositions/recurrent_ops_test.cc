// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/recurrent_ops.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <functional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/aotautograd/tracer.h"
#include "aot/capture/tensor_data.h"

namespace cotan::aot {
namespace {

constexpr int64_t kSteps = 5, kBatch = 3, kInput = 4, kHidden = 6;

struct Layer {
  std::string kind;  // "lstm", "gru", "rnn_tanh", "rnn_relu"
  int64_t num_layers = 1;
  bool has_biases = true;
  bool bidirectional = false;
  bool batch_first = false;
  int64_t projection = 0;  // of an LSTM
};

int64_t GatesOf(const Layer& layer) { return layer.kind == "lstm" ? 4 : layer.kind == "gru" ? 3 : 1; }

// Returns input, states and weights.
std::vector<at::Tensor> InputsOf(const Layer& layer) {
  const int64_t directions = layer.bidirectional ? 2 : 1;
  const int64_t out = layer.projection > 0 ? layer.projection : kHidden;
  const int64_t gates = GatesOf(layer) * kHidden;
  std::vector<at::Tensor> inputs = {layer.batch_first ? at::randn({kBatch, kSteps, kInput})
                                                      : at::randn({kSteps, kBatch, kInput})};
  inputs.push_back(at::randn({layer.num_layers * directions, kBatch, out}));
  if (layer.kind == "lstm") inputs.push_back(at::randn({layer.num_layers * directions, kBatch, kHidden}));
  for (int64_t i = 0; i < layer.num_layers; ++i) {
    for (int64_t direction = 0; direction < directions; ++direction) {
      inputs.push_back(at::randn({gates, i == 0 ? kInput : out * directions}));
      inputs.push_back(at::randn({gates, out}));
      if (layer.has_biases) inputs.insert(inputs.end(), {at::randn({gates}), at::randn({gates})});
      if (layer.projection > 0) inputs.push_back(at::randn({out, kHidden}));
    }
  }
  for (at::Tensor& input : inputs) input.mul_(0.5).requires_grad_();
  return inputs;
}

std::vector<at::Tensor> RunLayer(const Layer& layer, const std::vector<at::Tensor>& inputs) {
  const std::vector<at::Tensor> weights(inputs.begin() + (layer.kind == "lstm" ? 3 : 2), inputs.end());
  const auto run = [&](auto function) {
    const auto [output, state] = function(inputs[0], inputs[1], weights, layer.has_biases, layer.num_layers, 0.0, true,
                                          layer.bidirectional, layer.batch_first);
    return std::vector<at::Tensor>{output, state};
  };
  if (layer.kind == "gru") return run([](auto... x) { return at::gru(x...); });
  if (layer.kind == "rnn_tanh") return run([](auto... x) { return at::rnn_tanh(x...); });
  if (layer.kind == "rnn_relu") return run([](auto... x) { return at::rnn_relu(x...); });
  const auto [output, hidden, cell] =
      at::lstm(inputs[0], std::vector<at::Tensor>{inputs[1], inputs[2]}, weights, layer.has_biases, layer.num_layers,
               0.0, true, layer.bidirectional, layer.batch_first);
  return {output, hidden, cell};
}

TEST(RecurrentOpsTest, ComputeWhatLibTorchComputesAndItsGradients) {
  const std::vector<Layer> layers = {{.kind = "lstm"},
                                     {.kind = "lstm", .num_layers = 2, .bidirectional = true, .batch_first = true},
                                     {.kind = "lstm", .has_biases = false},
                                     {.kind = "lstm", .bidirectional = true, .projection = 2},
                                     {.kind = "gru"},
                                     {.kind = "gru", .num_layers = 2, .bidirectional = true, .batch_first = true},
                                     {.kind = "gru", .has_biases = false},
                                     {.kind = "rnn_tanh", .num_layers = 2, .bidirectional = true},
                                     {.kind = "rnn_relu", .has_biases = false, .batch_first = true}};
  at::manual_seed(5);
  for (const Layer& layer : layers) {
    SCOPED_TRACE(absl::StrCat(layer.kind, " of ", layer.num_layers, " layers"));
    const std::vector<at::Tensor> inputs = InputsOf(layer);
    const auto traced = Trace([&](const std::vector<at::Tensor>& x) { return RunLayer(layer, x); }, {}, inputs,
                              {.backward = TraceOptions::Backward::kOutputs});
    ASSERT_TRUE(traced.ok()) << traced.status();

    const std::vector<at::Tensor> expected = RunLayer(layer, inputs);
    ASSERT_EQ(traced->reference.outputs.size(), expected.size());
    std::vector<at::Tensor> tangents;
    for (size_t i = 0; i < expected.size(); ++i) {
      EXPECT_TRUE(FromTensorData(traced->reference.outputs[i]).allclose(expected[i], 1e-4, 1e-5)) << i;
      tangents.push_back(FromTensorData(traced->reference.tangents[i]));
    }
    const auto gradients = torch::autograd::grad(expected, inputs, tangents);
    for (size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_TRUE(FromTensorData(traced->reference.gradients[i]).allclose(gradients[i], 1e-3, 1e-4)) << i;
    }
  }
}

// The model unrolls cells itself; each writes to slices of its gates.
TEST(RecurrentOpsTest, CellsComputeWhatLibTorchComputesAndTheirGradients) {
  at::manual_seed(6);
  const auto cells = [](const std::vector<at::Tensor>& x) -> std::vector<at::Tensor> {
    const auto [hidden, cell] = at::lstm_cell(x[0], {x[1], x[2]}, x[3], x[4]);
    return {at::gru_cell(hidden, cell, x[5], x[6])};
  };
  std::vector<at::Tensor> inputs = {at::randn({kBatch, kInput}),       at::randn({kBatch, kHidden}),
                                    at::randn({kBatch, kHidden}),      at::randn({4 * kHidden, kInput}),
                                    at::randn({4 * kHidden, kHidden}), at::randn({3 * kHidden, kHidden}),
                                    at::randn({3 * kHidden, kHidden})};
  for (at::Tensor& input : inputs) input.requires_grad_();
  const auto traced = Trace(cells, {}, inputs, {.backward = TraceOptions::Backward::kOutputs});
  ASSERT_TRUE(traced.ok()) << traced.status();
  for (const Node& node : traced->graph.nodes()) EXPECT_NE(node.op, "aten.unsafe_split.Tensor");
  const std::vector<at::Tensor> expected = cells(inputs);
  EXPECT_TRUE(FromTensorData(traced->reference.outputs[0]).allclose(expected[0], 1e-4, 1e-5));
  const auto gradients = torch::autograd::grad(expected, inputs, {FromTensorData(traced->reference.tangents[0])});
  for (size_t i = 0; i < inputs.size(); ++i) {
    EXPECT_TRUE(FromTensorData(traced->reference.gradients[i]).allclose(gradients[i], 1e-3, 1e-4)) << i;
  }
}

// There is one op per layer and direction for any number of steps; a layer with a projection is unrolled.
TEST(RecurrentOpsTest, ALayerIsOneOp) {
  const auto count = [](const Layer& layer, const std::string& op) {
    const auto traced = Trace([&](const std::vector<at::Tensor>& x) { return RunLayer(layer, x); }, {}, InputsOf(layer),
                              {.backward = TraceOptions::Backward::kOutputs});
    EXPECT_TRUE(traced.ok()) << traced.status();
    return std::count_if(traced->graph.nodes().begin(), traced->graph.nodes().end(),
                         [&](const Node& node) { return node.op == op; });
  };
  const Layer layer = {.kind = "gru", .num_layers = 2, .bidirectional = true};
  EXPECT_EQ(count(layer, "cotan.recurrent.default"), 4);
  EXPECT_EQ(count(layer, "cotan.recurrent_backward.default"), 4);
  EXPECT_EQ(count({.kind = "lstm", .projection = 2}, "cotan.recurrent.default"), 0);
}

}  // namespace
}  // namespace cotan::aot
