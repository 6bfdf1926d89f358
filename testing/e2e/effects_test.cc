// SPDX-License-Identifier: Apache-2.0

// Compares effects of compiled programs with LibTorch eager: their content and order, forward and backward.
#include "aot/capture/effects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/compile.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "runtime/tools/inspect.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

// Returns "print a [1.5, 2]: message"; the overload for at::Tensor returns the same text.
std::string Event(absl::string_view kind, absl::string_view name, absl::string_view message,
                  const std::vector<float>& values) {
  return absl::StrCat(kind, " ", name, " [", absl::StrJoin(values, ", "), "]: ", message);
}

// Returns handlers that append all effects to `events`.
EffectHandlers Recording(std::vector<std::string>& events) {
  const EffectHandler handler = [&events](const EffectEvent& event) {
    events.push_back(Event(EffectKindName(event.kind), event.name, event.message, *event.value.ToVector<float>()));
    return absl::OkStatus();
  };
  return EffectHandlers().Set(EffectKind::kPrint, handler).Set(EffectKind::kMetric, handler);
}

// Records the effects of eager mode; assertions that hold are not recorded.
std::function<void(const aot::EagerEffect&)> EagerRecording(std::vector<std::string>& events) {
  return [&events](const aot::EagerEffect& effect) {
    if (effect.kind == "assert") return;
    const at::Tensor value = effect.value.contiguous();
    events.push_back(Event(effect.kind, effect.name, effect.message,
                           {value.const_data_ptr<float>(), value.const_data_ptr<float>() + value.numel()}));
  };
}

Session Load(const aot::CompiledModel& model, const EffectHandlers& effects) {
  absl::StatusOr<Session> session =
      Session::Create(*Program::LoadBytes(model.bytes()), {.kernels = &CpuKernels(), .threads = 1, .effects = effects});
  EXPECT_TRUE(session.ok()) << session.status();
  return *std::move(session);
}

Tensors TwoEffectsEachWay(const Tensors& in) {
  at::Tensor x = in[0];
  aot::Print(x.t(), "x", "transposed");
  const at::Tensor y = x * in[1];
  aot::PrintGradient(y, "dy");
  aot::Metric(y.sum(), "sum");
  const at::Tensor z = y.exp();
  aot::MetricGradient(z.sum(), "of an unused value");  // receives no gradient
  aot::PrintGradient(z, "dz", "comes first");
  aot::Assert(at::gt(z, 0), "positive");
  return {z, y};
}

TEST(EffectsTest, HappenInEagersOrderForwardAndBackward) {
  const at::Tensor a = torch::tensor({0.5f, -0.25f, 1.0f, 0.125f, -1.0f, 2.0f}).view({2, 3});
  const at::Tensor b = torch::tensor({1.0f, 2.0f, -0.5f});
  const at::Tensor tangent = torch::tensor({1.0f, -1.0f, 0.5f, 2.0f, 0.25f, 1.0f}).view({2, 3});
  std::vector<std::string> expected;
  {
    const aot::EagerEffects handler(EagerRecording(expected));
    const Tensors out = TwoEffectsEachWay({a.clone().requires_grad_(true), b});
    torch::autograd::backward({out[0]}, {tangent});
  }
  ASSERT_EQ(expected.size(), 4u);

  const auto model = aot::CompileFunction(TwoEffectsEachWay, {a.clone().requires_grad_(true), b}, {});
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<std::string> events;
  Session session = Load(*model, Recording(events));
  Function forward = *Function::Create(session, "forward");
  const auto to_cotan = [](const at::Tensor& t) {
    return *Tensor::From<float>({t.const_data_ptr<float>(), static_cast<size_t>(t.numel())},
                                {t.sizes().data(), t.sizes().size()});
  };
  for (int call = 0; call < 2; ++call) {
    events.clear();
    const auto results = forward.Call({*Variable::Leaf(to_cotan(a)), Variable(to_cotan(b))});
    ASSERT_TRUE(results.ok()) << results.status();
    EXPECT_EQ(results->size(), 2u);  // no token among them
    EXPECT_EQ(events.size(), 2u);
    const absl::Status ran =
        autograd::Backward({std::get<Variable>((*results)[0])}, {to_cotan(tangent)}, session.ops());
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_EQ(events, expected);
  }
}

TEST(EffectsTest, MetadataAndInspectTellOfThem) {
  const auto model =
      aot::CompileFunction(TwoEffectsEachWay, {torch::rand({2, 3}).requires_grad_(true), torch::rand({3})}, {});
  ASSERT_TRUE(model.ok()) << model.status();
  const auto program = *Program::LoadBytes(model->bytes());
  const serialization::Method& forward = program->method(0);
  EXPECT_THAT(forward.metadata().tokens(), ElementsAre("ordered"));
  EXPECT_EQ(forward.metadata().num_backward_tokens(), 1u);
  EXPECT_EQ(forward.metadata().output_info_size(), 2);
  EXPECT_EQ(forward.inputs_size(), 2);
  const std::string text = tools::InspectText(*program, /*with_program=*/true);
  EXPECT_THAT(text, HasSubstr("effects, in order: print 'x', metric 'sum', assert 'positive'"));
  EXPECT_THAT(text, HasSubstr("effects, in order: print 'dz', print 'dy'"));
  EXPECT_THAT(text, HasSubstr(") print \"x\": transposed"));
}

