// SPDX-License-Identifier: Apache-2.0

// Calls compiled functions with numbers as arguments, beside LibTorch eager with the same numbers: one artifact,
// compiled once, for all of them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "aot/compile.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "serialization/schema/tensor_type.h"
#include "testing/e2e/compiled_trainer.h"

namespace cotan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Tensors = std::vector<torch::Tensor>;
using c10::SymBool;
using c10::SymFloat;
using c10::SymInt;

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// A function, and the values that its number gets in turn. The first value is that of the example.
struct Case {
  std::string name;
  aot::TensorFunction function;
  std::vector<double> doubles = {};
  std::vector<int64_t> integers = {};
  torch::ScalarType dtype = torch::kFloat;  // of x and y

  size_t size() const { return doubles.size() + integers.size(); }
  torch::Tensor number(size_t i) const { return doubles.empty() ? aot::Number(integers[i]) : aot::Number(doubles[i]); }
};

void PrintTo(const Case& c, std::ostream* os) { *os << c.name; }

// Returns x, y of sizes [2, 3]: leaves that require grad if they are floating-point.
Tensors Operands(torch::ScalarType dtype) {
  Tensors operands;
  const torch::Tensor values = torch::tensor({{0.5, -1.5, 2.0}, {-0.25, 3.0, 0.75}}, torch::kDouble);
  for (const torch::Tensor& v : {values, values.flip(1) * 2}) {
    torch::Tensor operand = v.to(dtype);
    if (operand.is_floating_point()) operand.requires_grad_();
    operands.push_back(operand);
  }
  return operands;
}

// A loaded artifact of one function.
struct Loaded {
  std::unique_ptr<Session> session;
  std::unique_ptr<Function> function;
};

absl::StatusOr<Loaded> Load(const aot::CompiledModel& model) {
  COTAN_ASSIGN_OR_RETURN(const auto program, Program::LoadBytes(model.bytes()));
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, {.kernels = &CpuKernels(), .threads = 1}));
  Loaded loaded;
  loaded.session = std::make_unique<Session>(std::move(session));
  COTAN_ASSIGN_OR_RETURN(Function function, Function::Create(*loaded.session, "forward"));
  loaded.function = std::make_unique<Function>(std::move(function));
  return loaded;
}

absl::StatusOr<Loaded> CompileAndLoad(const aot::TensorFunction& function, const Tensors& examples,
                                      const aot::CompileOptions& options = {}) {
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel model, aot::CompileFunction(function, examples, options));
  return Load(model);
}

void ExpectSame(const torch::Tensor& actual, const torch::Tensor& expected) {
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type());
  ASSERT_EQ(actual.sizes(), expected.sizes());
  EXPECT_TRUE(torch::allclose(actual.to(torch::kDouble), expected.to(torch::kDouble), 2e-6, 1e-6, /*equal_nan=*/true))
      << actual << "\nexpected\n"
      << expected;
}

Variable ToVariable(const torch::Tensor& tensor) {
  if (!tensor.requires_grad()) return Variable(*ToCotan(tensor));
  return *Variable::Leaf(*ToCotan(tensor));
}

