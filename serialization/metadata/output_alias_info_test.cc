// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/output_alias_info.h"

#include <utility>

#include "gtest/gtest.h"

namespace cotan {
namespace {

OutputAliasInfo AliasOfInput(int base) {
  OutputAliasInfo info;
  info.output_type = OutputType::kAliasOfInput;
  info.base_index = base;
  return info;
}

std::string RefusalOf(const OutputAliasInfo& info) { return std::string(info.Validate("o").message()); }

TEST(OutputAliasInfo, ScalarsRoundTrip) {
  const std::vector<ScalarOutput> values = {NoneValue(),       true,     int64_t{-3}, 0.5, std::string("a\"b"),
                                            SymInt::Symbol(1), SymInt(4)};
  for (const ScalarOutput& value : values) {
    OutputAliasInfo info;
    info.scalar = value;
    absl::StatusOr<OutputAliasInfo> again = OutputAliasInfo::FromProto(info.ToProto(), "o");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, info) << info.ToString();
    EXPECT_FALSE(again->is_tensor());
    EXPECT_FALSE(again->has_tangent());
  }
}

TEST(OutputAliasInfo, AliasRoundTripsWithItsViews) {
  OutputAliasInfo info = AliasOfInput(2);
  info.view_steps = {view::Permute{{1, 0}}, view::Select{0, 1}};
  info.dynamic_dims = {0};
  info.geometry = TensorGeometry{DType::kFloat32, {SymInt::Symbol(0)}, {1}, 3};
  info.requires_grad = true;
  absl::StatusOr<OutputAliasInfo> again = OutputAliasInfo::FromProto(info.ToProto(), "o");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, info);
  EXPECT_EQ(again->ToString(),
            "alias_of_input 2 through permute(1, 0).select(dim=0, 1), f32[s0]{1}+3, requires grad, "
            "has no tangent, dynamic dimensions 0");
}

TEST(OutputAliasInfo, TangentIsExpectedAsRequiresGradSaysUnlessToldOtherwise) {
  serialization::OutputAliasInfo proto;
  proto.set_output_type(serialization::NON_ALIAS);
  proto.set_requires_grad(true);
  EXPECT_TRUE(OutputAliasInfo::FromProto(proto, "o")->has_tangent());
  proto.set_requires_grad_for_backward(false);
  EXPECT_FALSE(OutputAliasInfo::FromProto(proto, "o")->has_tangent());
}

TEST(OutputAliasInfo, AliasesHaveNoTangent) {
  OutputAliasInfo info = AliasOfInput(0);
  info.requires_grad = info.requires_grad_for_backward = true;
  EXPECT_FALSE(info.has_tangent());
}

TEST(OutputAliasInfo, RefusesAliasesWithoutBase) {
  OutputAliasInfo info = AliasOfInput(0);
  info.base_index.reset();
  EXPECT_EQ(RefusalOf(info), "o.base_index: is missing, but the output is alias_of_input");
}

TEST(OutputAliasInfo, RefusesBasesOfFreshMemory) {
  OutputAliasInfo info = AliasOfInput(0);
  info.output_type = OutputType::kUnsafeViewAlias;
  EXPECT_EQ(RefusalOf(info), "o.base_index: must not be set: unsafe_view_alias has no base");
  info.output_type = OutputType::kNonAlias;  // one of several views of input 0
  EXPECT_EQ(RefusalOf(info), "");
}

TEST(OutputAliasInfo, RefusesViewsThatNothingReplays) {
  OutputAliasInfo info = AliasOfInput(0);
  info.view_steps = {view::Detach{}};
  EXPECT_EQ(RefusalOf(info), "");
  info.output_type = OutputType::kIsInput;
  EXPECT_EQ(RefusalOf(info), "o.view_steps: must be empty: is_input is replayed through no views");
}

TEST(OutputAliasInfo, RefusesTensorPropertiesOfOtherValues) {
  OutputAliasInfo scalar;
  scalar.scalar = int64_t{3};
  EXPECT_EQ(RefusalOf(scalar), "");
  OutputAliasInfo info = scalar;
  info.requires_grad = true;
  EXPECT_EQ(RefusalOf(info), "o.requires_grad: the output is not a tensor, so it cannot require grad");
  info = scalar;
  info.output_type = OutputType::kIsInput;
  EXPECT_EQ(RefusalOf(info), "o.output_type: the output is not a tensor, so it can alias nothing");
  info = scalar;
  info.dynamic_dims = {0};
  EXPECT_EQ(RefusalOf(info), "o.dynamic_dims: the output is not a tensor, so it has no dimensions");
  info = scalar;
  info.geometry.emplace();
  EXPECT_EQ(RefusalOf(info), "o.geometry: the output is not a tensor, so it has no geometry");
}

TEST(OutputAliasInfo, RefusesBackwardGradOfOutputWithoutGrad) {
  OutputAliasInfo info;
  info.requires_grad_for_backward = true;
  EXPECT_EQ(RefusalOf(info), "o.requires_grad_for_backward: must be false, as requires_grad is");
}