Tensor ToCotan(const at::Tensor& tensor) {
  const at::Tensor dense = tensor.detach().contiguous();
  return *Tensor::From<float>({dense.const_data_ptr<float>(), static_cast<size_t>(dense.numel())},
                              {dense.sizes().data(), dense.sizes().size()});
}

void ExpectFloats(const std::vector<float>& actual, const std::vector<float>& expected) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) EXPECT_FLOAT_EQ(actual[i], expected[i]);
}

// A function whose mutations and aliases have to be the same with and without effects. Inputs are
// leaves, or computed from leaves if `computed`.
struct BesideEffects {
  const char* what;
  bool computed;
  Tensors (*function)(const Tensors& in);
  const char* results;  // as the call plan's text shows them
};

constexpr BesideEffects kBesideEffects[] = {
    {"an input without gradient is written", false,
     [](const Tensors& in) -> Tensors {
       aot::Print(in[1], "before");
       at::Tensor buffer = in[1];
       buffer.add_(1);
       aot::Print(buffer, "after");
       return {in[0] * buffer};
     },
     "output 0 new"},
    {"a result and a view of it are returned", false,
     [](const Tensors& in) -> Tensors {
       const at::Tensor b = in[0] * 2;
       aot::Print(b, "b");
       return {b, b.view({-1})};
     },
     "output 1 a view of output 0"},
    {"a written input is returned", true,
     [](const Tensors& in) -> Tensors {
       at::Tensor a = in[0];
       a.mul_(2);
       aot::Print(a, "a");
       return {a};
     },
     "output 0 is input.0"},
    {"the backward alone has an effect", false,
     [](const Tensors& in) -> Tensors {
       const at::Tensor y = in[0].sin();
       aot::PrintGradient(y, "dy");
       return {y};
     },
     "output 0 new"},
    {"two views of an intermediate are returned", false,
     [](const Tensors& in) -> Tensors {
       const at::Tensor o = in[0] * in[1];
       aot::Metric(o.sum(), "sum");
       aot::PrintGradient(o, "do");
       return {o.view({-1}), o.t()};
     },
     "output 0 a view of an intermediate, output 1 a view of an intermediate"},
};

// Inputs that are written must not be leaves: they are clones of leaves in eager mode, copies for variables.
TEST(EffectsTest, MutationsAndAliasesAreAsWithoutThem) {
  const at::Tensor a = torch::tensor({0.5f, -0.25f, 1.0f, 0.125f, -1.0f, 2.0f}).view({2, 3});
  const at::Tensor b = torch::tensor({1.0f, 2.0f, -0.5f});
  for (const BesideEffects& one : kBesideEffects) {
    SCOPED_TRACE(one.what);
    const auto inputs = [&](at::Tensor& leaf) -> Tensors {
      leaf = a.clone().requires_grad_(true);
      return {one.computed ? leaf.clone() : leaf, b.clone()};
    };
    at::Tensor leaf, ignored;
    const Tensors in = inputs(leaf);
    std::vector<std::string> expected, events;
    Tensors out;
    {
      const aot::EagerEffects handler(EagerRecording(expected));
      out = one.function(in);
      torch::autograd::backward({out[0]}, {torch::ones(out[0].sizes())});
    }
    const auto model = aot::CompileFunction(one.function, inputs(ignored), {});
    ASSERT_TRUE(model.ok()) << model.status();
    Session session = Load(*model, Recording(events));
    Function forward = *Function::Create(session, "forward");
    EXPECT_THAT(forward.ToString(), HasSubstr(one.results));
    const Variable root = *Variable::Leaf(ToCotan(a));
    Variable x = root;
    if (one.computed) {
      x = Variable(ToCotan(a));
      ASSERT_TRUE(x.CopyInPlace(root, session.ops()).ok());
    }
    const Variable buffer(ToCotan(b));
    const auto results = forward.Call({x, buffer});
    ASSERT_TRUE(results.ok()) << results.status();
    ASSERT_EQ(results->size(), out.size());
    const Variable& first = std::get<Variable>((*results)[0]);
    const absl::Status ran = autograd::Backward({first}, {ToCotan(torch::ones(out[0].sizes()))}, session.ops());
    ASSERT_TRUE(ran.ok()) << ran;
    EXPECT_EQ(events, expected);
    EXPECT_FALSE(expected.empty());
    EXPECT_EQ(first.is_same(x), out[0].is_same(in[0]));
    for (size_t i = 0; i < out.size(); ++i) {
      const Tensor dense = *std::get<Variable>((*results)[i]).tensor().Contiguous();
      ExpectFloats(*dense.ToVector<float>(), *ToCotan(out[i]).ToVector<float>());
    }
    EXPECT_EQ(*buffer.tensor().ToVector<float>(), *ToCotan(in[1]).ToVector<float>());
    ExpectFloats(*root.grad().tensor().ToVector<float>(), *ToCotan(leaf.grad()).ToVector<float>());
  }
}