// Compares results and gradients of a call.
void ExpectLikeEager(Loaded& loaded, const aot::TensorFunction& function, const Tensors& inputs) {
  const Tensors expected = function(inputs);
  std::vector<Variable> arguments;
  for (const torch::Tensor& input : inputs) arguments.push_back(ToVariable(input));
  const auto results = loaded.function->Call(arguments);
  ASSERT_TRUE(results.ok()) << results.status();
  ASSERT_EQ(results->size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    SCOPED_TRACE(i);
    const Variable& result = std::get<Variable>((*results)[i]);
    ExpectSame(*ToTorch(result.tensor()), expected[i].detach());
    ASSERT_EQ(result.requires_grad(), expected[i].requires_grad());
    if (!expected[i].requires_grad()) continue;
    Tensors leaves;
    std::vector<Variable> variables;
    for (size_t k = 0; k < inputs.size(); ++k) {
      if (!inputs[k].requires_grad()) continue;
      leaves.push_back(inputs[k]);
      variables.push_back(arguments[k]);
    }
    const torch::Tensor tangent =
        torch::linspace(1, 2, expected[i].numel(), expected[i].options()).view_as(expected[i]);
    const auto wanted = torch::autograd::grad({expected[i]}, leaves, {tangent}, /*retain_graph=*/true, false, true);
    const auto got = autograd::Grad({result}, variables, {*ToCotan(tangent)}, loaded.session->ops(),
                                    {.retain_graph = true, .allow_unused = true});
    ASSERT_TRUE(got.ok()) << got.status();
    for (size_t k = 0; k < wanted.size(); ++k) {
      ASSERT_EQ((*got)[k].defined(), wanted[k].defined()) << k;
      if (wanted[k].defined()) ExpectSame(*ToTorch((*got)[k]), wanted[k]);
    }
  }
}

class NumberArgument : public ::testing::TestWithParam<Case> {};

TEST_P(NumberArgument, EveryValueIsThatOfEager) {
  const Case& c = GetParam();
  Tensors examples = Operands(c.dtype);
  examples.push_back(c.number(0));
  auto loaded = CompileAndLoad(c.function, examples);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (size_t i = 0; i < c.size(); ++i) {
    SCOPED_TRACE(c.doubles.empty() ? std::to_string(c.integers[i]) : std::to_string(c.doubles[i]));
    Tensors inputs = Operands(c.dtype);
    inputs.push_back(c.number(i));
    ExpectLikeEager(*loaded, c.function, inputs);
  }
}

// Wraps a callable of x, y and a number.
template <typename Callable>
aot::TensorFunction Of(Callable callable) {
  return aot::AdaptFunction(std::move(callable));
}

using torch::Tensor;
const std::vector<double> kAny = {0.5, -3.25, 0.0, 1e-30, 1e30, kInf, -kInf, kNan};
const std::vector<double> kPlain = {0.5, -3.25, 0.125, 4};
const std::vector<int64_t> kIntegers = {3, -2, 1, int64_t{1} << 40, -(int64_t{1} << 62) - 1};

