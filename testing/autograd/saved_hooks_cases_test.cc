// SPDX-License-Identifier: Apache-2.0

// Saved-tensor hooks of compiled artifacts: hooks that are compiled into the program, and hooks of the host program.
// The rows G7 of cases.txt that testing/e2e:saved_tensor_hooks_test does not have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/saved_variable.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>
#include <torch/torch.h>

#include <exception>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/saved_tensor_hooks/saved_tensor_hooks.h"
#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/function_node.h"
#include "runtime/autograd/saved_tensor_hooks.h"
#include "runtime/autograd/saved_variable.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "testing/autograd/walked_and_captured.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<Compiled> Compile(const aot::TensorFunction& function, const Tensors& examples,
                                 aot::SavedTensorHooks hooks, int order = 1) {
  aot::CompileOptions options;
  hooks.filter = aot::HookFilter::kAll;
  hooks.min_elements = 0;
  options.saved_tensor_hooks = std::move(hooks);
  options.order = order;
  const auto model = aot::CompileFunction(function, examples, options);
  if (!model.ok()) return model.status();
  return Compiled::Load(*model);
}

at::Tensor Same(const at::Tensor& x) { return x; }

// Writes to what it saved.
struct OverwritesSaved : torch::autograd::Function<OverwritesSaved> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& x) {
    context->saved_data["x"] = x.sin();
    return x * 1;
  }
  static Tensors backward(torch::autograd::AutogradContext* context, const Tensors& tangents) {
    at::Tensor saved = context->saved_data["x"].toTensor();
    saved.mul_(3);
    return {tangents[0] * saved};
  }
};

TEST(SavedHooksCasesTest, WritesToWhatUnpackReturnsAreNotSeenByTheCaller) {
  const auto function = [](const Tensors& in) -> Tensors { return {OverwritesSaved::apply(in[0])}; };
  const auto twice = [](const at::Tensor& x) { return x * 2; };
  const auto half = [](const at::Tensor& x) { return x / 2; };
  for (const aot::SavedTensorHooks& hooks :
       {aot::MakeSavedTensorHooks(Same, Same), aot::MakeSavedTensorHooks(twice, half)}) {
    auto f = Compile(function, {Leaf(0, {4})}, hooks);
    ASSERT_TRUE(f.ok()) << f.status();
    const Variable x = ToVariable(Leaf(0, {4}));
    const Variable y = (*f)({x})[0];
    const Tensor one = ToCotan(torch::ones({4}));
    for (const bool retain : {true, false}) {
      const auto gradient = autograd::Grad({y}, {x}, {one}, f->ops(), {.retain_graph = retain});
      ASSERT_TRUE(gradient.ok()) << gradient.status();
      ExpectNear(ToTorch((*gradient)[0]), Constant(0, {4}).sin() * 3);
    }
    ExpectNear(ToTorch(x.tensor()), Constant(0, {4}));
    ExpectNear(ToTorch(y.tensor()), Constant(0, {4}));
    EXPECT_EQ(x.version(), 0u);
    EXPECT_EQ(y.version(), 0u);
  }
}

TEST(SavedHooksCasesTest, GradientsOfGradientsGoThroughHooks) {
  const auto cube = [](const Tensors& in) -> Tensors { return {in[0] * in[0] * in[0]}; };
  auto f = Compile(cube, {Leaf(0, {2})}, aot::MakeSavedTensorHooks(Same, Same), /*order=*/2);
  ASSERT_TRUE(f.ok()) << f.status();
  const Variable a = *Variable::Leaf(ToCotan(torch::tensor({2.0, -3.0}, torch::kDouble)));
  const Variable one(ToCotan(torch::ones({2})));
  const auto first = autograd::GradWithGraph({(*f)({a})[0]}, {a}, {one}, f->ops());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_THAT(*(*first)[0].tensor().ToVector<double>(), ElementsAre(12, 27));
  ASSERT_TRUE(autograd::Backward({(*first)[0]}, {one.tensor()}, f->ops()).ok());
  EXPECT_THAT(*a.grad().tensor().ToVector<double>(), ElementsAre(12, -18));
}

