// SPDX-License-Identifier: Apache-2.0

// Saved-tensor hooks that are compiled into forward and backward: what is saved, and how far gradients are from those
// without hooks.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <variant>
#include <vector>

#include "aot/compile.h"
#include "aot/saved_tensor_hooks/hook_pairs.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "serialization/schema/tensor_type.h"
#include "testing/e2e/compiled_trainer.h"
#include "testing/models/models.h"

namespace cotan::testing {
namespace {

using aot::HookFilter;
using aot::SavedTensorHooks;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Tensors = std::vector<torch::Tensor>;
using Texts = std::vector<std::string>;

// A node that saves its argument and a tensor of integers.
struct SavingNode : torch::autograd::Function<SavingNode> {
  static torch::Tensor forward(torch::autograd::AutogradContext* context, torch::Tensor x, torch::Tensor index) {
    context->save_for_backward({x, index});
    return x * x;
  }
  static Tensors backward(torch::autograd::AutogradContext* context, Tensors gradients) {
    const auto saved = context->get_saved_variables();
    return {at::where(saved[1].sum() >= 0, 2 * saved[0] * gradients[0], gradients[0]), torch::Tensor()};
  }
};

// Inputs: x, which requires grad, and integers that are saved.
Tensors ChainToANode(const Tensors& inputs) {
  torch::Tensor x = at::relu(inputs[0]) + 1;
  x = 2 * at::relu(x.sin() + x);
  return {SavingNode::apply(x, inputs[1].index_select(0, at::tensor({1, 0})))};
}

Tensors ChainInputs() {
  torch::manual_seed(5);
  return {torch::randn({16, 8}).requires_grad_(), torch::arange(4)};
}

struct Compiled {
  std::shared_ptr<const Program> program;
  aot::CompiledModel model;