const Case kCases[] = {
    {"times", Of([](Tensor x, Tensor y, SymFloat a) { return x * a + y; }), kAny},
    {"timesF64", Of([](Tensor x, Tensor y, SymFloat a) { return x * a + y; }), kAny, {}, torch::kDouble},
    {"timesOfIntegers", Of([](Tensor x, Tensor y, SymFloat a) { return x * a + y; }), {0.5, -3.25}, {}, torch::kLong},
    {"plus", Of([](Tensor x, Tensor y, SymFloat a) { return (x + a) * y; }), kAny},
    {"alpha", Of([](Tensor x, Tensor y, SymFloat a) { return torch::add(x, y, a); }), kAny},
    {"alphaOfSub", Of([](Tensor x, Tensor y, SymFloat a) { return torch::sub(x, y, a); }), kPlain},
    {"alphaOfRsub", Of([](Tensor x, Tensor y, SymFloat a) { return torch::rsub(x, y, a); }), kPlain},
    {"minusFrom", Of([](Tensor x, Tensor y, SymFloat a) { return (a - x) * y; }), kAny},
    {"over", Of([](Tensor x, Tensor y, SymFloat a) { return x / a + y; }), {0.5, -3, kInf, kNan}},
    {"overTensor", Of([](Tensor x, Tensor y, SymFloat a) { return a / x + y; }), kPlain},
    {"floorDivide",
     Of([](Tensor x, Tensor y, SymFloat a) { return torch::div(x, at::Scalar(a), "floor") + y; }),
     {0.5, -3.25, 0.125}},
    {"remainder", Of([](Tensor x, Tensor y, SymFloat a) { return torch::remainder(x, a) * y; }), {0.5, -3.25, 0.125}},
    {"power", Of([](Tensor x, Tensor y, SymFloat a) { return x.abs().pow(a) * y; }), {0.5, 2, 3, 0, -1.5}},
    {"powerOfNumber", Of([](Tensor x, Tensor y, SymFloat a) { return torch::pow(a, x) * y; }), {0.5, 2, 3}},
    {"compare", Of([](Tensor x, Tensor y, SymFloat a) { return torch::where(x > a, x, y); }), {0.5, -3.25, kInf, kNan}},
    {"equal", Of([](Tensor x, Tensor y, SymFloat a) { return torch::where(x == a, x * 2, y); }), {0.5, -1.5, kNan}},
    {"whereNumber", Of([](Tensor x, Tensor y, SymFloat a) { return torch::where(x > 0, x * y, at::Scalar(a)); }), kAny},
    {"clampMin", Of([](Tensor x, Tensor y, SymFloat a) { return torch::clamp_min(x, a) * y; }), {0.6, -3.25, 10}},
    {"clamp",
     Of([](Tensor x, Tensor y, SymFloat a) { return torch::clamp(x, at::Scalar(-1), at::Scalar(a)) * y; }),
     {0.6, 3.25, 10}},
    {"maskedFill", Of([](Tensor x, Tensor y, SymFloat a) { return x.masked_fill(y > 0, a) + y; }), kAny},
    {"lerp", Of([](Tensor x, Tensor y, SymFloat a) { return torch::lerp(x, y, at::Scalar(a)); }), kPlain},
    {"inPlace",
     Of([](Tensor x, Tensor y, SymFloat a) { return (x * 1).mul_(a).add_(y, a).clamp_max_(a); }),
     {0.5, -3.25, 4}},
    {"fill", Of([](Tensor x, Tensor y, SymFloat a) { return torch::full_like(x, a) * y; }), kAny},
    {"full", Of([](Tensor x, Tensor y, SymFloat a) {
       return torch::full({2, 3}, a) * x + y;
     }),
     kPlain},
    {"fused",
     Of([](Tensor x, Tensor y, SymFloat a) { return torch::addcmul(x, y, y, a) + torch::addcdiv(x, x, y, a); }),
     kPlain},
    {"addmm",
     Of([](Tensor x, Tensor y, SymFloat a) { return torch::addmm(x.select(0, 0), y, x.t().matmul(x), a, a); }),
     {0.5, -3.25, 0}},
    {"leakyRelu", Of([](Tensor x, Tensor y, SymFloat a) { return torch::leaky_relu(x, a) * y; }), {0.5, 0.01, -2}},
    {"threshold",
     Of([](Tensor x, Tensor y, SymFloat a) { return torch::threshold(x, a, at::Scalar(a)) * y; }),
     {0.6, -1}},
    {"arithmetic", Of([](Tensor x, Tensor y, SymFloat a) {
       const SymFloat b = (SymFloat(1) - a) * a / 3 + a.min(2);
       return x * b + y * a;
     }),
     kAny},
    {"reduced", Of([](Tensor x, Tensor y, SymFloat a) { return (x * a).sum() + y.sum() * a; }), {0.5, -3.25}},
    {"scalarOfF32", Of([](Tensor x, Tensor y, SymFloat a) { return x.sum() * a + y.sum(); }), {0.1, -3.25}},
    {"asTensor", Of([](Tensor x, Tensor y, Tensor a) { return x * a + y; }), kAny},
    {"integerTimes", Of([](Tensor x, Tensor y, SymInt n) { return x * n + y; }), {}, kIntegers},
    {"integerTimesIntegers", Of([](Tensor x, Tensor y, SymInt n) { return x * n + y; }), {}, kIntegers, torch::kLong},
    {"integerOverIntegers", Of([](Tensor x, Tensor y, SymInt n) { return x / n + y; }), {}, {3, -2}, torch::kLong},
    {"integerCompare",
     Of([](Tensor x, Tensor y, SymInt n) { return torch::where(x >= n, x + n, y - n); }),
     {},
     kIntegers,
     torch::kLong},
    {"integerArithmetic",
     Of([](Tensor x, Tensor y, SymInt n) { return x * ((n + 5) / 3 - n % 4 * 2) + y; }),
     {},
     {3, 8, 17, 1}},
    {"eitherKind", Of([](Tensor x, Tensor y, at::Scalar n) { return x * n + y; }), {}, {3, -2}, torch::kLong},
};

