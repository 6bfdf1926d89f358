// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/recurrent_layer.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "aot/capture/autocast.h"
#include "aot/decompositions/trace_scope.h"
#include "base/dtype.h"

namespace cotan::aot {
namespace {

using Tensors = std::vector<at::Tensor>;
using OptionalTensor = std::optional<at::Tensor>;

constexpr int64_t kSteps = 4, kBatch = 3, kHidden = 5;

struct Kind {
  RecurrentCell cell;
  int64_t gates;
};
constexpr Kind kKinds[] = {
    {RecurrentCell::kRnnTanh, 1}, {RecurrentCell::kRnnRelu, 1}, {RecurrentCell::kLstm, 4}, {RecurrentCell::kGru, 3}};

RecurrentLayer RandomLayer(const Kind& kind, bool reverse) {
  const auto draw = [](at::IntArrayRef sizes) { return (at::randn(sizes, at::kDouble) * 0.4).requires_grad_(); };
  RecurrentLayer layer;
  layer.cell = kind.cell;
  layer.reverse = reverse;
  layer.projected = draw({kSteps, kBatch, kind.gates * kHidden});
  layer.weight = draw({kind.gates * kHidden, kHidden});
  if (kind.cell == RecurrentCell::kGru) layer.bias = draw({kind.gates * kHidden});
  layer.initial.hidden = draw({kBatch, kHidden});
  if (kind.cell == RecurrentCell::kLstm) layer.initial.cell = draw({kBatch, kHidden});
  return layer;
}

Tensors OperandsOf(const RecurrentLayer& layer) {
  Tensors operands = {layer.projected, layer.weight, layer.initial.hidden};
  if (layer.initial.cell.defined()) operands.push_back(layer.initial.cell);
  if (layer.bias.defined()) operands.push_back(layer.bias);
  return operands;
}

// Returns a loss that depends on all results.
at::Tensor LossOf(const RecurrentResult& result) {
  at::Tensor loss = result.hidden.pow(3).sum() + result.last.hidden.sin().sum();
  if (result.last.cell.defined()) loss = loss + result.last.cell.pow(2).sum();
  return loss;
}

// Adds an identity projection: the layer is unrolled step by step.
RecurrentLayer StepByStep(const RecurrentLayer& layer) {
  RecurrentLayer result = layer;
  result.projection = at::eye(kHidden, at::kDouble);
  return result;
}

class RecurrentLayerTest : public ::testing::Test {
 protected:
  RecurrentLayerTest() {
    RegisterTracing();
    at::manual_seed(4);
  }
};

TEST_F(RecurrentLayerTest, GradientsAreThoseOfFiniteDifferences) {
  for (const Kind& kind : kKinds) {
    for (const bool reverse : {false, true}) {
      SCOPED_TRACE(static_cast<int>(kind.cell) * 2 + reverse);
      const RecurrentLayer layer = RandomLayer(kind, reverse);
      const Tensors operands = OperandsOf(layer);
      const Tensors gradients = torch::autograd::grad({LossOf(RunRecurrentLayer(layer))}, operands);
      const at::NoGradGuard no_grad;
      for (size_t i = 0; i < operands.size(); ++i) {
        at::Tensor flat = operands[i].view(-1);
        for (int64_t k = 0; k < flat.size(0); k += 3) {
          const double at = flat[k].item<double>();
          flat[k] = at + 1e-6;
          const double above = LossOf(RunRecurrentLayer(layer)).item<double>();
          flat[k] = at - 1e-6;
          const double below = LossOf(RunRecurrentLayer(layer)).item<double>();
          flat[k] = at;
          const double expected = (above - below) / 2e-6;
          EXPECT_NEAR(gradients[i].flatten()[k].item<double>(), expected, 1e-5 * std::max(1.0, std::abs(expected)));
        }
      }
    }
  }
}

TEST_F(RecurrentLayerTest, DerivativesOfDerivativesAreThoseOfTheSteps) {
  const RecurrentLayer layer = RandomLayer(kKinds[2], /*reverse=*/true);
  const Tensors operands = OperandsOf(layer);
  const auto second = [&](const RecurrentLayer& which) {
    const Tensors first = torch::autograd::grad({LossOf(RunRecurrentLayer(which))}, operands, {}, true, true);
    at::Tensor sum = first[0].pow(2).sum();
    for (const at::Tensor& gradient : first) sum = sum + gradient.pow(2).sum();
    return torch::autograd::grad({sum}, operands);
  };
  const Tensors actual = second(layer), expected = second(StepByStep(layer));
  for (size_t i = 0; i < operands.size(); ++i) EXPECT_TRUE(actual[i].allclose(expected[i], 1e-9, 1e-10)) << i;
}

TEST_F(RecurrentLayerTest, MixedDtypesOfAutocastBecomeTheOneOfTheState) {
  const AutocastScope autocast(DType::kBFloat16);
  RecurrentLayer lstm = RandomLayer(kKinds[2], false);
  lstm.projected = lstm.projected.to(at::kBFloat16);
  EXPECT_EQ(RunRecurrentLayer(lstm).hidden.scalar_type(), at::kDouble);
  RecurrentLayer plain = RandomLayer(kKinds[0], false);
  plain.projected = plain.projected.to(at::kBFloat16);
  EXPECT_EQ(RunRecurrentLayer(plain).hidden.scalar_type(), at::kBFloat16);
}

TEST_F(RecurrentLayerTest, ThrowsForSequencesWithoutStepsAndUnknownCells) {
  RecurrentLayer layer = RandomLayer(kKinds[3], false);
  using Results = std::tuple<at::Tensor, at::Tensor, at::Tensor>;
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("cotan::recurrent", "")
                             .typed<Results(const at::Tensor&, const at::Tensor&, const at::Tensor&,
                                            const OptionalTensor&, const OptionalTensor&, std::string_view, bool)>();
  EXPECT_THROW(op.call(layer.projected, layer.weight, layer.initial.hidden, {}, layer.bias, "mgu", false), c10::Error);
  layer.projected = layer.projected.narrow(0, 0, 0);
  EXPECT_THROW(RunRecurrentLayer(layer), c10::Error);
}

TEST_F(RecurrentLayerTest, ThrowsForOperandsThatDoNotFit) {
  for (const Kind& kind : kKinds) {
    RecurrentLayer layer = RandomLayer(kind, false);
    layer.initial.hidden = at::zeros({1, kHidden}, at::kDouble);
    EXPECT_THROW(RunRecurrentLayer(layer), c10::Error);
    layer = RandomLayer(kind, false);
    layer.weight = at::zeros({kind.gates * kHidden, kHidden + 1}, at::kDouble);
    EXPECT_THROW(RunRecurrentLayer(layer), c10::Error);
    layer = RandomLayer(kind, false);
    layer.projected = at::zeros({kSteps, kBatch, 1}, at::kDouble);
    EXPECT_THROW(RunRecurrentLayer(layer), c10::Error);
  }
  RecurrentLayer mixed = RandomLayer(kKinds[0], false);
  mixed.weight = mixed.weight.to(at::kFloat);
  EXPECT_THROW(RunRecurrentLayer(mixed), c10::Error);
  RecurrentLayer lstm = RandomLayer(kKinds[2], false);
  lstm.initial.cell = at::zeros({kBatch, 1}, at::kDouble);
  EXPECT_THROW(RunRecurrentLayer(lstm), c10::Error);
}

}  // namespace
}  // namespace cotan::aot
