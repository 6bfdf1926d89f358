// SPDX-License-Identifier: Apache-2.0

// Saved values whose memory a backward may overwrite, in compiled artifacts: which they are, and that gradients are
// those of LibTorch eager however often the backward runs. The rows G5 and R13 of cases.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/engine.h"
#include "runtime/execution/plan.h"
#include "runtime/execution/program.h"
#include "serialization/schema/tensor_type.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Texts = std::vector<std::string>;

Compiled Compile(const aot::TensorFunction& function, const Tensors& examples,
                 const aot::CompileOptions& options = {}) {
  const auto model = aot::CompileFunction(function, examples, options);
  EXPECT_TRUE(model.ok()) << model.status();
  auto compiled = Compiled::Load(*model);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

const serialization::Method& Forward(Compiled& f) {
  const Program& program = f.session().program();
  return program.method(*program.FindMethod("forward"));
}

// Returns the types of the saved values, and of those that are donated.
Texts Saved(Compiled& f) {
  const serialization::Method& forward = Forward(f);
  Texts types;
  for (int i = forward.outputs_size() - static_cast<int>(forward.num_saved()); i < forward.outputs_size(); ++i) {
    types.push_back(TensorTypeText(forward.values(static_cast<int>(forward.outputs(i))).type()));
  }
  return types;
}
Texts Donated(Compiled& f) {
  Texts types;
  for (const uint32_t i : Forward(f).metadata().saved().donated()) types.push_back(Saved(f)[i]);
  return types;
}

// Returns the gradients of sum <1, outputs> by eager.
Tensors EagerGradients(const aot::TensorFunction& function, const Tensors& given) {
  const Tensors inputs = Copies(given);
  Tensors sources, tangents;
  for (const at::Tensor& input : inputs) {
    if (input.requires_grad()) sources.push_back(input);
  }
  const Tensors outputs = function(inputs);
  for (const at::Tensor& output : outputs) tangents.push_back(torch::ones_like(output));
  return torch::autograd::grad(outputs, sources, tangents);
}

// Runs the backward `retained` times with the graph retained and then without, and expects the gradients of each.
void ExpectEager(Compiled& f, const aot::TensorFunction& function, const Tensors& given, int retained) {
  const Tensors expected = EagerGradients(function, given);
  const Variables inputs = ToVariables(given);
  Variables sources;
  for (const Variable& input : inputs) {
    if (input.requires_grad()) sources.push_back(input);
  }
  const Variables outputs = f(inputs);
  std::vector<Tensor> tangents;
  for (const Variable& output : outputs) tangents.push_back(*f.ops().Ones(DType::kFloat64, output.sizes()));
  for (int i = 0; i <= retained; ++i) {
    const auto gradients = autograd::Grad(outputs, sources, tangents, f.ops(), {.retain_graph = i < retained});
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    for (size_t j = 0; j < expected.size(); ++j) ExpectNear(ToTorch((*gradients)[j]), expected[j]);
  }
}

at::Tensor Signed(int seed, at::IntArrayRef sizes) { return (Constant(seed, sizes) - 0.7).set_requires_grad(true); }

aot::CompileOptions SavingAll() {
  aot::CompileOptions options;
  options.partitioner = aot::Partitioner::kDefault;
  return options;
}

TEST(DonatedValuesTest, WhatAResultSharesIsNotDonated) {
  const auto relu = [](const Tensors& in) -> Tensors { return {at::relu(in[0])}; };
  Compiled f = Compile(relu, {Signed(0, {3, 3})});
  for (const std::string& type : Donated(f)) EXPECT_EQ(type, "bool[3,3]");
  ExpectEager(f, relu, {Signed(0, {3, 3})}, 2);
  aot::CompileOptions dynamic;
  dynamic.dynamic_dims = {{0, 0, "n", 2, 16}};
  Compiled sized = Compile(relu, {Signed(0, {3, 3})}, dynamic);
  for (const std::string& type : Donated(sized)) EXPECT_EQ(type, "bool[s0,3]");
  for (const int64_t n : {3, 5, 3}) ExpectEager(sized, relu, {Signed(1, {n, 3})}, 1);

  const auto shifted = [](const Tensors& in) -> Tensors { return {at::relu(in[0]) + in[1]}; };
  Compiled g = Compile(shifted, {Signed(0, {3, 3}), Leaf(1, {3, 3})});
  EXPECT_THAT(Donated(g), ElementsAre("bool[3,3]"));
  ExpectEager(g, shifted, {Signed(0, {3, 3}), Leaf(1, {3, 3})}, 5);
}

// `activation` belongs to the caller, or is saved by the function that made it too.
TEST(DonatedValuesTest, WhatTheCallerOrAnotherNodeHoldsIsNotDonated) {
  const auto product = [](const Tensors& in) -> Tensors { return {in[0] * in[1]}; };
  Compiled p = Compile(product, {Leaf(0, {4}) * 1, Leaf(1, {4})});
  EXPECT_THAT(Donated(p), IsEmpty());
  for (const bool has_exp : {false, true}) {
    const auto activation = [&](const Tensors& in) -> Tensors {
      return {has_exp ? (in[0] + in[1]).exp() : in[0] + in[1]};
    };
    const auto both = [&](const Tensors& in) -> Tensors { return product({activation({in[0], in[1]})[0], in[2]}); };
    const Tensors given = {Leaf(0, {4}), Leaf(1, {4}), Leaf(2, {4})};
    Compiled a = Compile(activation, {given[0], given[1]});
    EXPECT_THAT(Donated(a), IsEmpty());
    const Variables in = ToVariables(given);
    const Variable made = a({in[0], in[1]})[0];
    const Variable y = p({made, in[2]})[0];
    const Tensors expected = EagerGradients(both, given);
    ASSERT_TRUE(autograd::Backward({y}, {ToCotan(torch::ones({4}))}, p.ops()).ok());
    for (size_t i = 0; i < 3; ++i) ExpectNear(ToTorch(in[i].grad().tensor()), expected[i]);
    ExpectNear(ToTorch(made.tensor()), activation({given[0], given[1]})[0].detach());
  }
}

TEST(DonatedValuesTest, OfAnArgumentAndAMaskTheMaskIsDonated) {
  const auto function = [](const Tensors& in) -> Tensors { return {in[0].view({3, 3}).mm(in[0]) + at::relu(in[1])}; };
  const Tensors given = {Leaf(0, {3, 3}), Signed(1, {3, 3})};
  Compiled f = Compile(function, given);
  EXPECT_THAT(Donated(f), ElementsAre("bool[3,3]"));
  ExpectEager(f, function, given, 2);
}

TEST(DonatedValuesTest, AResultIsNotDonatedThoughItIsSaved) {
  const auto function = [](const Tensors& in) -> Tensors {
    const at::Tensor v = in[0] + 123;
    return {v, v.sin()};
  };
  for (const aot::CompileOptions& options : {aot::CompileOptions(), SavingAll()}) {
    Compiled f = Compile(function, {Leaf(0, {6})}, options);
    const serialization::Method& forward = Forward(f);
    const int first_saved = forward.outputs_size() - static_cast<int>(forward.num_saved());
    for (const uint32_t i : forward.metadata().saved().donated()) {
      EXPECT_NE(forward.outputs(first_saved + static_cast<int>(i)), forward.outputs(0));
    }
    const Variables out = f({ToVariable(Leaf(0, {6}))});
    const std::vector<double> before = *out[0].tensor().ToVector<double>();
    const Tensor one = ToCotan(torch::ones({6}));
    ASSERT_TRUE(autograd::Backward(out, {one, one}, f.ops()).ok());
    EXPECT_EQ(*out[0].tensor().ToVector<double>(), before);
    ExpectEager(f, function, {Leaf(1, {6})}, 0);
  }
}

// The backward overwrites the sum, which is unobservable.
Tensors SineOfAProduct(const Tensors& in) { return {in[0].mm(in[1]).sin()}; }

TEST(DonatedValuesTest, ARetainedGraphKeepsItsValuesAndTheLastBackwardOverwritesThem) {
  const Tensors given = {Leaf(0, {8, 8}), Leaf(1, {8, 8})};
  Compiled f = Compile(SineOfAProduct, given, SavingAll());
  EXPECT_THAT(Donated(f), ElementsAre("f64[8,8]"));
  ExpectEager(f, SineOfAProduct, given, 5);
  EXPECT_EQ(f.function().stats().backwards, 6);
  EXPECT_EQ(f.function().stats().backwards_in_donated_memory, 1);
  // An ordinary backward first, then a retained one of a new call.
  ExpectEager(f, SineOfAProduct, given, 0);
  ExpectEager(f, SineOfAProduct, {Leaf(2, {8, 8}), Leaf(3, {8, 8})}, 3);
}

TEST(DonatedValuesTest, ABackwardWithHistoryMayBeTheFirst) {
  const Tensors given = {Leaf(0, {8, 8}), Leaf(1, {8, 8})};
  aot::CompileOptions options = SavingAll();
  options.order = 2;
  Compiled f = Compile(SineOfAProduct, given, options);
  const Tensors expected = EagerGradients(SineOfAProduct, given);
  const Variables in = ToVariables(given);
  const Variable y = f(in)[0];
  const Tensor one = ToCotan(torch::ones({8, 8}));
  const auto first = autograd::GradWithGraph({y}, in, {Variable(one)}, f.ops());
  ASSERT_TRUE(first.ok()) << first.status();
  for (const bool retain : {true, true, false}) {
    const auto again = autograd::Grad({y}, in, {one}, f.ops(), {.retain_graph = retain});
    ASSERT_TRUE(again.ok()) << again.status();
    for (size_t i = 0; i < 2; ++i) {
      ExpectNear(ToTorch((*first)[i].tensor()), expected[i]);
      ExpectNear(ToTorch((*again)[i]), expected[i]);
    }
  }
}

TEST(DonatedValuesTest, TheBackwardNeedsLessMemoryWhereItOverwrites) {
  constexpr int64_t kSize = 256;
  constexpr int64_t kBytes = kSize * kSize * 8;
  const Tensors given = {Leaf(0, {kSize, kSize}), Leaf(1, {kSize, kSize})};
  Compiled f = Compile(SineOfAProduct, given);
  ExpectEager(f, SineOfAProduct, given, 1);
  const Program& program = f.session().program();
  const auto peak = [&](std::vector<int> donated) {
    const auto plan = MakePlan(program, *program.FindMethod("backward"), {},
                               {.kernels = &CpuKernels(), .device = &HostDevice(), .threads = 1},
                               {.results = {}, .donated = std::move(donated)});
    EXPECT_TRUE(plan.ok()) << plan.status();
    return (*plan)->peak_bytes;
  };
  // Saved values are the first inputs of the backward.
  const auto& donated = Forward(f).metadata().saved().donated();
  EXPECT_LE(peak({donated.begin(), donated.end()}) + kBytes, peak({}));
}

// A backward that overwrites its first tangent with the second one.
struct OverwritesATangent : torch::autograd::Function<OverwritesATangent> {
  static Tensors forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return {x * 1, x * 1}; }
  static Tensors backward(torch::autograd::AutogradContext*, const Tensors& tangents) {
    at::Tensor first = tangents[0];
    first.copy_(tangents[1]);
    return {first};
  }
};

TEST(DonatedValuesTest, OneTensorAsBothTangentsIsNotWritten) {
  const auto function = [](const Tensors& in) -> Tensors { return OverwritesATangent::apply(in[0]); };
  const auto model = aot::CompileFunction(function, {Leaf(0, {3})}, {});
  ASSERT_TRUE(model.ok()) << model.status();
  Compiled f = *Compiled::Load(*model);
  const Variable x = ToVariable(Leaf(0, {3}));
  const Variables out = f({x});
  const Tensor tangent = ToCotan(torch::ones({3}));
  const absl::Status ran = autograd::Backward(out, {tangent, tangent}, f.ops());
  ASSERT_TRUE(ran.ok()) << ran;
  EXPECT_THAT(*x.grad().tensor().ToVector<double>(), ElementsAre(1, 1, 1));
  EXPECT_THAT(*tangent.ToVector<double>(), ElementsAre(1, 1, 1));
}

}  // namespace
}  // namespace cotan::testing
