// SPDX-License-Identifier: Apache-2.0

// Unused results, writes in the function and in its backward, and values that are computed again,
// in compiled artifacts beside LibTorch eager. The issues of cases.txt.
#include <ATen/autocast_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "runtime/autograd/engine.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::vector<aot::CompileOptions> Partitions() {
  std::vector<aot::CompileOptions> all(5);
  all[0].partitioner = aot::Partitioner::kDefault;
  for (size_t i = 1; i < all.size(); ++i) all[i].activation_memory_budget = 1.5 - 0.5 * static_cast<double>(i);
  all[4].activation_memory_budget = 0.25;
  return all;
}

Compiled Compile(const aot::TensorFunction& function, const Tensors& examples,
                 const aot::CompileOptions& options = {}) {
  const auto model = aot::CompileFunction(function, examples, options);
  EXPECT_TRUE(model.ok()) << model.status();
  auto compiled = Compiled::Load(*model);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

// Expects results, gradients for tangents of 1, and what arguments hold afterwards to be those of eager.
void ExpectEager(const aot::TensorFunction& function, const Tensors& given, const aot::CompileOptions& options = {}) {
  Compiled f = Compile(function, Copies(given), options);
  const Tensors inputs = Copies(given);
  const Variables ours = ToVariables(given);
  const Tensors expected = function(inputs);
  const Variables results = f(ours);
  ASSERT_EQ(results.size(), expected.size());
  Tensors eager_roots, eager_tangents;
  Variables roots;
  std::vector<Tensor> tangents;
  for (size_t i = 0; i < results.size(); ++i) {
    ExpectNear(ToTorch(results[i].tensor()), expected[i].detach());
    EXPECT_EQ(results[i].requires_grad(), expected[i].requires_grad()) << i;
    if (!expected[i].requires_grad()) continue;
    roots.push_back(results[i]);
    tangents.push_back(*f.ops().Ones(DType::kFloat64, results[i].sizes()));
    eager_roots.push_back(expected[i]);
    eager_tangents.push_back(torch::ones_like(expected[i]));
  }
  torch::autograd::backward(eager_roots, eager_tangents);
  const absl::Status ran = autograd::Backward(roots, tangents, f.ops());
  ASSERT_TRUE(ran.ok()) << ran;
  for (size_t i = 0; i < ours.size(); ++i) {
    SCOPED_TRACE(::testing::Message() << "argument " << i);
    ExpectNear(ToTorch(ours[i].tensor()), inputs[i].detach());
    ASSERT_EQ(ours[i].grad().defined(), inputs[i].grad().defined());
    if (inputs[i].grad().defined()) ExpectNear(ToTorch(ours[i].grad().tensor()), inputs[i].grad());
  }
}

TEST(UnusedResultsTest, GiveNoGradient) {
  const auto parts = [](const Tensors& in) -> Tensors { return {in[0].exp(), in[1].sin()}; };
  Compiled f = Compile(parts, {Leaf(0, {3}), Leaf(1, {3})});
  const Variable x = ToVariable(Leaf(0, {3})), y = ToVariable(Leaf(1, {3}));
  const Variables out = f({x, y});
  ASSERT_TRUE(autograd::Backward({out[0]}, {ToCotan(torch::ones({3}))}, f.ops()).ok());
  ExpectNear(ToTorch(x.grad().tensor()), Constant(0, {3}).exp());
  EXPECT_FALSE(y.grad().defined());
}

TEST(WrittenValuesTest, ADetachedAliasSeesTheWriteAndTheGradientIsThatOfTheWrite) {
  const auto function = [](const Tensors& in) -> Tensors {
    at::Tensor a = 2 * in[0];
    const at::Tensor detached = a.detach();
    a.mul_(2);
    return {a, detached + 0};
  };
  for (const aot::CompileOptions& options : Partitions()) ExpectEager(function, {Leaf(0, {1})}, options);
  Compiled f = Compile(function, {Leaf(0, {1})});
  const Variable x = *Variable::Leaf(ToCotan(torch::ones({1})));
  ASSERT_TRUE(autograd::Backward({f({x})[0]}, {ToCotan(torch::ones({1}))}, f.ops()).ok());
  EXPECT_THAT(*x.grad().tensor().ToVector<double>(), ElementsAre(4));
}

TEST(WrittenValuesTest, AColumnThatIsAddedToTwiceHasBothGradients) {
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor y = in[0] * 1;
    for (int i = 0; i < 2; ++i) y.select(1, 0).add_(in[1].abs());
    return {y};
  };
  const at::Tensor x2 = (Constant(1, {4}) - 0.6).set_requires_grad(true);
  for (const aot::CompileOptions& options : Partitions()) ExpectEager(function, {Leaf(0, {4, 3}), x2}, options);
}