// --- hooks of the host program ------------------------------------------------------

using autograd::PackedData;
using autograd::SavedTensorHooksScope;

Tensor Times(const Tensor& x, double factor) {
  std::vector<double> values = *x.ToVector<double>();
  for (double& value : values) value *= factor;
  return *Tensor::From<double>(values, x.sizes());
}

// Multiplies what is packed and what is unpacked by these factors, and notes each call as "p" or "u".
autograd::SavedTensorHooks Factors(double pack, double unpack, std::string& log) {
  return {.pack = [=, &log](const Tensor& value) -> absl::StatusOr<PackedData> {
            log += 'p';
            return std::make_shared<Tensor>(Times(value, pack));
          },
          .unpack = [=, &log](const PackedData& data) -> absl::StatusOr<Tensor> {
            log += 'u';
            return Times(*static_cast<const Tensor*>(data.get()), unpack);
          }};
}

Compiled CompileOf(const aot::TensorFunction& function, const Tensors& examples,
                   const aot::CompileOptions& options = {}) {
  const auto model = aot::CompileFunction(function, examples, options);
  EXPECT_TRUE(model.ok()) << model.status();
  absl::StatusOr<Compiled> compiled = Compiled::Load(*model);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

Tensors Square(const Tensors& in) { return {in[0] * in[0]}; }

Variable LeafOf(std::vector<double> values) { return *Variable::Leaf(ToCotan(torch::tensor(values, torch::kDouble))); }
std::vector<double> GradOf(const Variable& variable) { return *variable.grad().tensor().ToVector<double>(); }
absl::Status BackwardOf(const Variables& roots, Compiled& f, bool retain_graph = false) {
  std::vector<Tensor> ones;
  for (const Variable& root : roots) ones.push_back(*f.ops().Ones(DType::kFloat64, root.sizes()));
  return autograd::Backward(roots, ones, f.ops(), {.retain_graph = retain_graph});
}

TEST(HostHooksTest, PackRunsInTheForwardAndUnpackInTheBackward) {
  Compiled product =
      CompileOf([](const Tensors& in) -> Tensors { return {in[0] * in[1]}; }, {Leaf(0, {2}), Constant(1, {2})});
  WalkedAndCaptured([&] {
    std::string log;
    const Variable x = LeafOf({1, 2}), y(ToCotan(torch::tensor({3.0, 4.0}, torch::kDouble)));
    Variables results;
    {
      const SavedTensorHooksScope scope(Factors(1, 1, log));
      results = product({x, y});
    }
    EXPECT_EQ(log, "p");  // y
    ASSERT_TRUE(BackwardOf(results, product, /*retain_graph=*/true).ok());
    EXPECT_EQ(log, "pu");
    ASSERT_TRUE(BackwardOf(results, product).ok());
    EXPECT_EQ(log, "puu");
    EXPECT_THAT(GradOf(x), ElementsAre(6, 8));
    const absl::Status freed = BackwardOf(results, product);
    EXPECT_EQ(freed.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(freed.message(), HasSubstr("retain_graph"));
  });
}

TEST(HostHooksTest, GradientsAreThoseOfWhatUnpackReturns) {
  Compiled square = CompileOf(Square, {Leaf(0, {2})});
  WalkedAndCaptured([&] {
    for (const auto& [pack, unpack, factor] : {std::tuple(2.0, 0.5, 2.0), std::tuple(2.0, 1.0, 4.0)}) {
      std::string log;
      const Variable a = LeafOf({1, -3});
      const SavedTensorHooksScope scope(Factors(pack, unpack, log));
      ASSERT_TRUE(BackwardOf(square({a}), square).ok());
      EXPECT_THAT(GradOf(a), ElementsAre(factor, -3 * factor));
    }
  });
}

TEST(HostHooksTest, OnlyTheInnermostPairActsAndAnEmptyOneSwitchesOff) {
  Compiled square = CompileOf(Square, {Leaf(0, {1})});
  WalkedAndCaptured([&] {
    std::string log;
    const Variable a = LeafOf({1}), b = LeafOf({1}), c = LeafOf({1});
    Variables roots;
    {
      const SavedTensorHooksScope outer(Factors(3, 3, log));
      {
        const SavedTensorHooksScope inner(Factors(5, 5, log));
        roots.push_back(square({a})[0]);
      }
      roots.push_back(square({b})[0]);
      const SavedTensorHooksScope none({});
      roots.push_back(square({c})[0]);
    }
    EXPECT_EQ(log, "pp");
    ASSERT_TRUE(BackwardOf(roots, square).ok());
    EXPECT_EQ(log, "ppuu");
    EXPECT_THAT(GradOf(a), ElementsAre(50));
    EXPECT_THAT(GradOf(b), ElementsAre(18));
    EXPECT_THAT(GradOf(c), ElementsAre(2));
  });
}

// AG-087.
TEST(HostHooksTest, HooksMayBeDisabledWithAText) {
  Compiled square = CompileOf(Square, {Leaf(0, {1})});
  WalkedAndCaptured([&] {
    std::string log;
    const Variable a = LeafOf({1});
    const auto refusal = [&] { return std::string(square.function().Call({a}).status().message()); };
    {
      const SavedTensorHooksScope off = SavedTensorHooksScope::Disable("not here");
      EXPECT_TRUE(off.status().ok()) << off.status();
      ASSERT_TRUE(BackwardOf(square({a}), square).ok());
      {
        const SavedTensorHooksScope hooks(Factors(3, 3, log));
        EXPECT_EQ(hooks.status().code(), absl::StatusCode::kFailedPrecondition);
        EXPECT_EQ(hooks.status().message(), "not here");
        EXPECT_EQ(refusal(), "not here");
      }
      {
        const SavedTensorHooksScope inner = SavedTensorHooksScope::Disable("nor here");
        const SavedTensorHooksScope none({}), hooks(Factors(3, 3, log));
        EXPECT_TRUE(inner.status().ok());
        EXPECT_EQ(hooks.status().message(), "nor here");
      }
      const SavedTensorHooksScope again(Factors(3, 3, log));
      EXPECT_EQ(again.status().message(), "not here");
    }
    EXPECT_EQ(log, "");
    const SavedTensorHooksScope hooks(Factors(3, 3, log));
    EXPECT_TRUE(hooks.status().ok());
    {
      const SavedTensorHooksScope late = SavedTensorHooksScope::Disable("too late");
      EXPECT_EQ(late.status().message(), "too late");
      EXPECT_EQ(refusal(), "too late");
    }
    ASSERT_TRUE(BackwardOf(square({a}), square).ok());
    EXPECT_EQ(log, "pu");
    EXPECT_THAT(GradOf(a), ElementsAre(2 + 18));
  });
}

struct EagerSavedHooks final : torch::autograd::SavedVariableHooks {
  void call_pack_hook(const at::Tensor& tensor) override { packed = tensor.detach() * 3; }
  at::Tensor call_unpack_hook() override { return packed; }
  at::Tensor packed;
};

// Returns the error of registering hooks of a value that LibTorch saves.
std::string EagerRefusal(torch::autograd::SavedVariable& saved) {
  try {
    saved.register_hooks(std::make_unique<EagerSavedHooks>());
  } catch (const std::exception& error) {
    return error.what();
  }
  return "";
}

// x * x as a node that saves both factors.
struct SavedSquare {
  explicit SavedSquare(const Variable& x) : factors{autograd::SavedVariable(x), autograd::SavedVariable(x)} {
    const auto backward = [this](autograd::BackwardContext&,
                                 absl::Span<Tensor> g) -> absl::StatusOr<autograd::Gradients> {
      at::Tensor sum;
      for (autograd::SavedVariable& factor : factors) {
        const absl::StatusOr<Tensor> value = factor.Unpack(*node);
        if (!value.ok()) return value.status();
        factor.Release();
        const at::Tensor part = ToTorch(g[0]) * ToTorch(*value);
        sum = sum.defined() ? sum + part : part;
      }
      return autograd::Gradients{ToCotan(sum)};
    };
    y = (*autograd::ApplyFunction("Square", {x}, {ToCotan(ToTorch(x.tensor()).square())}, backward))[0];
    node = *y.grad_fn();
  }
  autograd::SavedVariable factors[2];
  Variable y;
  std::shared_ptr<autograd::Node> node;
};

// AG-089.
TEST(HostHooksTest, OneSavedValueMayHaveHooks) {
  torch::autograd::SavedVariable eager(torch::ones({1}), /*is_output=*/false), eager_none;
  EXPECT_EQ(EagerRefusal(eager), "");
  EXPECT_THAT(EagerRefusal(eager), HasSubstr("already been set"));
  EXPECT_THAT(EagerRefusal(eager_none), HasSubstr("None"));

  Compiled square = CompileOf(Square, {Leaf(0, {1})});
  WalkedAndCaptured([&] {
    std::string log;
    const Variable a = LeafOf({2});
    SavedSquare node(square({a})[0]);
    const autograd::SavedTensorHooks hooks = Factors(3, 1, log);
    const auto registers = [&](autograd::SavedVariable& saved) {
      return std::string(saved.RegisterHooks(hooks, *node.node).message());
    };
    EXPECT_EQ(registers(node.factors[0]), "");
    EXPECT_EQ(log, "p");
    EXPECT_THAT(registers(node.factors[0]), HasSubstr("already been set"));
    autograd::SavedVariable none;
    EXPECT_THAT(registers(none), HasSubstr("the value is none"));
    ASSERT_TRUE(BackwardOf(square({node.y}), square).ok());
    EXPECT_EQ(log, "pu");
    // y = a^2, z = y * y, w = z^2: 2 z (3 y + y) 2 a
    EXPECT_THAT(GradOf(a), ElementsAre(2 * 16 * 16 * 4));
    for (autograd::SavedVariable& saved : node.factors) EXPECT_THAT(registers(saved), HasSubstr("freed"));
  });
}

TEST(HostHooksTest, ErrorsOfHooksAreThoseOfTheCallAndOfTheBackward) {
  Compiled square = CompileOf(Square, {Leaf(0, {2})});
  const Variable a = LeafOf({1, 2});
  WalkedAndCaptured([&] {
    std::string log;
    autograd::SavedTensorHooks hooks = Factors(1, 1, log);
    const auto pack = hooks.pack;
    hooks.pack = [](const Tensor&) -> absl::StatusOr<PackedData> { return absl::ResourceExhaustedError("disk full"); };
    {
      const SavedTensorHooksScope scope(hooks);
      const auto refused = square.function().Call({a});
      EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
      EXPECT_THAT(refused.status().message(), HasSubstr("disk full"));
    }
    hooks.pack = pack;
    hooks.unpack = [](const PackedData&) -> absl::StatusOr<Tensor> { return *Tensor::From<double>({1}, {1}); };
    Variables packed;
    {
      const SavedTensorHooksScope scope(hooks);
      packed = square({a});
    }
    // The square of the result packs nothing: its backward runs, and is captured, before the hook.
    const absl::Status wrong = BackwardOf(square(packed), square);
    EXPECT_EQ(wrong.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(wrong.message(), HasSubstr("an unpack hook returned f64[1] for a saved value f64[2]"));
  });
}

TEST(HostHooksTest, WhatIsUnpackedIsNotOverwritten) {
  Compiled f = CompileOf([](const Tensors& in) -> Tensors { return {in[0].exp().sin().exp()}; }, {Leaf(0, {4})},
                         {.partitioner = aot::Partitioner::kDefault});
  WalkedAndCaptured([&] {
    std::vector<Tensor> kept;
    const autograd::SavedTensorHooks hooks = {.pack = [&kept](const Tensor& value) -> absl::StatusOr<PackedData> {
                                                kept.push_back(*value.Clone());
                                                return std::make_shared<Tensor>(kept.back());
                                              },
                                              .unpack = [](const PackedData& data) -> absl::StatusOr<Tensor> {
                                                return *static_cast<const Tensor*>(data.get());
                                              }};
    const Variable x = ToVariable(Leaf(0, {4}));
    Variables y;
    {
      const SavedTensorHooksScope scope(hooks);
      y = f({x});
    }
    ASSERT_FALSE(kept.empty());
    std::vector<std::vector<double>> before;
    for (const Tensor& value : kept) before.push_back(*value.ToVector<double>());
    ASSERT_TRUE(BackwardOf(y, f).ok());
    for (size_t i = 0; i < kept.size(); ++i) EXPECT_EQ(*kept[i].ToVector<double>(), before[i]);
  });
}

TEST(HostHooksTest, SavedValuesMayWaitInFiles) {
  Compiled square = CompileOf(Square, {Leaf(0, {3})});
  WalkedAndCaptured([&] {
    int files = 0;
    const autograd::SavedTensorHooks hooks = {
        .pack = [&files](const Tensor& value) -> absl::StatusOr<PackedData> {
          const std::string path = absl::StrCat(::testing::TempDir(), "/saved.", files++);
          const std::vector<double> values = *value.ToVector<double>();
          std::ofstream(path, std::ios::binary)
              .write(reinterpret_cast<const char*>(values.data()),
                     static_cast<std::streamsize>(values.size() * sizeof(double)));
          return std::make_shared<std::string>(path);
        },
        .unpack = [](const PackedData& data) -> absl::StatusOr<Tensor> {
          std::vector<double> values(3);
          std::ifstream(*static_cast<const std::string*>(data.get()), std::ios::binary)
              .read(reinterpret_cast<char*>(values.data()), 3 * sizeof(double));
          return Tensor::From<double>(values, {3});
        }};
    const Variable a = LeafOf({1, -2, 3});
    const SavedTensorHooksScope scope(hooks);
    ASSERT_TRUE(BackwardOf(square({a}), square).ok());
    EXPECT_EQ(files, 1);
    EXPECT_THAT(GradOf(a), ElementsAre(2, -4, 6));
  });
}

TEST(HostHooksTest, SizesMayChangeUnderACapture) {
  Compiled square = CompileOf(Square, {Leaf(0, {10})}, {.dynamic_dims = {{0, 0, "n", 2, 200}}});
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  const CompiledAutograd scope;
  for (const int64_t n : {10, 100, 10, 20, 30}) {
    std::string log;
    const Variable x = ToVariable(Leaf(1, {n}));
    const SavedTensorHooksScope hooks(Factors(1, 1, log));
    ASSERT_TRUE(BackwardOf(square({x}), square).ok());
    EXPECT_EQ(log, "pu");
    ExpectNear(ToTorch(x.grad().tensor()), 2 * Constant(1, {n}));
  }
  EXPECT_LE(CompiledAutograd::Stats().captures, 2);
  EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 0);
}

TEST(HostHooksTest, UnpackMayAddAHookToItsNode) {
  Compiled var_mean = CompileOf(
      [](const Tensors& in) -> Tensors {
        const auto [variance, mean] = at::var_mean(in[0], at::OptionalIntArrayRef(0));
        return {variance + mean};
      },
      {Leaf(0, {4})});
  const at::Tensor x = Leaf(0, {4});
  const auto [variance, mean] = at::var_mean(x, at::OptionalIntArrayRef(0));
  const at::Tensor reference = torch::autograd::grad({variance + mean}, {x})[0];
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  for (const bool captured : {false, true}) {
    const Variable ours = ToVariable(Leaf(0, {4}));
    std::shared_ptr<autograd::Node> node;
    std::vector<size_t> incoming;
    std::string log;
    autograd::SavedTensorHooks hooks = Factors(1, 1, log);
    const auto unpack = hooks.unpack;
    hooks.unpack = [&, unpack](const PackedData& data) -> absl::StatusOr<Tensor> {
      node->MutableHooks().AddPostHook([&](autograd::Gradients& results, absl::Span<const Tensor> before) {
        incoming.push_back(before.size());
        for (Tensor& result : results) result = Times(result, 0.5);
        return absl::OkStatus();
      });
      return unpack(data);
    };
    Variables once;
    {
      const SavedTensorHooksScope scope(hooks);
      once = var_mean({ours});
    }
    ASSERT_EQ(log, "p");
    node = *once[0].grad_fn();
    std::optional<CompiledAutograd> scope;
    if (captured) scope.emplace();
    ASSERT_TRUE(BackwardOf(once, var_mean).ok());
    EXPECT_EQ(log, "pu");
    EXPECT_THAT(incoming, ElementsAre(0));  // as LibTorch's hooks, it sees no gradients
    ExpectNear(ToTorch(ours.grad().tensor()), reference / 2);
    ASSERT_TRUE(BackwardOf(var_mean({ours}), var_mean).ok());
    ExpectNear(ToTorch(ours.grad().tensor()), reference / 2 + reference);
  }
  EXPECT_GE(CompiledAutograd::Stats().captures, 1);
  EXPECT_THAT(CompiledAutograd::Messages(), ElementsAre(HasSubstr("an unpack hook added a post-hook")));
}

TEST(HostHooksTest, RecordedBackwardsComputeTheForwardAgainAndReadNothingPacked) {
  std::string log;
  const auto cube = [](const Tensors& in) -> Tensors { return {in[0] * in[0] * in[0]}; };
  Compiled f = CompileOf(cube, {Leaf(0, {2})}, {.order = 2});
  const Variable a = LeafOf({2, -3});
  const SavedTensorHooksScope scope(Factors(1, 1, log));
  const Variable one(ToCotan(torch::ones({2})));
  const auto first = autograd::GradWithGraph({f({a})[0]}, {a}, {one}, f.ops());
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(BackwardOf({(*first)[0]}, f).ok());
  EXPECT_THAT(GradOf(a), ElementsAre(12, -18));
}

// AG-092: each value that the recorded backward saves is doubled. What the forward packs is not read, so that a pair
// around it changes nothing.
TEST(HostHooksTest, RecordedBackwardsDoubleWhatTheyPack) {
  const auto cube = [](const Tensors& in) -> Tensors { return {in[0] * in[0] * in[0]}; };
  Compiled f = CompileOf(cube, {Leaf(0, {2})}, {.order = 2});
  const Variable one(ToCotan(torch::ones({2})));
  struct Place {
    bool forward, backwards;
    double factor;
  };
  for (const auto& [forward, backwards, factor] :
       {Place{true, false, 1}, Place{false, true, 4}, Place{true, true, 4}}) {
    std::string log;
    const Variable a = LeafOf({2, -3});
    Variables y;
    {
      std::optional<SavedTensorHooksScope> scope;
      if (forward) scope.emplace(Factors(2, 1, log));
      y = f({a});
    }
    std::optional<SavedTensorHooksScope> scope;
    if (backwards) scope.emplace(Factors(2, 1, log));
    const auto first = autograd::GradWithGraph(y, {a}, {one}, f.ops());
    ASSERT_TRUE(first.ok()) << first.status();
    ASSERT_TRUE(BackwardOf({(*first)[0]}, f).ok());
    EXPECT_THAT(GradOf(a), ElementsAre(12 * factor, -18 * factor)) << log;
  }
}

}  // namespace
}  // namespace cotan::testing