  const serialization::Method& forward() const { return program->method(*program->FindMethod("forward")); }
  const serialization::Method& backward() const { return program->method(*program->FindMethod("backward")); }
};

Compiled Compile(const aot::TensorFunction& function, const Tensors& examples, const aot::CompileOptions& options) {
  absl::StatusOr<aot::CompiledModel> model = aot::CompileFunction(function, examples, options);
  EXPECT_TRUE(model.ok()) << model.status();
  auto program = Program::LoadBytes(model->bytes());
  EXPECT_TRUE(program.ok()) << program.status();
  return {*std::move(program), *std::move(model)};
}

// Returns hooks for values of any size.
SavedTensorHooks OfAnySize(SavedTensorHooks hooks, HookFilter filter = HookFilter::kNoStatic) {
  hooks.filter = filter;
  hooks.min_elements = 0;
  return hooks;
}

SavedTensorHooks OnHost(SavedTensorHooks hooks) {
  hooks.on_host = true;
  return hooks;
}

aot::CompileOptions With(SavedTensorHooks hooks) {
  aot::CompileOptions options;
  options.saved_tensor_hooks = std::move(hooks);
  return options;
}

// Returns the same with everything saved that the backward reads: the minimum cut computes small products again.
aot::CompileOptions WithAllSaved(SavedTensorHooks hooks) {
  aot::CompileOptions options = With(std::move(hooks));
  options.partitioner = aot::Partitioner::kDefault;
  return options;
}

// Returns the types of the saved values.
Texts SavedTypes(const serialization::Method& forward) {
  Texts types;
  for (int i = forward.outputs_size() - static_cast<int>(forward.num_saved()); i < forward.outputs_size(); ++i) {
    types.push_back(TensorTypeText(forward.values(static_cast<int>(forward.outputs(i))).type()));
  }
  return types;
}

int64_t SavedBytes(const serialization::Method& forward) {
  int64_t total = 0;
  for (int i = forward.outputs_size() - static_cast<int>(forward.num_saved()); i < forward.outputs_size(); ++i) {
    const serialization::TensorType& type = forward.values(static_cast<int>(forward.outputs(i))).type();
    int64_t bytes = static_cast<int64_t>(ByteSize(ToDType(type.dtype())));
    for (const std::string& size : type.sizes()) bytes *= std::stoll(size);
    total += bytes;
  }
  return total;
}

// Returns the outputs of a call, then the gradients of the inputs that require grad, for tangents of 1.
Tensors RunWithGradients(const Compiled& compiled, const Tensors& inputs) {
  auto session = Session::Create(compiled.program, {.kernels = &CpuKernels(), .threads = 1});
  EXPECT_TRUE(session.ok()) << session.status();
  auto function = Function::Create(*session, "forward");
  EXPECT_TRUE(function.ok()) << function.status();
  std::vector<Variable> arguments, leaves;
  for (const torch::Tensor& input : inputs) {
    const Tensor tensor = *ToCotan(input);
    arguments.push_back(input.requires_grad() ? *Variable::Leaf(tensor) : Variable(tensor));
    if (input.requires_grad()) leaves.push_back(arguments.back());
  }
  const auto results = function->Call(arguments);
  EXPECT_TRUE(results.ok()) << results.status();
  Tensors all;
  std::vector<Variable> roots;
  std::vector<Tensor> tangents;
  for (const FunctionResult& result : *results) {
    const Variable& variable = std::get<Variable>(result);
    all.push_back(*ToTorch(variable.tensor()));
    if (!variable.requires_grad()) continue;
    roots.push_back(variable);
    tangents.push_back(*ToCotan(torch::ones_like(all.back())));
  }
  const auto gradients = autograd::Grad(roots, leaves, tangents, session->ops(), {.allow_unused = true});
  EXPECT_TRUE(gradients.ok()) << gradients.status();
  for (const Tensor& gradient : *gradients) all.push_back(*ToTorch(gradient));
  return all;
}

// Returns the largest difference, relative to the largest magnitude of `expected`.
double Error(const torch::Tensor& actual, const torch::Tensor& expected) {
  return ((actual - expected).abs().max() / expected.abs().max()).item<double>();
}

struct NamedHooks {
  std::string name;
  SavedTensorHooks hooks;
  double bound;  // of the error of gradients
};

// The pairs of PyTorch's tests, and the ready-made ones.
std::vector<NamedHooks> AllHooks() {
  using Extra = std::tuple<torch::Tensor, at::ScalarType, at::Device, int64_t>;
  const auto halved = [](const torch::Tensor& x) { return x / 2; };
  const auto to_host = [](const torch::Tensor& x) { return x.to(at::kCPU); };
  const auto with_extra = [](const torch::Tensor& x) {
    return Extra(x.to(at::kBFloat16), x.scalar_type(), x.device(), x.size(-1));
  };
  const auto without_extra = [](const Extra& packed) {
    const auto& [values, dtype, device, width] = packed;
    return values.to(device, dtype).view({-1, width});
  };
  return {
      {"doubled", aot::MakeSavedTensorHooks([](const torch::Tensor& x) { return 2 * x; }, halved), 1e-7},
      {"to_host", aot::MakeSavedTensorHooks(to_host, to_host), 0},
      {"with_extra", aot::MakeSavedTensorHooks(with_extra, without_extra), 0x1p-8},
      {"bf16", aot::BFloat16Hooks(), 0x1p-8},
      {"fp8_e4m3", aot::Float8Hooks(aot::Float8Format::kE4m3fn, false), 0x1p-4},
      {"fp8_e4m3_scaled", aot::Float8Hooks(aot::Float8Format::kE4m3fn, true), 0x1p-4},
      {"fp8_e5m2", aot::Float8Hooks(aot::Float8Format::kE5m2, false), 0x1p-3},
      {"fp8_e5m2_scaled", aot::Float8Hooks(aot::Float8Format::kE5m2, true), 0x1p-3},
      {"int8", aot::Int8Hooks(), 1.0 / 127},
      {"host", aot::HostOffloadHooks(), 0},
  };
}

TEST(SavedTensorHooksTest, OutputsStayAndGradientsAreWithinThePrecisionOfThePair) {
  const Tensors inputs = ChainInputs();
  const Tensors plain = RunWithGradients(Compile(ChainToANode, inputs, {}), inputs);
  for (const NamedHooks& named : AllHooks()) {
    SCOPED_TRACE(named.name);
    const Compiled compiled = Compile(ChainToANode, inputs, With(OfAnySize(named.hooks)));
    const Tensors packed = RunWithGradients(compiled, inputs);
    ASSERT_EQ(packed.size(), 2u);
    EXPECT_TRUE(packed[0].equal(plain[0]));
    EXPECT_LE(Error(packed[1], plain[1]), 2 * named.bound);
    for (const std::string& type : SavedTypes(compiled.forward())) {
      if (named.name == "bf16" || named.name == "with_extra") {
        EXPECT_THAT(type, Not(HasSubstr("f32")));
      }
    }
  }
}

TEST(SavedTensorHooksTest, GradientsAreThoseOfWhatUnpackReturns) {
  const auto same = [](const torch::Tensor& x) { return x; };
  const auto twice = [](const torch::Tensor& x) { return 2 * x; };
  const auto half = [](const torch::Tensor& x) { return x / 2; };
  const auto in_place = [](const torch::Tensor& x) { return x.div_(2); };
  const auto square = [](const Tensors& x) -> Tensors { return {x[0] * x[0]}; };
  const torch::Tensor a = torch::tensor({1.0f, -3.0f}).requires_grad_();
  const auto gradient = [&](SavedTensorHooks hooks) {
    return RunWithGradients(Compile(square, {a}, With(OfAnySize(std::move(hooks)))), {a})[1];
  };
  EXPECT_TRUE(gradient(aot::MakeSavedTensorHooks(twice, half)).equal(2 * a));
  EXPECT_TRUE(gradient(aot::MakeSavedTensorHooks(twice, in_place)).equal(2 * a));
  EXPECT_TRUE(gradient(aot::MakeSavedTensorHooks(twice, same)).equal(4 * a));
  const auto product = [](const Tensors& x) -> Tensors { return {x[0] * x[1]}; };
  const Tensors ab = {torch::tensor({1.0f}).requires_grad_(), torch::tensor({2.0f}).requires_grad_()};
  const Tensors results =
      RunWithGradients(Compile(product, ab, With(OfAnySize(aot::MakeSavedTensorHooks(same, twice)))), ab);
  EXPECT_EQ(results[1].item<float>(), 4);
  EXPECT_EQ(results[2].item<float>(), 2);
}

TEST(SavedTensorHooksTest, HooksThatDoNothingChangeNoBit) {
  const auto same = [](const torch::Tensor& x) { return x; };
  const auto function = [](const Tensors& x) -> Tensors { return {at::exp(x[0]), at::tanh(x[0]), x[0] * x[0]}; };
  const Tensors inputs = {torch::randn({7, 5}).requires_grad_()};
  const Compiled plain = Compile(function, inputs, {});
  for (const HookFilter filter : {HookFilter::kDonated, HookFilter::kNoStatic, HookFilter::kAll}) {
    const Compiled packed = Compile(function, inputs, With(OfAnySize(aot::MakeSavedTensorHooks(same, same), filter)));
    EXPECT_EQ(SavedTypes(packed.forward()), SavedTypes(plain.forward()));
    EXPECT_EQ(packed.forward().metadata().saved().SerializeAsString(),
              plain.forward().metadata().saved().SerializeAsString());
    const Tensors expected = RunWithGradients(plain, inputs), actual = RunWithGradients(packed, inputs);
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_TRUE(actual[i].equal(expected[i])) << i;
  }
}

TEST(SavedTensorHooksTest, SavedIntegersAreLeftAlone) {
  const auto function = [](const Tensors& x) -> Tensors { return {x[0].sin().index_select(0, x[1])}; };
  const Tensors inputs = {torch::randn({6, 5}).requires_grad_(), torch::tensor({4, 0, 4})};
  const Compiled compiled = Compile(function, inputs, With(OfAnySize(aot::BFloat16Hooks())));
  EXPECT_THAT(SavedTypes(compiled.forward()), ::testing::UnorderedElementsAre("bf16[6,5]", "i64[3]"));
  const Tensors plain = RunWithGradients(Compile(function, inputs, {}), inputs);
  EXPECT_LE(Error(RunWithGradients(compiled, inputs)[1], plain[1]), 0x1p-8);
}

// An input of f64, and two linear layers.
TEST(SavedTensorHooksTest, TheFilterChoosesWhatIsPacked) {
  const auto module = [] {
    torch::nn::Sequential layers(torch::nn::Linear(4, 4), torch::nn::Linear(4, 4));
    layers->to(torch::kDouble);
    return layers;
  };
  const auto compile = [&](HookFilter filter) {
    const SavedTensorHooks hooks = OfAnySize(aot::Float8Hooks(aot::Float8Format::kE4m3fn, true), filter);
    auto model =
        aot::CompileModule(module, {torch::randn({8, 4}, torch::kDouble).requires_grad_()}, WithAllSaved(hooks));
    EXPECT_TRUE(model.ok()) << model.status();
    return Compiled{*Program::LoadBytes(model->bytes()), *std::move(model)};
  };
  const auto states_read = [](const Compiled& compiled) { return compiled.backward().state_reads_size(); };
  const Compiled donated = compile(HookFilter::kDonated);
  EXPECT_THAT(SavedTypes(donated.forward()), ElementsAre("f64[8,4]", "f8e4m3fn[8,4]", "f32[]"));
  const Compiled no_static = compile(HookFilter::kNoStatic);
  EXPECT_THAT(SavedTypes(no_static.forward()), ElementsAre("f8e4m3fn[8,4]", "f32[]", "f8e4m3fn[8,4]", "f32[]"));
  EXPECT_EQ(states_read(no_static), 2);
  const Compiled all = compile(HookFilter::kAll);
  EXPECT_THAT(SavedTypes(all.forward()), ElementsAre("f8e4m3fn[8,4]", "f32[]", "f8e4m3fn[8,4]", "f32[]",
                                                     "f8e4m3fn[4,4]", "f32[]", "f8e4m3fn[4,4]", "f32[]"));
  EXPECT_EQ(states_read(all), 0);
}

TEST(SavedTensorHooksTest, PackedValuesAreDonatedWhereTheValueIsNot) {
  const auto function = [](const Tensors& x) -> Tensors {
    return {x[0], at::relu(SavingNode::apply(x[0], at::tensor({0})))};
  };
  const Tensors inputs = {torch::rand({16, 8}).requires_grad_()};
  const auto donated = [&](const aot::CompileOptions& options) {
    const Compiled compiled = Compile(function, inputs, options);
    const auto& saved = compiled.forward().metadata().saved();
    Texts types;
    for (const uint32_t i : saved.donated()) types.push_back(SavedTypes(compiled.forward())[i]);
    return types;
  };
  const auto is_float = [](const std::string& type) { return type[0] == 'f'; };
  const Texts plain = donated({});
  EXPECT_EQ(std::count_if(plain.begin(), plain.end(), is_float), 0);
  const SavedTensorHooks hooks = OfAnySize(aot::Float8Hooks(aot::Float8Format::kE5m2, true));
  const Texts packed = donated(With(hooks));
  EXPECT_EQ(std::count_if(packed.begin(), packed.end(), is_float), 2) << ::testing::PrintToString(packed);
}

// Returns the number of conversions to f8e5m2 in the method's expressions.
int Conversions(const serialization::Method& method) {
  int count = 0;
  for (const serialization::Op& op : method.ops()) {
    for (const serialization::ExprInstruction& instruction : op.expr().instructions()) {
      const bool is_cast = instruction.fn() == serialization::FN_CAST;
      count += is_cast && instruction.dtype() == serialization::DTYPE_F8E5M2 ? 1 : 0;
    }
  }
  return count;
}

TEST(SavedTensorHooksTest, PackRunsOncePerSavedValueWhateverItReturns) {
  using List = std::vector<torch::Tensor>;
  using Map = std::map<std::string, torch::Tensor>;
  const auto narrow = [](const torch::Tensor& x) { return x.to(at::kFloat8_e5m2); };
  const auto wide = [](const torch::Tensor& x) { return x.to(at::kFloat); };
  const auto list = [&](const torch::Tensor& x) { return List{narrow(x), x.sum()}; };
  const auto from_list = [&](const List& packed) { return wide(packed.at(0)) + 0 * packed.at(1); };
  const auto map = [&](const torch::Tensor& x) { return Map{{"values", narrow(x)}, {"sum", x.sum()}}; };
  const auto from_map = [&](const Map& packed) { return wide(packed.at("values")) + 0 * packed.at("sum"); };
  const std::pair<SavedTensorHooks, int> cases[] = {{aot::MakeSavedTensorHooks(narrow, wide), 1},
                                                    {aot::MakeSavedTensorHooks(list, from_list), 2},
                                                    {aot::MakeSavedTensorHooks(map, from_map), 2}};
  const auto function = [](const Tensors& x) -> Tensors { return {at::sin(x[0].mm(x[1]))}; };
  const Tensors inputs = {torch::randn({4, 6}).requires_grad_(), torch::randn({6, 5}).requires_grad_()};
  const Tensors plain = RunWithGradients(Compile(function, inputs, {}), inputs);
  for (const auto& [hooks, tensors] : cases) {
    const Compiled compiled = Compile(function, inputs, WithAllSaved(OfAnySize(hooks)));
    EXPECT_EQ(compiled.forward().num_saved(), static_cast<uint32_t>(3 * tensors));
    EXPECT_EQ(Conversions(compiled.forward()), 3);
    EXPECT_EQ(Conversions(compiled.backward()), 0);
    const Tensors packed = RunWithGradients(compiled, inputs);
    for (size_t i = 1; i < packed.size(); ++i) EXPECT_LE(Error(packed[i], plain[i]), 0.3);
  }
}

TEST(SavedTensorHooksTest, SizesMayBeDynamic) {
  const auto function = [](const Tensors& x) -> Tensors { return {x[0] * x[1], at::exp(x[0]) * x[1]}; };
  const auto inputs = [](int64_t n) -> Tensors {
    return {torch::randn({n, n}).requires_grad_(), torch::randn({n, n}).requires_grad_()};
  };
  aot::CompileOptions options = With(OfAnySize(aot::Float8Hooks(aot::Float8Format::kE4m3fn, true)));
  for (const int input : {0, 1}) {
    for (const int dim : {0, 1}) options.dynamic_dims.push_back({input, dim, "n", 2, 64});
  }
  const Compiled packed = Compile(function, inputs(10), options);
  options.saved_tensor_hooks = {};
  const Compiled plain = Compile(function, inputs(10), options);
  EXPECT_THAT(SavedTypes(packed.forward()), ::testing::Contains("f8e4m3fn[s0,s0]"));
  for (const int64_t n : {10, 20, 3}) {
    const Tensors arguments = inputs(n);
    const Tensors expected = RunWithGradients(plain, arguments);
    const Tensors actual = RunWithGradients(packed, arguments);
    // Gradients are sums of two values of 4 bits each, which may cancel.
    for (size_t i = 0; i < expected.size(); ++i) EXPECT_LE(Error(actual[i], expected[i]), i < 2 ? 1e-6 : 0x1p-2) << n;
  }
}

TEST(SavedTensorHooksTest, EachPairIsACompilationAndOnlyNamedPairsAreCached) {
  const Tensors inputs = ChainInputs();
  const auto outcome = [&](SavedTensorHooks hooks) {
    aot::CompileOptions options = With(std::move(hooks));
    options.cache_dir = ::testing::TempDir() + "/hooks_cache";
    return Compile(ChainToANode, inputs, options).model.cache();
  };
  using Kind = aot::CacheOutcome::Kind;
  for (const Kind expected : {Kind::kMiss, Kind::kHit}) {
    EXPECT_EQ(outcome({}).kind, expected);
    EXPECT_EQ(outcome(aot::BFloat16Hooks()).kind, expected);
    EXPECT_EQ(outcome(aot::Int8Hooks()).kind, expected);
    EXPECT_EQ(outcome(OnHost(aot::Int8Hooks())).kind, expected);
    EXPECT_EQ(outcome(OfAnySize(aot::Int8Hooks(), HookFilter::kAll)).kind, expected);
  }
  const auto same = [](const torch::Tensor& x) { return x; };
  const aot::CacheOutcome custom = outcome(aot::MakeSavedTensorHooks(same, same));
  EXPECT_EQ(custom.kind, Kind::kBypassed);
  EXPECT_THAT(custom.reason, HasSubstr("saved_tensor_hooks"));
}

TEST(SavedTensorHooksTest, WhatIsNotAllowedIsRefusedWhenTheModelIsCompiled) {
  const Tensors inputs = ChainInputs();
  const auto refusal = [&](SavedTensorHooks hooks) {
    const absl::Status status = aot::CompileFunction(ChainToANode, inputs, With(OfAnySize(std::move(hooks)))).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  const auto same = [](const torch::Tensor& x) { return x; };
  const auto writes = [](const torch::Tensor& x) { return x.mul_(2); };
  EXPECT_THAT(refusal(aot::MakeSavedTensorHooks(writes, same)), HasSubstr("modifying its input in place"));
  const auto narrow = [](const torch::Tensor& x) { return x.to(at::kHalf); };
  EXPECT_THAT(refusal(aot::MakeSavedTensorHooks(narrow, same)), HasSubstr("unpack returned f16"));
  SavedTensorHooks half = aot::BFloat16Hooks();
  half.pack = nullptr;
  EXPECT_THAT(refusal(half), HasSubstr("needs both functions"));
}

// --- training steps ------------------------------------------------------------------

struct StepResult {
  std::vector<double> losses;
  int64_t peak = 0;
  int64_t saved = 0;           // bytes that "forward" saves
  std::vector<float> weights;  // all parameters at the end
};

StepResult Train(const std::string& name, SavedTensorHooks hooks, bool accumulate = false) {
  const ModelCase& model = *FindModel(name);
  at::Generator generator = at::detail::createCPUGenerator(4);
  const torch::Tensor input = model.make_input(generator);
  const torch::Tensor label = model.make_label(generator);
  CompiledTrainerOptions options;
  options.optimizer.options = aot::SgdOptions{.lr = 0.002, .momentum = 0.9};
  options.saved_tensor_hooks = std::move(hooks);
  options.accumulate = accumulate;
  auto trainer = CompiledTrainer::Create(model, input, label, options);
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  StepResult result;
  for (int step = 0; step < 6; ++step) {
    const auto loss = accumulate ? (*trainer)->Accumulate(input, label) : (*trainer)->Step(input, label);
    EXPECT_TRUE(loss.ok()) << loss.status();
    if (accumulate) {
      EXPECT_TRUE((*trainer)->Update().ok());
    }
    result.losses.push_back(*loss);
  }
  Session& session = (*trainer)->session();
  const auto method = session.FindMethod(accumulate ? "accumulate" : "train_step");
  result.peak = session.Summary(*method)->peak_bytes;
  const Program& program = session.program();
  result.saved = SavedBytes(program.method(*program.FindMethod("forward")));
  for (const serialization::State& state : program.artifact().states()) {
    if (state.role() != serialization::State::PARAMETER) continue;
    const std::vector<float> values = *session.State(state.name())->ToVector<float>();
    result.weights.insert(result.weights.end(), values.begin(), values.end());
  }
  return result;
}

class TrainWithHooks : public ::testing::TestWithParam<std::string> {};

TEST_P(TrainWithHooks, SavesHalfOrAQuarterAndLearnsAsWell) {
  const StepResult plain = Train(GetParam(), {});
  EXPECT_LT(plain.losses.back(), plain.losses.front());
  // The cnn also saves values that are not packed. docs/memory.md has the figures.
  const bool packs_all = GetParam() == "gpt";
  for (const auto& [hooks, share, bound] : {std::tuple(aot::BFloat16Hooks(), packs_all ? 0.51 : 0.73, 0.02),
                                            std::tuple(aot::Int8Hooks(), packs_all ? 0.26 : 0.55, 0.1)}) {
    SCOPED_TRACE(hooks.cache_key);
    const StepResult packed = Train(GetParam(), hooks);
    EXPECT_EQ(packed.losses[0], plain.losses[0]);  // the forward is the same
    EXPECT_LE(static_cast<double>(packed.saved), share * static_cast<double>(plain.saved));
    EXPECT_LT(packed.peak, plain.peak);
    for (size_t i = 1; i < plain.losses.size(); ++i) {
      EXPECT_NEAR(packed.losses[i], plain.losses[i], bound * plain.losses[0]) << i;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, TrainWithHooks, ::testing::Values("cnn", "gpt"),
                         [](const auto& info) { return info.param; });

TEST_P(TrainWithHooks, ValuesForTheHostStayWhereTheyAreOnTheCpu) {
  const StepResult plain = Train(GetParam(), {});
  const StepResult moved = Train(GetParam(), aot::HostOffloadHooks());
  EXPECT_EQ(moved.losses, plain.losses);
  EXPECT_EQ(moved.saved, plain.saved);
  EXPECT_LE(moved.peak, plain.peak);
}

TEST(SavedTensorHooksTest, TheAccumulatingStepIsPackedToo) {
  const StepResult plain = Train("mlp", {}, /*accumulate=*/true);
  const StepResult packed = Train("mlp", aot::BFloat16Hooks(), /*accumulate=*/true);
  EXPECT_EQ(packed.losses[0], plain.losses[0]);
  EXPECT_NE(packed.weights, plain.weights);
  EXPECT_NEAR(packed.losses.back(), plain.losses.back(), 0.02 * plain.losses[0]);
}

}  // namespace
}  // namespace cotan::testing