// A repeated op must read the value before the write.
TEST(WrittenValuesTest, WhatIsWrittenInPlaceIsComputedAgainFromItsOldValue) {
  const auto function = [](const Tensors& in) -> Tensors {
    at::Tensor h = in[0].cos();
    h.add_(1).mul_(in[0]);
    const at::Tensor k = h * 2;
    h.exp_();
    return {k * h};
  };
  for (const aot::CompileOptions& options : Partitions()) ExpectEager(function, {Leaf(0, {5})}, options);
}

TEST(WrittenValuesTest, AnInputThatIsWrittenLaterHasItsOldValueInTheBackward) {
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor y = in[0].sin() * in[1];
    at::Tensor written = in[0];
    written.add_(1);
    return {y};
  };
  for (const aot::CompileOptions& options : Partitions()) {
    ExpectEager(function, {Constant(0, {5}), Leaf(1, {5})}, options);
  }
}

// The user, or another function, writes an argument between forward and backward: the forward's value, or a refusal.
TEST(WrittenValuesTest, AnArgumentThatIsWrittenBeforeTheBackwardIsKnown) {
  const auto function = [](const Tensors& in) -> Tensors { return {in[0].sin() * in[1], in[0] * in[1]}; };
  const auto writer = [](const Tensors& in) -> Tensors {
    at::Tensor written = in[0];
    written.add_(1);
    return {written * 1};
  };
  Compiled write = Compile(writer, {Constant(0, {5})});
  for (const aot::CompileOptions& options : Partitions()) {
    for (const bool by_user : {true, false}) {
      Compiled f = Compile(function, {Constant(0, {5}), Leaf(1, {5})}, options);
      Variable buffer = ToVariable(Constant(0, {5}));
      const Variable w = ToVariable(Leaf(1, {5}));
      const Variables out = f({buffer, w});
      if (by_user) {
        ASSERT_TRUE(buffer.CopyInPlace(ToVariable(Constant(7, {5})), f.ops()).ok());
      } else {
        write({buffer});
      }
      const Tensor one = ToCotan(torch::ones({5}));
      const absl::Status ran = autograd::Backward(out, {one, one}, f.ops());
      EXPECT_EQ(ran.code(), absl::StatusCode::kFailedPrecondition) << "the product needs the argument itself";
      EXPECT_THAT(ran.message(), HasSubstr("modified by an inplace operation"));
      EXPECT_FALSE(w.grad().defined());
    }
  }
}

// Saves its result and writes to it in the backward.
struct WritesItsResult : torch::autograd::Function<WritesItsResult> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    const at::Tensor y = x.exp();
    context->saved_data["y"] = y.detach();
    return y;
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& tangents) {
    at::Tensor y = context->saved_data["y"].toTensor();
    const at::Tensor gradient = tangents[0] * y;
    y.mul_(0);
    return {gradient};
  }
};

TEST(WrittenValuesTest, AResultThatIsSavedMayBeWrittenInTheBackward) {
  const auto function = [](const Tensors& in) -> Tensors { return {WritesItsResult::apply(in[0]) * 2}; };
  const auto model = aot::CompileFunction(function, {Leaf(0, {3})}, {});
  ASSERT_TRUE(model.ok()) << model.status();
  ExpectEager(function, {Leaf(0, {3})});

  // The caller would see the write to a result itself.
  const auto whole = [](const Tensors& in) -> Tensors { return {WritesItsResult::apply(in[0])}; };
  const absl::Status refused = Compiled::Function(whole, {Leaf(0, {3})}, 1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("'output.0': the backward writes to it"));
}

