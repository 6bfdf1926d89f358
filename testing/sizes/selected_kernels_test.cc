// SPDX-License-Identifier: Apache-2.0

// The kernels of //examples/digits:digits_runtime.
#include "kernels/selective/selected_kernels.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "runtime/execution/program.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Method;
using serialization::Op;
using ::testing::HasSubstr;

constexpr char kDigits[] = "examples/digits/digits.cotan";

// Returns an artifact of one op with one output.
Artifact ArtifactOf(const Op& op, DType dtype) {
  Artifact artifact;
  Method& method = *artifact.add_methods();
  method.add_values()->mutable_type()->set_dtype(static_cast<serialization::DTypeProto>(dtype));
  *method.add_ops() = op;
  method.mutable_ops(0)->add_outputs(0);
  return artifact;
}

Op ExprOp(serialization::ScalarFn fn, DType dtype) {
  Op op;
  const auto type = static_cast<serialization::DTypeProto>(dtype);
  serialization::ExprInstruction& input = *op.mutable_expr()->add_instructions();
  input.set_fn(serialization::FN_INPUT);
  input.set_dtype(type);
  serialization::ExprInstruction& function = *op.mutable_expr()->add_instructions();
  function.set_fn(fn);
  function.set_dtype(type);
  function.add_operands(0);
  op.mutable_expr()->add_outputs(1);
  return op;
}

TEST(SelectedKernelsTest, AcceptsItsProgram) {
  const auto program = Program::Load(kDigits);
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(CheckSelectedKernels((*program)->artifact()), absl::OkStatus());
}

TEST(SelectedKernelsTest, AcceptsAFunctionOfItsProgram) {
  EXPECT_EQ(CheckSelectedKernels(ArtifactOf(ExprOp(serialization::FN_EXP, DType::kFloat32), DType::kFloat32)),
            absl::OkStatus());
}

TEST(SelectedKernelsTest, RefusesAProgramWithAnotherOp) {
  Op op;
  op.mutable_sort();
  const absl::Status status = CheckSelectedKernels(ArtifactOf(op, DType::kInt64));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("sort of i64 is not linked"));
  EXPECT_THAT(status.message(), HasSubstr("//examples/digits:digits_runtime"));
  EXPECT_THAT(status.message(), HasSubstr("cotan_runtime()"));
}

TEST(SelectedKernelsTest, RefusesAProgramWithADecomposition) {
  Op op;
  op.mutable_linear_algebra();
  EXPECT_THAT(CheckSelectedKernels(ArtifactOf(op, DType::kFloat32)).message(), HasSubstr("linear_algebra of f32"));
}

TEST(SelectedKernelsTest, RefusesAProgramWithAnOpOfAnotherDType) {
  Op op;
  op.mutable_max_pool();
  EXPECT_THAT(CheckSelectedKernels(ArtifactOf(op, DType::kFloat64)).message(), HasSubstr("max_pool of f64"));
}

TEST(SelectedKernelsTest, RefusesAProgramWithAnotherFunction) {
  const Op op = ExprOp(serialization::FN_ATANH, DType::kFloat32);
  EXPECT_THAT(CheckSelectedKernels(ArtifactOf(op, DType::kFloat32)).message(), HasSubstr("function atanh of f32"));
}

TEST(SelectedKernelsTest, MissingKernelsFailWhenTheyAreMade) {
  KernelRegistry registry;
  ASSERT_EQ(RegisterSelectedKernels(registry), absl::OkStatus());
  Op sort;
  sort.mutable_sort();
  const TensorSpec spec{DType::kInt64, {{4}, {1}, 0}};
  const auto factory = registry.Find(DeviceType::kCpu, OpKind::kSort, DType::kInt64);
  ASSERT_TRUE(factory.ok());
  EXPECT_THAT((*factory)({sort, {&spec, 1}, {&spec, 1}, {}, 1}).status().message(), HasSubstr("sort of i64"));

  const Op atanh = ExprOp(serialization::FN_ATANH, DType::kFloat32);
  const TensorSpec f32{DType::kFloat32, {{4}, {1}, 0}};
  const auto expr = registry.Find(DeviceType::kCpu, OpKind::kExpr, DType::kFloat32);
  ASSERT_TRUE(expr.ok());
  EXPECT_THAT((*expr)({atanh, {&f32, 1}, {&f32, 1}, {}, 1}).status().message(), HasSubstr("function atanh of f32"));
}

}  // namespace
}  // namespace cotan