INSTANTIATE_TEST_SUITE_P(Functions, NumberArgument, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return info.param.name; });

TEST(NumberArguments, BoolsAndSeveralNumbers) {
  const auto function = aot::AdaptFunction([](Tensor x, SymBool sign, SymFloat a, SymInt n) {
    return std::vector<Tensor>{x * a - n, x * sign};
  });
  const auto inputs = [](bool sign, double a, int64_t n) {
    return Tensors{Operands(torch::kFloat)[0], aot::Number(sign), aot::Number(a), aot::Number(n)};
  };
  auto loaded = CompileAndLoad(function, inputs(true, 0.5, 2));
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectLikeEager(*loaded, function, inputs(true, 0.5, 2));
  ExpectLikeEager(*loaded, function, inputs(false, -7.5, -3));
}

TEST(NumberArguments, AreInputsOfTheProgram) {
  const auto function = aot::AdaptFunction([](Tensor x, SymFloat a, SymInt n, SymBool b) { return x * a * n * b; });
  const auto model = aot::CompileFunction(
      function, {torch::ones({2}), aot::Number(0.5), aot::Number(2), aot::Number(true)}, aot::CompileOptions());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto program = *Program::LoadBytes(model->bytes());
  const serialization::Method& method = program->method(*program->FindMethod("forward"));
  std::vector<std::string> types;
  for (const uint32_t input : method.inputs()) {
    types.push_back(TensorTypeText(method.values(static_cast<int>(input)).type()));
  }
  EXPECT_THAT(types, ::testing::ElementsAre("f32[2]", "f64[]", "i64[]", "bool[]"));
}

TEST(NumberArguments, CallsTakeThemInBraces) {
  const auto function = aot::AdaptFunction([](Tensor x, SymFloat a, SymInt n, SymBool b) { return x * a * n * b; });
  const Tensor x = torch::tensor({1.0f, -2.0f});
  auto loaded = CompileAndLoad(function, {x, aot::Number(0.5), aot::Number(2), aot::Number(true)});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  const auto ran = loaded->session->Run("forward", {*ToCotan(x), 0.25, -3, true});
  ASSERT_TRUE(ran.ok()) << ran.status();
  ExpectSame(*ToTorch((*ran)[0]), x * 0.25 * -3);
  const auto called = loaded->function->Call({Variable(*ToCotan(x)), 4, 5, true});
  ASSERT_TRUE(called.ok()) << called.status();
  ExpectSame(*ToTorch(std::get<Variable>((*called)[0]).tensor()), x * 20);

  const absl::Status fraction = loaded->session->Run("forward", {*ToCotan(x), 0.25, 2.5, true}).status();
  EXPECT_EQ(fraction.message(), "argument 'input.2': expected i64[], got the number 2.5");
  const absl::Status truth = loaded->function->Call({Variable(*ToCotan(x)), 0.25, 2, 1}).status();
  EXPECT_EQ(truth.message(), "argument 'input.3': expected bool[], got the integer 1");
  EXPECT_FALSE(loaded->function->Call({Variable(*ToCotan(x)), 0.25, 2, true, 1}).ok());
}

// --- refusals --------------------------------------------------------------------

std::string Refusal(const aot::TensorFunction& function, const torch::Tensor& number) {
  const auto model = aot::CompileFunction(function, {torch::ones({4, 3}), number}, aot::CompileOptions());
  return model.ok() ? "compiled" : std::string(model.status().message());
}

TEST(NumberArguments, ControlFlowIsRefusedByTheNameOfTheNumber) {
  EXPECT_THAT(Refusal(Of([](Tensor x, SymFloat a) { return a > 0.25 ? x * 2 : x; }), aot::Number(0.5)),
              AllOf(HasSubstr("the number '(input.1 > 0.25)': it decides what the function does next"),
                    HasSubstr("torch::where")));
}