struct CheckedNet : torch::nn::Module {
  CheckedNet() {
    fc = register_module("fc", torch::nn::Linear(3, 2));
    seen = register_buffer("seen", torch::zeros({1}));
  }
  at::Tensor forward(const at::Tensor& x) {
    seen.add_(1);
    aot::Print(seen, "seen");
    const at::Tensor y = fc->forward(x);
    aot::PrintGradient(y, "dy");
    aot::Assert(torch::lt(y.abs().sum(), 1000), "finite", "the layer has diverged");
    return y;
  }
  torch::nn::Linear fc{nullptr};
  at::Tensor seen;
};

aot::CompileOptions TrainOptions() {
  aot::CompileOptions options;
  options.loss.function = [](const Tensors& outputs, const Tensors& targets) {
    const at::Tensor loss = torch::mse_loss(outputs[0], targets[0]);
    aot::Metric(loss, "loss");
    return loss;
  };
  options.loss.targets = {torch::zeros({4, 2})};
  options.optimizer = aot::OptimizerConfig{aot::SgdOptions{.lr = 0.5}};
  options.module.seed = 3;
  return options;
}

TEST(EffectsTest, OfATrainStepAreInOneProgram) {
  const auto model =
      aot::CompileModule([] { return std::make_shared<CheckedNet>(); }, {torch::ones({4, 3})}, TrainOptions());
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<std::string> events;
  Session session = Load(*model, Recording(events));
  const Tensor input = *Tensor::From<float>(std::vector<float>(12, 1), {4, 3});
  const Tensor target = *Tensor::From<float>(std::vector<float>(8, 0), {4, 2});
  ASSERT_TRUE(session.Run("train_step", {input, target}).ok());
  const auto results = session.Run("train_step", {input, target});
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(events.size(), 6u);
  const std::vector<float> y = *(*results)[0].ToVector<float>();
  std::vector<float> dy;
  for (const float element : y) dy.push_back(element * 0.25f);  // d mean(y^2) / dy
  EXPECT_THAT(events[3], ::testing::StartsWith("print seen [2]"));
  EXPECT_EQ(events[4], Event("metric", "loss", "", *(*results)[1].ToVector<float>()));
  EXPECT_EQ(events[5], Event("print", "dy", "", dy));
}

TEST(EffectsTest, AFailedAssertionEndsAStepWithoutChanges) {
  const auto model =
      aot::CompileModule([] { return std::make_shared<CheckedNet>(); }, {torch::ones({4, 3})}, TrainOptions());
  ASSERT_TRUE(model.ok()) << model.status();
  std::vector<std::string> events;
  Session session = Load(*model, Recording(events));
  const Tensor target = *Tensor::From<float>(std::vector<float>(8, 0), {4, 2});
  const std::vector<float> weight = *session.State("fc.weight")->ToVector<float>();
  const absl::Status failed =
      session.Run("train_step", {*Tensor::From<float>(std::vector<float>(12, 1e6f), {4, 3}), target}).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("assertion 'finite' failed: the layer has diverged"));
  EXPECT_EQ(*session.State("fc.weight")->ToVector<float>(), weight);
  EXPECT_THAT(*session.State("seen")->ToVector<float>(), ElementsAre(0));
}

TEST(EffectsTest, AFailedAssertionLeavesAnArgumentThatIsWrittenAsItWas) {
  const auto model = aot::CompileFunction(
      [](const Tensors& in) -> Tensors {
        at::Tensor x = in[0];
        x.mul_(2);
        aot::Assert(at::lt(x, 5), "small");
        return {x + 1};
      },
      {torch::ones({2})}, {});
  ASSERT_TRUE(model.ok()) << model.status();
  Session session = Load(*model, {});
  Function forward = *Function::Create(session, "forward");
  const Variable x(*Tensor::From<float>({1, 2}, {2}));
  ASSERT_TRUE(forward.Call({x}).ok());
  EXPECT_THAT(*x.tensor().ToVector<float>(), ElementsAre(2, 4));
  EXPECT_EQ(forward.Call({x}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(*x.tensor().ToVector<float>(), ElementsAre(2, 4));
}

// The branch that the program has not.
TEST(EffectsTest, AComparisonThatTheExamplesHaveDecidedIsChecked) {
  const auto model = aot::CompileFunction(
      [](const Tensors& in) -> Tensors { return {torch::equal(in[0], in[1]) ? in[0] * 2 : in[0] + 3}; },
      {torch::ones({2}), torch::zeros({2})}, {});
  ASSERT_TRUE(model.ok()) << model.status();
  Session session = Load(*model, {});
  Function forward = *Function::Create(session, "forward");
  const Variable x(*Tensor::From<float>({1, 2}, {2})), y(*Tensor::From<float>({1, 3}, {2}));
  const auto results = forward.Call({x, y});
  ASSERT_TRUE(results.ok()) << results.status();
  const absl::Status failed = forward.Call({x, x}).status();
  EXPECT_EQ(failed.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(failed.message()), HasSubstr("assertion 'equal' failed"));
}

}  // namespace
}  // namespace cotan