// Hooks belong to the version at which they were added.
TEST(WrittenValuesTest, HooksSeeTheGradientOfTheirVersion) {
  const auto twice_in_place = [](const Tensors& in) -> Tensors {
    at::Tensor x = in[0];
    x.mul_(2);
    return {x + 0};
  };
  Compiled f = Compile(twice_in_place, {Leaf(0, {2}) * 1});
  const Variable a = ToVariable(Leaf(0, {2}));
  Compiled twice = Compile([](const Tensors& in) -> Tensors { return {in[0] * 2}; }, {Leaf(0, {2})});
  Variable x = twice({a})[0];
  std::vector<std::vector<double>> seen;
  const auto note = [&](const Tensor& gradient) -> absl::StatusOr<Tensor> {
    seen.push_back(*gradient.ToVector<double>());
    return gradient;
  };
  ASSERT_TRUE(x.AddHook(note).ok());
  f({x});
  ASSERT_TRUE(x.AddHook(note).ok());
  const Tensor one = ToCotan(torch::ones({2}));
  ASSERT_TRUE(autograd::Backward({x}, {one}, f.ops()).ok());
  EXPECT_THAT(seen, ElementsAre(ElementsAre(1, 1), ElementsAre(2, 2)));
  ExpectNear(ToTorch(a.grad().tensor()), 4 * torch::ones({2}, torch::kDouble));
}

// --- Autocast ------------------------------------------------------------------------------------------------------

// A product in f32 inside a function under autocast.
TEST(InnerAutocastTest, ABlockWithoutAutocastHasFullGradients) {
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor h = in[0].mm(in[1]);
    const bool enabled = at::autocast::is_autocast_enabled(at::kCPU);
    at::autocast::set_autocast_enabled(at::kCPU, false);
    const at::Tensor y = h.to(at::kFloat).mm(in[2]);
    at::autocast::set_autocast_enabled(at::kCPU, enabled);
    return {y};
  };
  const auto leaf = [](int seed, at::IntArrayRef sizes) {
    return Constant(seed, sizes).to(at::kFloat).set_requires_grad(true);
  };
  const Tensors given = {leaf(0, {4, 8}), leaf(1, {8, 8}), leaf(2, {8, 3})};
  aot::CompileOptions options;
  options.tracing.autocast = DType::kBFloat16;
  const auto model = aot::CompileFunction(function, given, options);
  ASSERT_TRUE(model.ok()) << model.status();
  auto f = Compiled::Load(*model);
  ASSERT_TRUE(f.ok()) << f.status();
  Variables inputs;
  for (const at::Tensor& tensor : given) {
    const float* data = tensor.const_data_ptr<float>();
    inputs.push_back(
        *Variable::Leaf(*Tensor::From<float>(std::vector<float>(data, data + tensor.numel()), tensor.sizes().vec())));
  }
  const Variable y = (*f)(inputs)[0];
  ASSERT_EQ(y.dtype(), DType::kFloat32);
  ASSERT_TRUE(autograd::Backward({y}, {*f->ops().Ones(DType::kFloat32, {4, 3})}, f->ops()).ok());
  // h, as autocast computes it, times ones.
  const at::Tensor h = given[0].detach().to(at::kBFloat16).mm(given[1].detach().to(at::kBFloat16)).to(at::kFloat);
  const at::Tensor expected = h.t().mm(torch::ones({4, 3}));
  const at::Tensor actual = torch::tensor(*inputs[2].grad().tensor().ToVector<float>()).view({8, 3});
  EXPECT_LT(((actual - expected).abs().max() / expected.abs().max()).item<float>(), 1e-6);
}

}  // namespace
}  // namespace cotan::testing