TEST(NumberArguments, SizesAreRefusedByTheNameOfTheNumber) {
  EXPECT_THAT(
      Refusal(Of([](Tensor x, SymInt n) { return x.narrow_symint(0, 0, n); }), aot::Number(2)),
      AllOf(HasSubstr("the number 'input.1': it is the argument 'length' of aten.narrow"), HasSubstr("SizeNumber")));
  EXPECT_THAT(Refusal(Of([](Tensor x, SymInt n) { return x + torch::arange(n).sum(); }), aot::Number(2)),
              HasSubstr("the number 'input.1': it is the argument 'end' of aten.arange"));
  EXPECT_THAT(Refusal(Of([](Tensor x, SymInt n) {
                        return x.expand_symint({n * 2, 4, 3});
                      }),
                      aot::Number(2)),
              HasSubstr("the number '(input.1 * 2)'"));
}

TEST(NumberArguments, SettingsOfOpsAreRefused) {
  EXPECT_THAT(Refusal(Of([](Tensor x, SymFloat a) { return torch::elu(x, a); }), aot::Number(0.5)),
              HasSubstr("the number 'input.1': it is the argument 'alpha' of aten.elu.default, which has no form"));
  EXPECT_THAT(
      Refusal(Of([](Tensor x, SymFloat a) { return torch::dropout(x, a.guard_float("", 0), true); }), aot::Number(0.5)),
      HasSubstr("the number 'input.1': it is read, as a double"));
}

TEST(NumberArguments, AnExampleOfAnotherKindIsRefused) {
  EXPECT_THAT(Refusal(Of([](Tensor x, SymFloat a) { return x * a; }), aot::Number(2)),
              HasSubstr("input.1 is a number (double), but its example is not"));
  EXPECT_THAT(Refusal(Of([](Tensor x, SymInt a) { return x * a; }), torch::ones({4})),
              HasSubstr("input.1 is a number (int64_t), but its example is not"));
}

// --- numbers that decide sizes -----------------------------------------------------

TEST(SizeNumbers, AreDynamicDimensions) {
  const auto function = aot::AdaptFunction([](Tensor x, SymInt n) {
    const Tensor rows = x.narrow_symint(0, 0, n);
    return std::vector<Tensor>{rows * n, rows.sum(0) / n, torch::arange(n) + 1};
  });
  aot::CompileOptions options;
  options.dynamic_dims = {{.argument = 1, .dim = 0, .symbol = "n", .min = 1, .max = 7}};
  const auto inputs = [](int64_t n) {
    return Tensors{torch::linspace(-1, 1, 21).view({7, 3}).requires_grad_(), aot::SizeNumber(n)};
  };
  auto loaded = CompileAndLoad(function, inputs(4), options);
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  for (const int64_t n : {1, 2, 3, 5, 7}) {
    SCOPED_TRACE(n);
    ExpectLikeEager(*loaded, function, inputs(n));
  }
  const auto outside = loaded->function->Call({ToVariable(inputs(1)[0]), ToVariable(aot::SizeNumber(8))});
  EXPECT_EQ(outside.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(outside.status().message()), HasSubstr("'n' in [1, 7], got 8"));
}

TEST(SizeNumbers, WithoutADynamicDimensionTheValueIsChecked) {
  const auto function = aot::AdaptFunction([](Tensor x, SymInt n) { return x.narrow_symint(0, 0, n); });
  auto loaded = CompileAndLoad(function, {torch::ones({7, 3}), aot::SizeNumber(4)});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  ExpectLikeEager(*loaded, function, {torch::ones({7, 3}), aot::SizeNumber(4)});
  const auto other = loaded->function->Call({Variable(*ToCotan(torch::ones({7, 3}))), ToVariable(aot::SizeNumber(5))});
  EXPECT_EQ(other.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(other.status().message()), HasSubstr("expected i64[4,0], got i64[5,0]"));
}

}  // namespace
}  // namespace cotan::testing
