// Every pointwise row of the op table against LibTorch, over dtypes, shapes
// (0-d, empty, broadcast) and strides. Arguments follow from the schema.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <functional>
#include <set>

#include "absl/strings/str_split.h"
#include "aot/lower/op_table.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/reference/register_reference.h"
#include "testing/ops/op_runner.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

const KernelRegistry& ReferenceKernels() {
  static const KernelRegistry& registry = *[] {
    auto* kernels = new KernelRegistry;
    EXPECT_TRUE(RegisterReferenceKernels(*kernels).ok());
    return kernels;
  }();
  return registry;
}

// The k-th tensor argument of a case.
struct Shape {
  const char* name;
  std::function<at::Tensor(int k, at::ScalarType dtype)> make;
};

at::Tensor Values(at::IntArrayRef sizes, at::ScalarType dtype) {
  if (dtype == at::kBool) return at::randint(0, 2, sizes, at::kLong).to(at::kBool);
  if (!at::isFloatingType(dtype)) {
    // No zeros, which integers cannot be divided by.
    const at::Tensor x = at::randint(1, 6, sizes, at::kLong);
    return (dtype == at::kByte ? x : x * (at::randint(0, 2, sizes, at::kLong) * 2 - 1)).to(dtype);
  }
  return (at::rand(sizes, at::kDouble) * 6 - 3).to(dtype);
}

std::vector<Shape> Shapes() {
  return {
      {"0-d", [](int, at::ScalarType dtype) { return Values({}, dtype); }},
      {"empty", [](int, at::ScalarType dtype) { return Values({2, 0, 3}, dtype); }},
      {"vector", [](int, at::ScalarType dtype) { return Values({1500}, dtype); }},
      {"matrix", [](int, at::ScalarType dtype) { return Values({6, 34}, dtype); }},
      {"broadcast", [](int k, at::ScalarType dtype) { return k % 2 == 0 ? Values({3, 1, 5}, dtype) : Values({4, 1}, dtype); }},
      {"transposed", [](int k, at::ScalarType dtype) {
         return k % 2 == 0 ? Values({8, 6, 5}, dtype).transpose(0, 2) : Values({5, 6, 8}, dtype);
       }},
      {"channels last", [](int, at::ScalarType dtype) {
         return Values({2, 4, 3, 5}, dtype).contiguous(at::MemoryFormat::ChannelsLast);
       }},
      {"expanded slice", [](int k, at::ScalarType dtype) {
         return k % 2 == 0 ? Values({1, 20}, dtype).expand({7, 20}).slice(1, 1, 19, 2) : Values({7, 9}, dtype);
       }},
  };
}

// A value for an argument without tensors; None if there is none to be guessed.
c10::IValue GuessArgument(const c10::Argument& argument, at::ScalarType dtype) {
  if (argument.default_value().has_value()) return *argument.default_value();
  switch (argument.type()->kind()) {
    case c10::TypeKind::NumberType:
      return at::isFloatingType(dtype) ? at::Scalar(0.75) : at::Scalar(2);
    case c10::TypeKind::FloatType:
      return 0.75;
    case c10::TypeKind::IntType:
      return argument.name() == "reduction" ? 1 : 0;
    case c10::TypeKind::BoolType:
      return false;
    default:
      return c10::IValue();
  }
}

OpArguments MakeArguments(const c10::FunctionSchema& schema, const Shape& shape, at::ScalarType dtype) {
  OpArguments stack;
  int tensors = 0;
  for (const c10::Argument& argument : schema.arguments()) {
    const bool is_tensor = argument.type()->kind() == c10::TypeKind::TensorType;
    const bool is_condition = argument.name() == "condition" || argument.name() == "mask";
    if (is_tensor) {
      stack.emplace_back(shape.make(tensors++, is_condition ? at::kBool : dtype));
    } else {
      stack.push_back(GuessArgument(argument, dtype));
    }
  }
  return stack;
}

class PointwiseTest : public ::testing::TestWithParam<std::string> {};

TEST_P(PointwiseTest, AgreesWithLibTorch) {
  const std::string& op = GetParam();
  const std::vector<std::string> parts = absl::StrSplit(op, '.');
  const auto handle = c10::Dispatcher::singleton().findSchemaOrThrow(
      ("aten::" + parts[1]).c_str(), parts[2] == "default" ? "" : parts[2].c_str());
  constexpr uint64_t kSeed = 20;
  RecordProperty("seed", static_cast<int>(kSeed));
  at::manual_seed(kSeed);
  int compared = 0;
  for (const at::ScalarType dtype : {at::kFloat, at::kDouble, at::kLong, at::kInt, at::kShort, at::kChar, at::kByte, at::kBool}) {
    for (const Shape& shape : Shapes()) {
      const OpArguments arguments = MakeArguments(handle.schema(), shape, dtype);
      for (const KernelRegistry* kernels : {&CpuKernels(), &ReferenceKernels()}) {
        const OpOutcome outcome = RunOpBothWays(op, arguments, *kernels);
        if (outcome.kind == OpOutcome::Kind::kRefusedByLibTorch) break;
        EXPECT_EQ(outcome.kind, OpOutcome::Kind::kCompared) << at::toString(dtype) << ", " << shape.name << ": " << outcome.message;
        EXPECT_LE(outcome.error, kTranscendental) << at::toString(dtype) << ", " << shape.name << ": " << outcome.message
                                                  << (kernels == &CpuKernels() ? " (cpu)" : " (reference)");
        ++compared;
      }
    }
  }
  EXPECT_GT(compared, 0) << "LibTorch refused all arguments";
}

// Rows whose arguments cannot be guessed: explicit_test.cc has cases for them.
const std::set<std::string>& ExplicitOps() {
  static const std::set<std::string>& ops = *new std::set<std::string>{
      "aten.clamp.Tensor",       "aten.clamp.default",         "aten.diagonal_backward.default",
      "aten.diagonal_scatter.default", "aten.glu_backward.default", "aten.select_backward.default",
      "aten.select_scatter.int", "aten.select_scatter.default",
      // LibTorch's second result is a buffer of its own, which ours need not be.
      "aten.log_sigmoid_forward.default", "aten.log_sigmoid_backward.default",
      // LibTorch computes 1 / 6 in f32 even for f64.
      "aten.hardsigmoid_backward.default"};
  return ops;
}

std::vector<std::string> PointwiseOps() {
  std::vector<std::string> ops;
  for (const aot::OpRow& row : aot::OpTable()) {
    const std::string op(row.op);
    if (row.family == aot::OpFamily::kPointwise && row.op.substr(0, 5) == "aten." && ExplicitOps().count(op) == 0) {
      ops.push_back(op);
    }
  }
  return ops;
}

INSTANTIATE_TEST_SUITE_P(OpTable, PointwiseTest, ::testing::ValuesIn(PointwiseOps()), [](const auto& info) {
  std::string name = info.param.substr(5);
  for (char& c : name) {
    if (c == '.') c = '_';
  }
  return name;
});

}  // namespace
}  // namespace cotan::testing
