// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/register_cuda.h"

#include <set>
#include <string>

#include "gtest/gtest.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/cuda/plan_op.h"
#include "serialization/schema/op_kind.h"

namespace cotan {
namespace {

TEST(RegisterCudaTest, HasEveryOpAndDtypeThatTheCpuHasButThoseWithAReason) {
  KernelRegistry cuda;
  ASSERT_TRUE(RegisterCudaKernels(cuda).ok());
  std::set<OpKind> missing;
  for (const cuda::MissingOp& op : cuda::MissingOps()) {
    EXPECT_FALSE(op.reason.empty());
    EXPECT_FALSE(cuda.Find(DeviceType::kCuda, op.kind, DType::kFloat32).ok()) << OpKindName(op.kind);
    missing.insert(op.kind);
  }
  for (const OpKind kind : AllOpKinds()) {
    if (missing.contains(kind)) continue;
    for (int number = 1; number < kNumDTypes; ++number) {
      const auto dtype = static_cast<DType>(number);
      if (!CpuKernels().Find(DeviceType::kCpu, kind, dtype).ok()) continue;
      EXPECT_TRUE(cuda.Find(DeviceType::kCuda, kind, dtype).ok()) << OpKindName(kind) << " " << DTypeName(dtype);
    }
  }
}

TEST(RegisterCudaTest, TwoSetsInOneRegistryAreRejected) {
  KernelRegistry registry;
  ASSERT_TRUE(RegisterCudaKernels(registry).ok());
  EXPECT_EQ(RegisterCudaKernels(registry).code(), absl::StatusCode::kAlreadyExists);
}

TEST(RegisterCudaTest, ASessionNeedsACudaDevice) {
  const serialization::Op op;
  const TensorSpec spec = {DType::kFloat32, {{2}, {1}, 0}};
  const absl::StatusOr<KernelFactory> factory =
      CudaKernels().Find(DeviceType::kCuda, serialization::Op::kCopy, DType::kFloat32);
  ASSERT_TRUE(factory.ok());
  const absl::Status status =
      (*factory)({.op = op, .inputs = {&spec, 1}, .outputs = {&spec, 1}, .symbols = {}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_NE(status.message().find("CudaDevice"), std::string::npos) << status;
}

TEST(RegisterCudaTest, AnOpThatIsMissingIsNamed) {
  serialization::Op op;
  op.mutable_sort();
  const TensorSpec spec = {DType::kComplex64, {{2}, {1}, 0}};
  const absl::Status status =
      cuda::FindCudaOp({.op = op, .inputs = {&spec, 1}, .outputs = {&spec, 1}, .symbols = {}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("sort of c64"), std::string::npos) << status;
}

TEST(RegisterCudaTest, AnOpThatTheBackendDoesNotHaveIsExplained) {
  serialization::Op op;
  op.mutable_linear_algebra();
  const TensorSpec spec = {DType::kFloat32, {{40, 40}, {40, 1}, 0}};
  const absl::Status status =
      cuda::FindCudaOp({.op = op, .inputs = {&spec, 1}, .outputs = {&spec, 1}, .symbols = {}}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_NE(status.message().find("linear_algebra of f32: decompositions run on CPUs"), std::string::npos) << status;
}

}  // namespace
}  // namespace cotan
