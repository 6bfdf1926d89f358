// SPDX-License-Identifier: Apache-2.0

// Calls compiled functions with arguments that share written memory, as they did when traced: in elements of several
// dtypes, and at sizes that were not traced. Compares results, memory and gradients with LibTorch eager.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "aot/compile.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "serialization/metadata/view_step.h"
#include "testing/e2e/compiled_trainer.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<torch::Tensor>;

// An argument: elements of a dtype in the storage of all arguments.
struct Place {
  torch::ScalarType dtype = torch::kFloat;
  std::function<StridedLayout(int64_t n)> layout;
};

struct Case {
  std::string name;
  aot::TensorFunction function;
  torch::ScalarType storage = torch::kFloat;
  std::function<int64_t(int64_t n)> elements;  // of the storage
  Place x, y;
  bool with_gradient = false;  // the storage is computed from a leaf
  bool is_dynamic = false;     // dimension 0 of both is "n"
  std::vector<int64_t> sizes = {6};
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

StridedLayout Row(int64_t size, int64_t offset, int64_t stride = 1) {
  StridedLayout layout;
  layout.sizes = {size};
  layout.strides = {stride};
  layout.offset = offset;
  return layout;
}

// The leaf, the storage that is computed from it, and the arguments, in eager mode.
struct Eager {
  torch::Tensor leaf, all;
  Tensors arguments;
};

Eager MakeEager(const Case& c, int64_t n) {
  Eager made;
  made.leaf = (torch::arange(c.elements(n), torch::kDouble) - 3).to(c.storage);
  if (c.with_gradient) made.leaf.requires_grad_();
  made.all = made.leaf.clone();
  for (const Place* place : {&c.x, &c.y}) {
    const StridedLayout layout = place->layout(n);
    const torch::Tensor elements = place->dtype == c.storage ? made.all : made.all.view(place->dtype);
    made.arguments.push_back(elements.as_strided({layout.sizes.data(), layout.sizes.size()},
                                                 {layout.strides.data(), layout.strides.size()}, layout.offset));
  }
  return made;
}

struct Loaded {
  Session session;
  Function function;
};

absl::StatusOr<Loaded> CompileCase(const Case& c) {
  aot::CompileOptions options;
  if (c.is_dynamic) {
    options.dynamic_dims = {{.argument = 0, .dim = 0, .symbol = "n", .min = 4, .max = 40},
                            {.argument = 1, .dim = 0, .symbol = "n"}};
    options.examples_at_sizes = [&c](const std::map<std::string, int64_t>& sizes) {
      return MakeEager(c, sizes.at("n")).arguments;
    };
  }
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel model,
                         aot::CompileFunction(c.function, MakeEager(c, c.sizes[0]).arguments, options));
  COTAN_ASSIGN_OR_RETURN(const auto program, Program::LoadBytes(model.bytes()));
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, {.kernels = &CpuKernels(), .threads = 1}));
  COTAN_ASSIGN_OR_RETURN(Function function, Function::Create(session, "forward", {.verify_calls = true}));
  return Loaded{std::move(session), std::move(function)};
}

void ExpectSame(const Tensor& actual, const torch::Tensor& expected) {
  const torch::Tensor found = *ToTorch(actual);
  ASSERT_EQ(found.scalar_type(), expected.scalar_type());
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_TRUE(found.equal(expected.detach().contiguous())) << found << "\nexpected\n" << expected;
}

DType DTypeOfScalar(torch::ScalarType dtype) { return ToCotan(torch::empty({0}, dtype))->dtype(); }

