// SPDX-License-Identifier: Apache-2.0

#include "kernels/api/expr_program.h"

#include <vector>

#include "gtest/gtest.h"
#include "kernels/testing/expr_builder.h"

namespace cotan {
namespace {

using namespace serialization;  // NOLINT
using testing::ExprBuilder;

constexpr DType kF32 = DType::kFloat32;

TensorSpec Spec(DType dtype, DimVector sizes) {
  DimVector strides = ContiguousStrides(sizes);
  return {dtype, {std::move(sizes), std::move(strides)}};
}

absl::StatusOr<ExprProgram> Resolve(const ExprBuilder& b, const std::vector<TensorSpec>& in,
                                    const std::vector<TensorSpec>& out, const std::vector<int64_t>& symbols = {}) {
  const Op op = b.Build();
  return ResolveExpr({op, in, out, symbols});
}

void ExpectRejected(const absl::Status& status, absl::string_view words) {
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_NE(status.message().find(words), absl::string_view::npos) << status;
}

TEST(ExprProgramTest, FunctionsThatCallLibmAreNotCheap) {
  for (const ScalarFn fn : {FN_INPUT, FN_CAST, FN_SQRT, FN_RELU, FN_ADD, FN_DIV, FN_FLOOR_DIV, FN_SELECT, FN_EQ}) {
    EXPECT_TRUE(IsCheapExprFn(fn)) << ExprFnName(fn);
  }
  for (const ScalarFn fn : {FN_EXP, FN_LOGISTIC, FN_POW, FN_ATAN2, FN_REMAINDER, FN_FMOD, FN_HYPOT, FN_RANDOM_UNIFORM,
                            FN_REDUCE_SUM, SCALAR_FN_UNSPECIFIED}) {
    EXPECT_FALSE(IsCheapExprFn(fn)) << ExprFnName(fn);
  }
}

// Every function of the enumeration has its properties.
TEST(ExprProgramTest, EveryFunctionHasFacts) {
  for (int number = ScalarFn_MIN + 1; number <= ScalarFn_MAX; ++number) {
    if (!ScalarFn_IsValid(number)) continue;
    EXPECT_GE(ExprArity(static_cast<ScalarFn>(number)), 0) << ExprFnName(static_cast<ScalarFn>(number));
  }
}

TEST(ExprProgramTest, LevelsFollowFromInputsAndReductions) {
  const int reduce[] = {1};
  ExprBuilder b({2, 3}, reduce);
  const int x = b.Input(0, kF32);
  const int row = b.Input(1, kF32);
  const int scaled = b.Mul(row, b.Constant(kF32, 2));
  const int sum = b.Sum(x);
  b.Output(b.Add(x, scaled));
  b.Output(b.Add(sum, scaled));
  const auto program = Resolve(b, {Spec(kF32, {2, 3}), Spec(kF32, {2, 1})}, {Spec(kF32, {2, 3}), Spec(kF32, {2, 1})});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->nodes[static_cast<size_t>(x)].level, ExprLevel::kFull);
  EXPECT_EQ(program->nodes[static_cast<size_t>(row)].level, ExprLevel::kReduced);
  EXPECT_EQ(program->nodes[static_cast<size_t>(scaled)].level, ExprLevel::kReduced);
  EXPECT_EQ(program->nodes[static_cast<size_t>(sum)].level, ExprLevel::kReduced);
  EXPECT_EQ(program->reduced_sizes, (DimVector{2, 1}));
}

TEST(ExprProgramTest, NumbersComputedFromSizesAreConstants) {
  ExprBuilder b({4});
  const int quotient = b.Div(b.Constant(DType::kFloat64, 1), b.Size(DType::kFloat64, "(s0 + 5)"));
  const int narrow = b.Cast(quotient, kF32);
  b.Output(b.Mul(b.Input(0, kF32), narrow));
  const auto program = Resolve(b, {Spec(kF32, {4})}, {Spec(kF32, {4})}, {3});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->nodes[static_cast<size_t>(quotient)].fn, FN_CONSTANT);
  EXPECT_EQ(program->nodes[static_cast<size_t>(narrow)].fn, FN_CONSTANT);
  EXPECT_EQ(program->nodes[static_cast<size_t>(narrow)].float_value, 1.0 / 8);
}

TEST(ExprProgramTest, SizesAreEvaluated) {
  ExprBuilder b({4});
  b.expr().set_domain_sizes(0, "(s0 * 2)");
  b.Output(b.Size(DType::kInt64, "(s0 + 5)"));
  const auto program = Resolve(b, {}, {Spec(DType::kInt64, {6})}, {3});
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->nodes[0].int_value, 8);
  EXPECT_EQ(program->domain_sizes, (DimVector{6}));
  EXPECT_FALSE(Resolve(b, {}, {Spec(DType::kInt64, {6})}, {}).ok());
}

TEST(ExprProgramTest, OperandsThatDoNotPrecedeAreRejected) {
  ExprBuilder b({4});
  const int x = b.Input(0, kF32);
  b.Output(b.Add(x, x));
  b.expr().mutable_instructions(1)->set_operands(1, 1);
  ExpectRejected(Resolve(b, {Spec(kF32, {4})}, {Spec(kF32, {4})}).status(), "does not precede");
}

