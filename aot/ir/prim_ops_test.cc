// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/prim_ops.h"

#include <algorithm>
#include <string>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

bool IsOperand(PrimParameterKind kind) {
  return kind == PrimParameterKind::kTensor || kind == PrimParameterKind::kOptionalTensor ||
         kind == PrimParameterKind::kTensorList || kind == PrimParameterKind::kTensors;
}

TEST(PrimOpsTest, NamesAreUniqueAndLeadBackToTheirOps) {
  absl::flat_hash_set<absl::string_view> names;
  for (const PrimOpInfo& info : AllPrimOps()) {
    EXPECT_TRUE(absl::StartsWith(info.name, "prim.")) << info.name;
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_EQ(PrimName(info.op), info.name);
    EXPECT_EQ(FindPrimOp(info.name), info.op) << info.name;
  }
}

TEST(PrimOpsTest, NamesAreFoundAsAWholeOnly) {
  EXPECT_EQ(FindPrimOp("prim.max_pool_backward"), PrimOp::kMaxPoolBackward);
  EXPECT_EQ(FindPrimOp("prim.max_pool_of_another_kind"), std::nullopt);
  EXPECT_EQ(FindPrimOp("prim."), std::nullopt);
  EXPECT_EQ(FindPrimOp("aten.view.default"), std::nullopt);
}

TEST(PrimOpsTest, SignaturesHaveParametersAndResults) {
  const PrimOpInfo& slice = PrimInfo(PrimOp::kSlice);
  ASSERT_EQ(slice.num_parameters, 5u);
  EXPECT_EQ(slice.parameters[0].name, "x");
  EXPECT_EQ(slice.parameters[0].kind, PrimParameterKind::kTensor);
  EXPECT_EQ(slice.parameters[1].name, "dim");
  EXPECT_EQ(slice.parameters[1].kind, PrimParameterKind::kInt);
  EXPECT_EQ(slice.parameters[4].name, "step");
  EXPECT_EQ(slice.parameters[4].kind, PrimParameterKind::kSymInt);
  EXPECT_EQ(slice.min_results, 1u);
  EXPECT_EQ(slice.max_results, 1u);

  const PrimOpInfo& recurrent = PrimInfo(PrimOp::kRecurrent);
  EXPECT_EQ(recurrent.parameters[3].kind, PrimParameterKind::kOptionalTensor);
  EXPECT_EQ(recurrent.parameters[4].kind, PrimParameterKind::kString);
  EXPECT_EQ(recurrent.min_results, 1u);
  EXPECT_EQ(recurrent.max_results, 3u);

  EXPECT_EQ(PrimInfo(PrimOp::kConvolution).parameters[8].name, "groups");
  EXPECT_EQ(PrimInfo(PrimOp::kMatmulEpilogue).parameters[2].kind, PrimParameterKind::kTensors);
  EXPECT_EQ(PrimInfo(PrimOp::kMatmulEpilogue).max_results, PrimOpInfo::kUnlimited);
}

TEST(PrimOpsTest, OperandsPrecedeAttributesAndNamesAreUnique) {
  for (const PrimOpInfo& info : AllPrimOps()) {
    ASSERT_GE(info.num_parameters, 1u) << info.name;
    absl::flat_hash_set<absl::string_view> names;
    for (const PrimParameter& parameter : info.Parameters()) {
      EXPECT_FALSE(parameter.name.empty()) << info.name;
      EXPECT_TRUE(names.insert(parameter.name).second) << info.name << " " << parameter.name;
    }
    EXPECT_TRUE(IsOperand(info.parameters[0].kind)) << info.name;
    EXPECT_TRUE(std::is_partitioned(info.Parameters().begin(), info.Parameters().end(),
                                    [](const PrimParameter& parameter) { return IsOperand(parameter.kind); }))
        << info.name;
    for (size_t i = 0; i + 1 < info.num_parameters; ++i) {
      EXPECT_NE(info.parameters[i].kind, PrimParameterKind::kTensors) << info.name;
    }
  }
}

TEST(PrimOpsTest, ViewsShareMemoryAndAreFree) {
  for (const PrimOpInfo& info : AllPrimOps()) {
    const bool is_view = info.kind == PrimKind::kView;
    EXPECT_EQ(info.cost == PrimCost::kFree, is_view) << info.name;
    EXPECT_EQ(info.result == PrimResult::kShared, is_view) << info.name;
  }
}

}  // namespace
}  // namespace cotan::aot