TEST(OutputAliasInfo, RefusesDynamicDimensionsBeyondTheRank) {
  OutputAliasInfo info;
  info.dynamic_dims = {0, 2};
  info.geometry = TensorGeometry{DType::kFloat32, {2, 3}, {3, 1}, 0};
  EXPECT_EQ(RefusalOf(info), "o.dynamic_dims[1]: 2 is out of range: there are 2 dimensions");
}

TEST(OutputAliasInfo, RefusesValuesOfAnotherRawType) {
  serialization::OutputAliasInfo proto;
  proto.set_output_type(serialization::NON_ALIAS);
  proto.mutable_scalar()->set_int_value(1);
  const std::string kMessage = "o.scalar: its value is not of the output's raw type";
  EXPECT_EQ(OutputAliasInfo::FromProto(proto, "o").status().message(), kMessage);
  proto.set_raw_type(serialization::RAW_FLOAT);
  EXPECT_EQ(OutputAliasInfo::FromProto(proto, "o").status().message(), kMessage);
  proto.set_raw_type(static_cast<serialization::RawTypeProto>(77));
  EXPECT_EQ(OutputAliasInfo::FromProto(proto, "o").status().message(),
            "o.raw_type: 77 is not a known raw type; a newer version may have written it");
}

TEST(OutputAliasInfo, RefusesOutputTypesThatAreNone) {
  EXPECT_EQ(OutputAliasInfo::FromProto(serialization::OutputAliasInfo(), "o").status().message(),
            "o.output_type: is not set");
}

TEST(OutputAliasInfo, OutputTypesOfANewerVersionAreNotImplemented) {
  serialization::OutputAliasInfo proto;
  proto.set_output_type(static_cast<serialization::OutputTypeProto>(9));
  EXPECT_EQ(
      OutputAliasInfo::FromProto(proto, "o").status(),
      absl::UnimplementedError("o.output_type: 9 is not a known output type; a newer version may have written it"));
}

TEST(OutputType, EveryTypeIsFreshOrAliasesAnInputOrAnIntermediate) {
  for (int i = 1; i <= 8; ++i) {
    const OutputType type = static_cast<OutputType>(i);
    EXPECT_EQ(IsFreshMemory(type) + IsAliasOfInput(type) + IsAliasOfIntermediate(type), 1) << OutputTypeName(type);
  }
}

TEST(OutputAliasInfo, SharedStorageRoundTrips) {
  OutputAliasInfo part;
  part.geometry = TensorGeometry{DType::kFloat32, {2}, {1}, 3};
  part.shared_storage = SharedStorage{SharedStorage::Owner::kOutput, 1, false};
  EXPECT_EQ(part.ToString(), "non_alias, in the storage of output 1, f32[2]{1}+3");
  OutputAliasInfo same;
  same.shared_storage = SharedStorage{SharedStorage::Owner::kInput, 2, true};
  OutputAliasInfo base = part;
  base.shared_storage = SharedStorage{SharedStorage::Owner::kIntermediateBase, 0, false};
  OutputAliasInfo conjugate = part;
  conjugate.shared_storage->is_conjugate = true;
  EXPECT_EQ(conjugate.ToString(), "non_alias, conjugate, in the storage of output 1, f32[2]{1}+3");
  OutputAliasInfo negated = part;
  negated.shared_storage->is_negated = true;
  for (const OutputAliasInfo& info : {part, same, base, conjugate, negated}) {
    absl::StatusOr<OutputAliasInfo> again = OutputAliasInfo::FromProto(info.ToProto(), "o");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, info) << info.ToString();
  }
}

TEST(OutputAliasInfo, SharedStorageNeedsAPlaceInIt) {
  OutputAliasInfo info;
  info.shared_storage = SharedStorage{SharedStorage::Owner::kOutput, 0, false};
  EXPECT_EQ(RefusalOf(info), "o.geometry: is missing: it is the place in the shared storage");
  info.shared_storage = SharedStorage{SharedStorage::Owner::kIntermediateBase, 0, true};
  EXPECT_EQ(RefusalOf(info), "o.shared_storage.is_same_tensor: must be false: an intermediate base is not a result");
  OutputAliasInfo alias = AliasOfInput(0);
  alias.shared_storage = SharedStorage{SharedStorage::Owner::kInput, 0, false};
  EXPECT_EQ(RefusalOf(alias), "o.shared_storage: must not be set: alias_of_input is an alias and has a base_index");
  alias.shared_storage = SharedStorage{SharedStorage::Owner::kOutput, 0, true};
  EXPECT_EQ(RefusalOf(alias), "");
}

TEST(OutputAliasInfo, OnlyWhatLiesInAResultIsReadOtherwise) {
  OutputAliasInfo info;
  info.shared_storage = SharedStorage{.owner = SharedStorage::Owner::kInput, .is_conjugate = true};
  EXPECT_EQ(RefusalOf(info),
            "o.shared_storage.is_conjugate: must be false: it applies only to tensors in the storage of a result");
  info.shared_storage =
      SharedStorage{.owner = SharedStorage::Owner::kOutput, .is_same_tensor = true, .is_negated = true};
  EXPECT_EQ(RefusalOf(info),
            "o.shared_storage.is_negated: must be false: it applies only to tensors in the storage of a result");
}

