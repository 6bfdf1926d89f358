// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/tangent_flags.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/test_kernels.h"

namespace cotan {
namespace {

using ::testing::IsEmpty;

serialization::Method BackwardOf(std::initializer_list<serialization::DTypeProto> inputs) {
  serialization::Method method;
  for (const serialization::DTypeProto dtype : inputs) {
    method.add_inputs(static_cast<uint32_t>(method.values_size()));
    method.add_values()->mutable_type()->set_dtype(dtype);
  }
  return method;
}

TEST(TangentFlagsTest, OneBoolForEachOfSeveralTangents) {
  constexpr auto kF32 = serialization::DTYPE_F32;
  constexpr auto kBool = serialization::DTYPE_BOOL;
  serialization::Method backward = BackwardOf({kF32, kF32, kF32, kBool, kBool});
  EXPECT_TRUE(TakesTangentFlags(backward, /*num_saved=*/1, /*num_tangents=*/2));
  EXPECT_FALSE(TakesTangentFlags(backward, 1, 4));
  EXPECT_FALSE(TakesTangentFlags(backward, 2, 2));
  backward.mutable_values(4)->mutable_type()->add_sizes("1");
  EXPECT_FALSE(TakesTangentFlags(backward, 1, 2)) << "a flag has no dimensions";
  EXPECT_FALSE(TakesTangentFlags(BackwardOf({kF32, kF32, kF32, kBool, kF32}), 1, 2));
  EXPECT_FALSE(TakesTangentFlags(BackwardOf({kF32, kBool}), 0, 1)) << "a single tangent is defined";
}

TEST(TangentFlagsTest, FlagsOnTheHostAreMadeOnce) {
  TensorOps ops(testing::TestKernels());
  const Tensor yes = *TangentFlag(ops, true);
  const Tensor no = *TangentFlag(ops, false);
  EXPECT_TRUE(*yes.Item<bool>());
  EXPECT_FALSE(*no.Item<bool>());
  EXPECT_THAT(yes.sizes(), IsEmpty());
  EXPECT_EQ(TangentFlag(ops, true)->storage(), yes.storage());
}

}  // namespace
}  // namespace cotan
