// SPDX-License-Identifier: Apache-2.0

// Values that a torch::autograd::Function keeps in saved_data: eager does not check their versions, and its backward
// reads what they hold at that time. Compiled artifacts beside LibTorch eager.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "runtime/autograd/engine.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/execution/program.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;
using torch::autograd::AutogradContext;

// Keeps its first argument in saved_data: x * w.
struct KeepsAnArgument : torch::autograd::Function<KeepsAnArgument> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& w) {
    context->saved_data["x"] = x;
    return x * w;
  }
  static Tensors backward(AutogradContext* context, const Tensors& tangents) {
    return {at::Tensor(), tangents[0] * context->saved_data["x"].toTensor()};
  }
};

// Keeps an alias of its result in saved_data: exp(x).
struct KeepsItsResult : torch::autograd::Function<KeepsItsResult> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    const at::Tensor y = x.exp();
    context->saved_data["y"] = y.detach();  // not y, which would own its own node
    return y;
  }
  static Tensors backward(AutogradContext* context, const Tensors& tangents) {
    return {tangents[0] * context->saved_data["y"].toTensor()};
  }
};

// Saves its argument as autograd wants it.
struct SavesAnArgument : torch::autograd::Function<SavesAnArgument> {
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, const at::Tensor& w) {
    context->save_for_backward({x});
    return x * w;
  }
  static Tensors backward(AutogradContext* context, const Tensors& tangents) {
    return {at::Tensor(), tangents[0] * context->get_saved_variables()[0]};
  }
};

std::vector<aot::CompileOptions> Partitions() {
  std::vector<aot::CompileOptions> all(3);
  all[1].partitioner = aot::Partitioner::kDefault;
  all[2].activation_memory_budget = 0;
  return all;
}

// Returns the number of saved values of the loaded artifact without a version check.
uint32_t NumWithoutCheck(Compiled& f) {
  const Program& program = f.session().program();
  return program.method(*program.FindMethod("forward")).metadata().saved().num_tensors_without_version_check();
}