TEST(OutputAliasInfo, ViewsLeadFromTheInputWhoseStorageIsShared) {
  OutputAliasInfo info;
  info.view_steps = {view::Select{0, 1}};
  EXPECT_EQ(RefusalOf(info), "o.view_steps: must be empty: non_alias is replayed through no views");
  info.shared_storage = SharedStorage{SharedStorage::Owner::kInput, 0, false};
  EXPECT_EQ(RefusalOf(info), "");
}

OutputAliasInfo View() {
  OutputAliasInfo info;
  info.output_type = OutputType::kUnsafeViewAlias;
  info.geometry = TensorGeometry{DType::kFloat32, {2}, {1}, 3};
  info.non_alias_view = NonAliasViewInfo{NonAliasViewInfo::Creation::kMultiOutput, /*is_hidden=*/true, 1,
                                         TensorGeometry{DType::kFloat32, {6}, {1}, 0}};
  return info;
}

TEST(OutputAliasInfo, FreshViewRoundTrips) {
  const OutputAliasInfo hidden = View();
  EXPECT_EQ(hidden.ToString(), "unsafe_view_alias, f32[2]{1}+3, one of several views of hidden base 1");
  OutputAliasInfo of_output = hidden;
  of_output.non_alias_view =
      NonAliasViewInfo{NonAliasViewInfo::Creation::kNoGrad, /*is_hidden=*/false, 2, std::nullopt};
  for (const OutputAliasInfo& info : {hidden, of_output}) {
    const absl::StatusOr<OutputAliasInfo> again = OutputAliasInfo::FromProto(info.ToProto(), "o");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, info) << info.ToString();
  }
}

TEST(OutputAliasInfo, FreshViewHasAPlaceAndAHiddenBaseTooAndIsNoAlias) {
  OutputAliasInfo info = View();
  info.non_alias_view->hidden_geometry.reset();
  EXPECT_EQ(RefusalOf(info), "o.non_alias_view.hidden_geometry: must be set for a hidden base, and for no other");
  info = View();
  info.geometry.reset();
  EXPECT_EQ(RefusalOf(info), "o.geometry: is missing: it is the place of the view");
  info = View();
  info.output_type = OutputType::kAliasOfInput;
  info.base_index = 0;
  EXPECT_EQ(RefusalOf(info), "o.non_alias_view: must not be set: alias_of_input is an alias");
  serialization::OutputAliasInfo proto = View().ToProto();
  proto.mutable_non_alias_view()->clear_creation();
  EXPECT_EQ(OutputAliasInfo::FromProto(proto, "o").status().message(), "o.non_alias_view.creation: is not set");
}

TEST(OutputAliasInfo, NewLeafRequiresGradInFreshMemory) {
  OutputAliasInfo info;
  info.is_new_leaf = true;
  EXPECT_NE(RefusalOf(info), "");
  info.requires_grad = info.requires_grad_for_backward = true;
  EXPECT_EQ(RefusalOf(info), "");
  EXPECT_EQ(info.ToString(), "non_alias, a leaf that requires grad");
  EXPECT_EQ(OutputAliasInfo::FromProto(info.ToProto(), "o").value(), info);
}

TEST(OutputAliasInfo, OnlyAnOutputThatRequiresGradRetainsItsGradient) {
  OutputAliasInfo info = AliasOfInput(0);
  info.retains_grad = true;
  EXPECT_EQ(RefusalOf(info), "o.retains_grad: must be false: the output does not require grad");
  info.requires_grad = info.requires_grad_for_backward = true;
  EXPECT_EQ(RefusalOf(info), "");
  EXPECT_EQ(OutputAliasInfo::FromProto(info.ToProto(), "o").value(), info);
  info = OutputAliasInfo();
  info.scalar = NoneValue();
  info.retains_grad = true;
  EXPECT_EQ(RefusalOf(info), "o.retains_grad: the output is not a tensor, so it has no gradient");
}

TEST(OutputAliasInfo, AnAliasMayBeNoView) {
  OutputAliasInfo info = AliasOfInput(0);
  info.not_a_view = true;
  EXPECT_EQ(RefusalOf(info), "");
  EXPECT_EQ(OutputAliasInfo::FromProto(info.ToProto(), "o").value(), info);
  info = OutputAliasInfo();
  info.not_a_view = true;
  EXPECT_EQ(RefusalOf(info), "o.not_a_view: must be false: the output is not an alias");
}

TEST(OutputAliasInfo, OnlyPartsOfInputsAreDetached) {
  OutputAliasInfo info;
  info.shared_storage = SharedStorage{SharedStorage::Owner::kInput, 0, false, /*is_detached=*/true};
  EXPECT_EQ(RefusalOf(info), "");
  EXPECT_EQ(OutputAliasInfo::FromProto(info.ToProto(), "o").value(), info);
  info.shared_storage->owner = SharedStorage::Owner::kOutput;
  EXPECT_EQ(RefusalOf(info), "o.shared_storage.is_detached: must be false: it applies only to parts of inputs");
}

}  // namespace
}  // namespace cotan