void CallAndCompare(const Case& c, Loaded& loaded, int64_t n) {
  const Eager eager = MakeEager(c, n);
  Variable leaf = c.with_gradient ? *Variable::Leaf(*ToCotan(eager.leaf)) : Variable(*ToCotan(eager.leaf));
  Variable all(*Tensor::Empty(DTypeOfScalar(c.storage), {c.elements(n)}));
  ASSERT_TRUE(all.CopyInPlace(leaf, loaded.session.ops()).ok());
  std::vector<Variable> arguments;
  for (const Place* place : {&c.x, &c.y}) {
    const view::DTypeView step{DTypeOfScalar(place->dtype)};
    const Variable elements = place->dtype == c.storage ? all : *all.View({step});
    arguments.push_back(*elements.AsStrided(place->layout(n)));
  }
  const auto results = loaded.function.Call(arguments);
  ASSERT_TRUE(results.ok()) << results.status();

  const Tensors expected = c.function(eager.arguments);
  ASSERT_EQ(results->size(), expected.size());
  std::vector<Variable> roots = {all};
  Tensors eager_roots = {eager.all};
  for (size_t i = 0; i < expected.size(); ++i) {
    const Variable& result = std::get<Variable>((*results)[i]);
    ExpectSame(result.tensor(), expected[i]);
    ASSERT_EQ(result.requires_grad(), expected[i].requires_grad()) << i;
    if (!expected[i].requires_grad()) continue;
    roots.push_back(result);
    eager_roots.push_back(expected[i]);
  }
  ExpectSame(all.tensor(), eager.all);
  for (size_t i = 0; i < arguments.size(); ++i) ExpectSame(arguments[i].tensor(), eager.arguments[i]);
  if (!c.with_gradient) return;
  std::vector<Tensor> tangents;
  Tensors eager_tangents;
  for (const torch::Tensor& root : eager_roots) {
    eager_tangents.push_back(torch::arange(1, root.numel() + 1, torch::kFloat).view_as(root));
    tangents.push_back(*ToCotan(eager_tangents.back()));
  }
  const auto gradients = autograd::Grad(roots, {leaf}, tangents, loaded.session.ops());
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  ExpectSame((*gradients)[0], torch::autograd::grad(eager_roots, {eager.leaf}, eager_tangents)[0]);
}

class SharedArguments : public ::testing::TestWithParam<Case> {};

TEST_P(SharedArguments, AreThoseOfEagerAtEverySize) {
  const Case& c = GetParam();
  auto loaded = CompileCase(c);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const int64_t n : c.sizes) {
    SCOPED_TRACE(n);
    CallAndCompare(c, *loaded, n);
  }
}

const auto kSame = [](int64_t n) { return n; };
const auto kTwice = [](int64_t n) { return 2 * n; };
const auto kTwoMore = [](int64_t n) { return n + 2; };
const auto kAll = [](int64_t n) { return Row(n, 0); };
const auto kFromTwo = [](int64_t n) { return Row(n, 2); };
const auto kDouble = [](int64_t n) { return Row(2 * n, 0); };
const auto kBytes = [](int64_t n) { return Row(4 * n, 0); };
constexpr int64_t kSign = std::numeric_limits<int32_t>::min();

Tensors WriteX(const Tensors& in) {
  in[0].mul_(2);
  return {in[1] + 1};
}
Tensors WriteY(const Tensors& in) {
  in[1].bitwise_xor_(kSign);
  return {in[0] * 3};
}
Tensors WriteBoth(const Tensors& in) {
  const torch::Tensor before = in[0] * 2;
  in[0].mul_(2);
  in[1].bitwise_xor_(kSign);
  in[0].add_(1);
  return {before, in[1] - 1, in[0] * in[0]};
}
Tensors ReadBetween(const Tensors& in) {
  in[0].add_(1);
  const torch::Tensor between = in[1] * 2;
  in[0].mul_(3);
  return {between, in[1] + in[0]};
}
Tensors AddToY(const Tensors& in) {
  in[1].add_(1);
  return {in[0] + 1};
}

