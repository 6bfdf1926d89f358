// SPDX-License-Identifier: Apache-2.0

// Compiles, serializes and runs functions of wrapper types with gradients, and compares them with the same
// functions on the same classes in LibTorch eager.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/wrapped_function.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "runtime/tools/inspect.h"
#include "testing/e2e/wrapped_function_cases.h"
#include "wrappers/jagged.h"
#include "wrappers/low_rank.h"
#include "wrappers/quantized.h"

namespace cotan {
namespace {

using aot::WrappedTensor;
using ::testing::HasSubstr;
using testing::ToCotan;

using QuantizedTensor = Quantized<at::Tensor>;
using JaggedTensor = Jagged<at::Tensor>;
using LowRankTensor = LowRank<at::Tensor>;
using LowRankOfQuantized = LowRank<at::Tensor, QuantizedTensor>;

Variable ToVariable(const at::Tensor& tensor) {
  return tensor.requires_grad() ? *Variable::Leaf(ToCotan(tensor)) : Variable(ToCotan(tensor));
}

void ExpectNear(const Variable& actual, const at::Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.defined(), expected.defined()) << what;
  if (expected.defined()) testing::ExpectNear(actual.tensor(), expected, what);
}

// A compiled function and a call of it.
struct Comparison {
  std::string artifact;
  std::vector<WrappedVariable> arguments;
  std::vector<WrappedResult> results;
};

// Calls `callable` on `examples` in LibTorch and compiled, takes gradients of all
// float results (tangents are 0.5, 1.5, 2.5, ...), node by node or captured, and
// compares results and gradients of all parts of the arguments.
template <typename Callable, typename... Arguments>
Comparison CompareWithEager(Callable callable, const std::tuple<Arguments...>& examples, bool captured = false) {
  Comparison run;
  aot::CompileOptions options;
  const auto model = aot::CompileWrapped(callable, examples, options);
  EXPECT_TRUE(model.ok()) << model.status();
  if (!model.ok()) return run;
  run.artifact = model->bytes();

  std::vector<WrappedTensor> eager_arguments;
  std::apply([&](const auto&... example) { (eager_arguments.push_back(Wrap(example)), ...); }, examples);
  for (const WrappedTensor& argument : eager_arguments) run.arguments.push_back(argument.Map(ToVariable));
  std::vector<WrappedTensor> eager_results;
  aot::internal::WrapResult(std::apply(callable, examples), eager_results);

  Session session = *Session::Create(*Program::LoadBytes(run.artifact), {.kernels = &CpuKernels(), .threads = 1});
  absl::StatusOr<Function> forward = Function::Create(session, "forward");
  EXPECT_TRUE(forward.ok()) << forward.status();
  if (!forward.ok()) return run;
  auto called = forward->CallWrapped(run.arguments);
  EXPECT_TRUE(called.ok()) << called.status();
  if (!called.ok()) return run;
  run.results = *std::move(called);

  EXPECT_EQ(run.results.size(), eager_results.size());
  std::vector<at::Tensor> roots, tangents;
  std::vector<Variable> run_roots;
  std::vector<Tensor> run_tangents;
  for (size_t i = 0; i < run.results.size(); ++i) {
    const auto& result = std::get<WrappedVariable>(run.results[i]);
    EXPECT_EQ(result.StructureText(), eager_results[i].StructureText());
    EXPECT_EQ(result.metadata(), eager_results[i].metadata());
    EXPECT_EQ(result.outer_sizes(), eager_results[i].outer_sizes());
    const std::vector<at::Tensor> expected = eager_results[i].Tensors();
    const std::vector<Variable> actual = result.Tensors();
    for (size_t k = 0; k < expected.size(); ++k) {
      ExpectNear(actual[k], expected[k], absl::StrCat("result ", i, " part ", k));
      EXPECT_EQ(actual[k].requires_grad(), expected[k].requires_grad());
      if (!expected[k].requires_grad()) continue;
      roots.push_back(expected[k]);
      tangents.push_back(at::arange(expected[k].numel(), at::kFloat).add(0.5).view(expected[k].sizes()));
      run_roots.push_back(actual[k]);
      run_tangents.push_back(ToCotan(tangents.back()));
    }
  }
  torch::autograd::backward(roots, tangents);
  const auto scope = captured ? std::make_unique<CompiledAutograd>() : nullptr;
  const absl::Status ran = autograd::Backward(run_roots, run_tangents, session.ops());
  EXPECT_TRUE(ran.ok()) << ran;
  for (size_t i = 0; i < eager_arguments.size(); ++i) {
    const std::vector<at::Tensor> parts = eager_arguments[i].Tensors();
    const std::vector<Variable> gradients = GradientOf(run.arguments[i]).Tensors();
    for (size_t k = 0; k < parts.size(); ++k) {
      ExpectNear(gradients[k], parts[k].grad(), absl::StrCat("gradient of argument ", i, " part ", k));
    }
  }
  return run;
}

at::Tensor Leaf(at::IntArrayRef sizes) { return torch::rand(sizes).sub(0.5).requires_grad_(true); }

QuantizedTensor MakeQuantized(at::IntArrayRef sizes, int64_t axis) {
  return {.data = torch::randint(-100, 100, sizes, at::kChar),
          .scale = axis < 0 ? torch::rand({}).mul(0.01).requires_grad_(true)
                            : torch::rand({sizes[static_cast<size_t>(axis)]}).mul(0.01).requires_grad_(true),
          .axis = axis};
}

at::Tensor Product(const at::Tensor& x, const QuantizedTensor& weight) { return at::matmul(x, weight.Dequantize()); }

TEST(WrappersTest, AQuantizedWeightIsDequantizedAndItsScaleHasAGradient) {
  torch::manual_seed(1);
  for (const int64_t axis : {-1, 0, 1}) {
    const Comparison run = CompareWithEager(Product, std::make_tuple(Leaf({4, 3}), MakeQuantized({3, 5}, axis)));
    ASSERT_EQ(run.results.size(), 1u);
    const auto gradient = Unwrap<Quantized<Variable>>(GradientOf(run.arguments[1]), "the gradient");
    ASSERT_TRUE(gradient.ok()) << gradient.status();
    EXPECT_FALSE(gradient->data.defined());
    EXPECT_TRUE(gradient->scale.defined());
    EXPECT_EQ(gradient->axis, axis);
  }
}

// Sums of rows, and the rows scaled, as a jagged tensor with the same offsets.
std::tuple<at::Tensor, JaggedTensor> SumsAndScaled(const JaggedTensor& rows, const at::Tensor& factor) {
  const at::Tensor sums = at::cat({at::zeros({1, rows.values.size(1)}), rows.values.cumsum(0)});
  const at::Tensor first = rows.offsets.slice(0, 0, -1), last = rows.offsets.slice(0, 1);
  return {sums.index_select(0, last) - sums.index_select(0, first),
          JaggedTensor{.values = rows.values * factor, .offsets = rows.offsets}};
}

TEST(WrappersTest, JaggedRowsGoInAndOut) {
  torch::manual_seed(2);
  const JaggedTensor rows = {.values = Leaf({7, 2}), .offsets = torch::tensor({0, 3, 3, 7}, at::kLong)};
  const Comparison run = CompareWithEager(SumsAndScaled, std::make_tuple(rows, Leaf({2})));
  ASSERT_EQ(run.results.size(), 2u);
  const auto scaled = Unwrap<Jagged<Variable>>(std::get<WrappedVariable>(run.results[1]), "result 1");
  ASSERT_TRUE(scaled.ok()) << scaled.status();
  EXPECT_TRUE(scaled->offsets.is_same(run.arguments[0].Tensors()[1]));  // as in eager
}

std::tuple<at::Tensor, LowRankTensor> ApplyAndNegate(const at::Tensor& x, const LowRankTensor& weight) {
  return {x.matmul(weight.a).matmul(weight.b), LowRankTensor{.a = -weight.a, .b = weight.b * 2}};
}

TEST(WrappersTest, GradientsEnterAndLeaveThroughLowRankPairs) {
  torch::manual_seed(3);
  CompareWithEager(ApplyAndNegate, std::make_tuple(Leaf({4, 6}), LowRankTensor{.a = Leaf({6, 2}), .b = Leaf({2, 5})}));
}

TEST(WrappersTest, GradientsOfWrappersAreCaptured) {
  torch::manual_seed(3);
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  CompareWithEager(ApplyAndNegate, std::make_tuple(Leaf({4, 6}), LowRankTensor{.a = Leaf({6, 2}), .b = Leaf({2, 5})}),
                   /*captured=*/true);
  EXPECT_EQ(CompiledAutograd::Stats().captures, 1);
  EXPECT_EQ(CompiledAutograd::Stats().called_nodes, 0);
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
}

std::tuple<at::Tensor, LowRankOfQuantized> ApplyNested(const at::Tensor& x, const LowRankOfQuantized& weight) {
  LowRankOfQuantized halved = weight;
  halved.a.scale = weight.a.scale / 2;
  halved.b.scale = weight.b.scale * weight.b.scale;
  return {x.matmul(weight.a.Dequantize()).matmul(weight.b.Dequantize()), halved};
}

TEST(WrappersTest, WrappersNest) {
  torch::manual_seed(4);
  const LowRankOfQuantized weight = {.a = MakeQuantized({6, 2}, 1), .b = MakeQuantized({2, 5}, -1)};
  const Comparison run = CompareWithEager(ApplyNested, std::make_tuple(Leaf({4, 6}), weight));
  ASSERT_EQ(run.results.size(), 2u);
  const auto gradient = Unwrap<LowRank<Variable, Quantized<Variable>>>(GradientOf(run.arguments[1]), "the gradient");
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  EXPECT_TRUE(gradient->a.scale.defined());
  EXPECT_FALSE(gradient->b.data.defined());
}

TEST(WrappersTest, AWrapperIsReturnedUnchangedBesideAWrittenArgument) {
  torch::manual_seed(5);
  const Comparison run = CompareWithEager(
      [](const at::Tensor& counter, const LowRankTensor& weight) {
        at::Tensor written = counter;
        written.add_(1);
        return std::make_tuple(weight, weight.a.mm(weight.b));
      },
      std::make_tuple(torch::zeros({1}), LowRankTensor{.a = Leaf({3, 2}), .b = Leaf({2, 3})}));
  ASSERT_EQ(run.results.size(), 2u);
  EXPECT_TRUE(std::get<WrappedVariable>(run.results[0]).Tensors()[1].is_same(run.arguments[1].Tensors()[1]));
  EXPECT_EQ((*run.arguments[0].tensor().tensor().ToVector<float>())[0], 1);
}

TEST(WrappersTest, MetadataTellsOfTheCallersArgumentsAndOfFlatOnes) {
  torch::manual_seed(6);
  const Comparison run = CompareWithEager(
      SumsAndScaled,
      std::make_tuple(JaggedTensor{.values = Leaf({7, 2}), .offsets = torch::tensor({0, 3, 3, 7}, at::kLong)},
                      Leaf({2})));
  const auto program = *Program::LoadBytes(run.artifact);
  const serialization::Method& forward = program->method(*program->FindMethod("forward"));
  const serialization::ViewAndMutationMeta& metadata = forward.metadata();
  EXPECT_EQ(metadata.input_info_size(), 2);
  EXPECT_EQ(metadata.output_info_size(), 2);
  EXPECT_EQ(metadata.subclass_meta().fw_metadata().input_info_size(), 3);
  EXPECT_EQ(metadata.subclass_meta().fw_metadata().output_info_size(), 3);
  EXPECT_EQ(metadata.subclass_meta().grad_inputs_size(), 2);
  ASSERT_EQ(metadata.tangent_wrappers_size(), 2);
  EXPECT_EQ(metadata.tangent_wrappers(1).wrapper().type_name(), "cotan.jagged");
  EXPECT_EQ(metadata.tangent_wrappers(1).wrapper().flat_count(), 1u);  // offsets have none
  EXPECT_THAT(forward.input_names(), ::testing::ElementsAre("input.0.values", "input.0.offsets", "input.1"));
  EXPECT_THAT(forward.output_names(), ::testing::ElementsAre("output.0", "output.1.values"));
  EXPECT_THAT(tools::InspectText(*program, false), HasSubstr("cotan.jagged{values: flat 0, offsets: flat 1}"));
}

class WrongArgumentsTest : public ::testing::Test {
 protected:
  WrongArgumentsTest()
      : model_(*aot::CompileWrapped(Product, std::make_tuple(torch::rand({4, 3}), MakeQuantized({3, 5}, 0)), {})),
        session_(*Session::Create(*Program::LoadBytes(model_.bytes()), {.kernels = &CpuKernels(), .threads = 1})),
        forward_(*Function::Create(session_, "forward")) {}