Compiled Compile(const aot::TensorFunction& function, const Tensors& examples, const aot::CompileOptions& options) {
  const auto model = aot::CompileFunction(function, examples, options);
  EXPECT_TRUE(model.ok()) << model.status();
  auto compiled = Compiled::Load(*model);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

// Calls function(x, w), writes 7s to x and runs the backward: the gradient of w by eager, or the error.
Variable RunOurs(Compiled& f, absl::Status& ran) {
  Variable x = ToVariable(Constant(0, {5}));
  const Variable w = ToVariable(Leaf(1, {5}));
  const Variables out = f({x, w});
  EXPECT_TRUE(x.CopyInPlace(ToVariable(torch::full({5}, 7, torch::kDouble)), f.ops()).ok());
  const std::vector<Tensor> tangents(out.size(), ToCotan(torch::ones({5})));
  ran = autograd::Backward(out, tangents, f.ops());
  return w;
}

at::Tensor EagerGradient(const aot::TensorFunction& function) {
  at::Tensor x = Constant(0, {5}).clone();
  const at::Tensor w = Leaf(1, {5});
  const Tensors out = function({x, w});
  x.fill_(7);
  torch::autograd::backward(out, Tensors(out.size(), torch::ones({5})));
  return w.grad();
}

TEST(VersionChecksTest, AKeptArgumentMayBeWrittenBeforeTheBackward) {
  const auto function = [](const Tensors& in) -> Tensors { return {KeepsAnArgument::apply(in[0], in[1])}; };
  for (const aot::CompileOptions& options : Partitions()) {
    Compiled f = Compile(function, {Constant(0, {5}), Leaf(1, {5})}, options);
    EXPECT_EQ(NumWithoutCheck(f), 1u);
    absl::Status ran;
    const Variable w = RunOurs(f, ran);
    ASSERT_TRUE(ran.ok()) << ran;
    ExpectNear(ToTorch(w.grad().tensor()), EagerGradient(function));
    ExpectNear(ToTorch(w.grad().tensor()), torch::full({5}, 7, torch::kDouble));
  }
}

TEST(VersionChecksTest, AKeptResultMayBeWrittenBeforeTheBackward) {
  const auto function = [](const Tensors& in) -> Tensors { return {KeepsItsResult::apply(in[0])}; };
  const at::Tensor theirs = Leaf(0, {5});
  at::Tensor their_result = function({theirs})[0];
  {
    const torch::NoGradGuard no_grad;
    their_result.fill_(7);
  }
  their_result.backward(torch::ones({5}));
  for (const aot::CompileOptions& options : Partitions()) {
    Compiled f = Compile(function, {Leaf(0, {5})}, options);
    EXPECT_EQ(NumWithoutCheck(f), 1u);
    const Variable x = ToVariable(Leaf(0, {5}));
    Variable y = f({x})[0];
    {
      const GradModeGuard no_grad(false);
      ASSERT_TRUE(y.CopyInPlace(ToVariable(torch::full({5}, 7, torch::kDouble)), f.ops()).ok());
    }
    const absl::Status ran = autograd::Backward({y}, {ToCotan(torch::ones({5}))}, f.ops());
    ASSERT_TRUE(ran.ok()) << ran;
    ExpectNear(ToTorch(x.grad().tensor()), theirs.grad());
  }
}

// Checked values come first: the counts of both kinds divide the saved values.
TEST(VersionChecksTest, SavedValuesOfBothKindsFollowOneAnother) {
  const auto function = [](const Tensors& in) -> Tensors {
    return {KeepsAnArgument::apply(in[0], in[1]), in[1] * in[2]};
  };
  for (const aot::CompileOptions& options : Partitions()) {
    Compiled f = Compile(function, {Constant(0, {5}), Leaf(1, {5}), Constant(2, {5})}, options);
    EXPECT_EQ(NumWithoutCheck(f), 1u);
    for (const int written : {0, 2}) {
      Variables in = {ToVariable(Constant(0, {5})), ToVariable(Leaf(1, {5})), ToVariable(Constant(2, {5}))};
      const Variables out = f(in);
      ASSERT_TRUE(in[static_cast<size_t>(written)].CopyInPlace(ToVariable(Constant(9, {5})), f.ops()).ok());
      const Tensor one = ToCotan(torch::ones({5}));
      const absl::Status ran = autograd::Backward(out, {one, one}, f.ops());
      if (written == 2) {
        EXPECT_THAT(std::string(ran.message()), HasSubstr("modified by an inplace operation"));
        continue;
      }
      ASSERT_TRUE(ran.ok()) << ran;
      ExpectNear(ToTorch(in[1].grad().tensor()), Constant(9, {5}) + Constant(2, {5}));
    }
  }
}

TEST(VersionChecksTest, AnArgumentThatAnotherNodeSavesIsChecked) {
  const auto saved = [](const Tensors& in) -> Tensors { return {SavesAnArgument::apply(in[0], in[1])}; };
  const auto both = [](const Tensors& in) -> Tensors { return {KeepsAnArgument::apply(in[0], in[1]), in[0] * in[1]}; };
  for (const aot::TensorFunction& function : {aot::TensorFunction(saved), aot::TensorFunction(both)}) {
    EXPECT_THROW(EagerGradient(function), c10::Error);
    Compiled f = Compile(function, {Constant(0, {5}), Leaf(1, {5})}, {});
    EXPECT_EQ(NumWithoutCheck(f), 0u);
    absl::Status ran;
    RunOurs(f, ran);
    EXPECT_THAT(std::string(ran.message()), HasSubstr("modified by an inplace operation"));
  }
}

// Eager saves the cosine. Here it may be computed again from the argument, which must not have changed then.
TEST(VersionChecksTest, AnArgumentOfOtherSavedValuesIsChecked) {
  const auto function = [](const Tensors& in) -> Tensors {
    return {KeepsAnArgument::apply(in[0], in[1]), in[0].cos() * in[1]};
  };
  Compiled f = Compile(function, {Constant(0, {5}), Leaf(1, {5})}, {});
  EXPECT_EQ(NumWithoutCheck(f), 0u);
  absl::Status ran;
  RunOurs(f, ran);
  EXPECT_EQ(ran.code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace cotan::testing