std::vector<Case> Cases() {
  const std::vector<int64_t> many = {6, 4, 5, 9, 16, 40};
  const Place floats{torch::kFloat, kAll};
  const Place ints{torch::kInt, kAll};
  return {
      {"FloatWrittenIntRead", WriteX, torch::kFloat, kSame, floats, ints},
      {"FloatWrittenIntReadGrad", WriteX, torch::kFloat, kSame, floats, ints, true},
      {"IntWrittenFloatRead", WriteY, torch::kFloat, kSame, floats, ints},
      {"IntWrittenFloatReadGrad", WriteY, torch::kFloat, kSame, floats, ints, true},
      {"BothWritten", WriteBoth, torch::kFloat, kSame, floats, ints},
      {"BothWrittenGrad", WriteBoth, torch::kFloat, kSame, floats, ints, true},
      {"PartsOfIntsAndFloats", WriteBoth, torch::kFloat, kTwoMore, floats, {torch::kInt, kFromTwo}},
      {"BytesOfFloats", WriteX, torch::kFloat, kSame, floats, {torch::kByte, kBytes}},
      {"BytesOfFloatsGrad", WriteX, torch::kFloat, kSame, floats, {torch::kByte, kBytes}, true},
      {"HalvesOfLongs", AddToY, torch::kLong, kSame, {torch::kLong, kAll}, {torch::kInt, kDouble}},
      {"LongsOfHalves", WriteX, torch::kLong, kSame, {torch::kLong, kAll}, {torch::kInt, kDouble}},
      {"DynamicSlices", ReadBetween, torch::kFloat, kTwoMore, floats, {torch::kFloat, kFromTwo}, false, true, many},
      {"DynamicSlicesGrad", ReadBetween, torch::kFloat, kTwoMore, floats, {torch::kFloat, kFromTwo}, true, true, many},
      {"DynamicStrides",
       ReadBetween,
       torch::kFloat,
       kTwice,
       {torch::kFloat, [](int64_t n) { return Row(n, 0, 2); }},
       {torch::kFloat, [](int64_t n) { return Row(n, n - 1); }},
       true,
       true,
       many},
      {"DynamicBits", WriteBoth, torch::kFloat, kSame, floats, ints, true, true, many},
  };
}

INSTANTIATE_TEST_SUITE_P(Arrangements, SharedArguments, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// --- refusals --------------------------------------------------------------------

TEST(SharedArgumentsTest, AnotherArrangementIsRefusedBeforeAnythingIsWritten) {
  const Case c{
      .name = "bits", .function = WriteX, .elements = kSame, .x = {torch::kFloat, kAll}, .y = {torch::kInt, kAll}};
  auto loaded = CompileCase(c);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const Variable x(*ToCotan(torch::ones({6})));
  const absl::Status apart = loaded->function.Call({x, Variable(*ToCotan(torch::ones({6}, torch::kInt)))}).status();
  EXPECT_EQ(apart.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(apart.message()), HasSubstr("shared memory with"));
  EXPECT_EQ(*x.tensor().ToVector<float>(), std::vector<float>(6, 1.0f));
}

TEST(SharedArgumentsTest, DynamicExamplesThatShareMemoryNeedAFunction) {
  const torch::Tensor all = torch::ones({8});
  aot::CompileOptions options;
  options.dynamic_dims = {{.argument = 0, .dim = 0, .symbol = "n", .min = 4}, {.argument = 1, .dim = 0, .symbol = "n"}};
  const auto model =
      aot::CompileFunction(aot::TensorFunction(WriteX), {all.narrow(0, 0, 6), all.narrow(0, 2, 6)}, options);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("examples_at_sizes"));
}

TEST(SharedArgumentsTest, ExamplesOfOtherSizesAreRefused) {
  aot::CompileOptions options;
  options.dynamic_dims = {{.argument = 0, .dim = 0, .symbol = "n", .min = 4}};
  options.examples_at_sizes = [](const std::map<std::string, int64_t>&) { return Tensors{torch::ones({3})}; };
  const auto model = aot::CompileFunction([](torch::Tensor x) { return x + 1; }, {torch::ones({6})}, options);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(model.status().message()), HasSubstr("examples_at_sizes: example 0 has the sizes [3]"));
}

}  // namespace
}  // namespace cotan::testing