  std::string Refusal(const WrappedTensor& weight) {
    const WrappedTensor x(torch::rand({4, 3}));
    return std::string(forward_.CallWrapped({x.Map(ToVariable), weight.Map(ToVariable)}).status().message());
  }

  aot::CompiledModel model_;
  Session session_;
  Function forward_;
};

TEST_F(WrongArgumentsTest, AreRefusedByAttribute) {
  const QuantizedTensor good = MakeQuantized({3, 5}, 0);
  EXPECT_EQ(Refusal(Wrap(good)), "");
  EXPECT_THAT(Refusal(WrappedTensor(good.scale)), HasSubstr("'input.1' is a plain tensor, not a cotan.quantized"));
  EXPECT_THAT(Refusal(Wrap(LowRankTensor{.a = torch::rand({3, 1}), .b = torch::rand({1, 5})})),
              HasSubstr("'input.1' is a cotan.low_rank, not a cotan.quantized"));
  EXPECT_THAT(Refusal(Wrap(MakeQuantized({3, 5}, 1))),
              HasSubstr("'input.1' has the metadata \"axis=1\"; the one traced had \"axis=0\""));
  const WrappedTensor plain(good.scale);
  EXPECT_THAT(Refusal(WrappedTensor("cotan.quantized", {{"data", plain}}, "axis=0", {})),
              HasSubstr("'input.1' has 1 attributes; a cotan.quantized has 2: data, scale"));
  EXPECT_THAT(Refusal(WrappedTensor("cotan.quantized", {{"data", plain}, {"factor", plain}}, "axis=0", {})),
              HasSubstr("'input.1' has the attribute 'factor' where a cotan.quantized has 'scale'"));
  EXPECT_THAT(Refusal(WrappedTensor("cotan.quantized", {{"data", Wrap(good)}, {"scale", plain}}, "axis=0", {})),
              HasSubstr("'input.1.data' is a cotan.quantized, not a plain tensor"));
  QuantizedTensor floats = good;
  floats.data = torch::rand({3, 5});
  EXPECT_THAT(Refusal(Wrap(floats)), HasSubstr("input.1.data"));
}

TEST_F(WrongArgumentsTest, RejectFlatCalls) {
  EXPECT_THAT(std::string(forward_.Call({Variable(ToCotan(torch::rand({4, 3})))}).status().message()),
              HasSubstr("use CallWrapped()"));
  EXPECT_THAT(forward_.ToString(), HasSubstr("flatten"));
  EXPECT_EQ(forward_.num_arguments(), 2);
}

}  // namespace
}  // namespace cotan