TEST(ExprProgramTest, IndexesOutOfRangeAreRejected) {
  ExprBuilder input({4});
  input.Output(input.Input(1, kF32));
  ExpectRejected(Resolve(input, {Spec(kF32, {4})}, {Spec(kF32, {4})}).status(), "names input 1 of 1");
  ExprBuilder iota({4});
  iota.Output(iota.Iota(DType::kInt64, 1));
  ExpectRejected(Resolve(iota, {}, {Spec(DType::kInt64, {4})}).status(), "dimension 1 of 1");
  ExprBuilder output({4});
  output.Input(0, kF32);
  output.Output(7);
  ExpectRejected(Resolve(output, {Spec(kF32, {4})}, {Spec(kF32, {4})}).status(), "output 0 names instruction 7");
  const int reduce[] = {3};
  ExprBuilder dims({4}, reduce);
  ExpectRejected(Resolve(dims, {}, {}).status(), "reduce_dims");
}

TEST(ExprProgramTest, DTypesAreChecked) {
  ExprBuilder b({4});
  const int x = b.Input(0, DType::kInt64);
  b.Output(b.Apply(FN_EXP, {x}));
  ExpectRejected(Resolve(b, {Spec(DType::kInt64, {4})}, {Spec(DType::kInt64, {4})}).status(),
                 "(exp): does not take i64");
  ExprBuilder mixed({4});
  mixed.Output(mixed.Add(mixed.Input(0, kF32), mixed.Input(1, DType::kFloat64)));
  ExpectRejected(Resolve(mixed, {Spec(kF32, {4}), Spec(DType::kFloat64, {4})}, {Spec(DType::kFloat64, {4})}).status(),
                 "operands are f32 and f64");
  ExprBuilder shift({4});
  const int flag = shift.Input(0, DType::kBool);
  shift.Output(shift.Apply(FN_SHIFT_LEFT, {flag, flag}));
  ExpectRejected(Resolve(shift, {Spec(DType::kBool, {4})}, {Spec(DType::kBool, {4})}).status(), "does not take bool");
}

TEST(ExprProgramTest, EightBitFloatsAreOnlyLoadedStoredAndConverted) {
  constexpr DType kF8 = DType::kFloat8E4m3fn;
  ExprBuilder cast({4});
  cast.Output(cast.Cast(cast.Cast(cast.Input(0, kF32), kF8), DType::kBFloat16));
  EXPECT_TRUE(Resolve(cast, {Spec(kF32, {4})}, {Spec(DType::kBFloat16, {4})}).ok());
  ExprBuilder sum({4});
  const int x = sum.Input(0, kF8);
  sum.Output(sum.Apply(FN_ADD, {x, x}));
  ExpectRejected(Resolve(sum, {Spec(kF8, {4})}, {Spec(kF8, {4})}).status(), "(add): does not compute in f8e4m3fn");
  ExprBuilder select({4});
  const int y = select.Input(1, kF8);
  select.Output(select.Apply(FN_SELECT, {select.Input(0, DType::kBool), y, y}));
  ExpectRejected(Resolve(select, {Spec(DType::kBool, {4}), Spec(kF8, {4})}, {Spec(kF8, {4})}).status(),
                 "does not compute in f8e4m3fn");
  ExprBuilder position({4});
  position.Output(position.Iota(kF8, 0));
  ExpectRejected(Resolve(position, {}, {Spec(kF8, {4})}).status(), "does not compute in f8e4m3fn");
}

TEST(ExprProgramTest, UnknownFunctionsAreRejected) {
  ExprBuilder b({4});
  b.Output(b.Input(0, kF32));
  b.expr().mutable_instructions(0)->set_fn(static_cast<ScalarFn>(9999));
  ExpectRejected(Resolve(b, {Spec(kF32, {4})}, {Spec(kF32, {4})}).status(), "unknown function");
}

TEST(ExprProgramTest, OutputsMustHaveTheSizesOfTheirLevel) {
  ExprBuilder b({4});
  b.Output(b.Input(0, kF32));
  ExpectRejected(Resolve(b, {Spec(kF32, {4})}, {Spec(kF32, {5})}).status(), "output 0 is f32[5]");
  ExpectRejected(Resolve(b, {Spec(kF32, {4})}, {}).status(), "1 outputs, the op 0");
}

TEST(ExprProgramTest, ReductionsNeedReduceDims) {
  ExprBuilder b({4});
  b.Output(b.Sum(b.Input(0, kF32)));
  ExpectRejected(Resolve(b, {Spec(kF32, {4})}, {Spec(kF32, {4})}).status(), "no reduce_dims");
}

TEST(ExprProgramTest, GeneratorStateIsTwoIntegers) {
  ExprBuilder b({4});
  b.Output(b.Random(0));
  EXPECT_TRUE(Resolve(b, {Spec(DType::kInt64, {2})}, {Spec(kF32, {4})}).ok());
  ExpectRejected(Resolve(b, {Spec(DType::kInt64, {3})}, {Spec(kF32, {4})}).status(), "RNG state");
  b.expr().mutable_instructions(0)->set_slice("-4");
  ExpectRejected(Resolve(b, {Spec(DType::kInt64, {2})}, {Spec(kF32, {4})}).status(), "negative");
}

}  // namespace
}  // namespace cotan
