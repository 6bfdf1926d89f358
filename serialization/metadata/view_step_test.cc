// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/view_step.h"

#include <utility>

#include "gtest/gtest.h"

namespace cotan {
namespace {

using ProtoStep = serialization::ViewStep;

std::vector<ViewStep> OneOfEachKind() {
  const SymInt s0 = SymInt::Symbol(0);
  return {view::View{{2, s0}},
          view::Permute{{1, 0}},
          view::Expand{{s0, 3}},
          view::Slice{0, 1, s0, 2},
          view::Select{1, 2},
          view::AsStrided{{2, 3}, {3, 1}, 4},
          view::Squeeze{{0, 2}},
          view::Unsqueeze{1},
          view::Diagonal{0, 1, -1},
          view::Unfold{0, 3, 2},
          view::DTypeView{DType::kInt32},
          view::ViewAsReal{},
          view::ViewAsComplex{},
          view::Detach{},
          view::Conjugate{},
          view::Negate{},
          view::Alias{}};
}

std::string RefusalOf(const ProtoStep& proto) { return std::string(ParseViewStep(proto, "step").status().message()); }

TEST(ViewStep, EachKindRoundTrips) {
  const std::vector<ViewStep> steps = OneOfEachKind();
  ASSERT_EQ(steps.size(), std::variant_size_v<ViewStep>);
  for (size_t i = 0; i < steps.size(); ++i) {
    ASSERT_EQ(steps[i].index(), i);
    absl::StatusOr<ViewStep> again = ParseViewStep(ToProto(steps[i]), "step");
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, steps[i]) << ToString(steps[i]);
  }
}

TEST(ViewStep, ChainsReadFromTheBaseOn) {
  EXPECT_EQ(ToString(OneOfEachKind()),
            "view(2, s0).permute(1, 0).expand(s0, 3).slice(dim=0, 1:s0:2).select(dim=1, 2)."
            "as_strided([2, 3], [3, 1], 4).squeeze(0, 2).unsqueeze(1).diagonal(0, 1, offset=-1)."
            "unfold(dim=0, size=3, step=2).dtype_view(i32).view_as_real().view_as_complex()."
            "detach().conjugate().negate().alias()");
}

TEST(ViewStep, RefusesUnknownKinds) {
  EXPECT_EQ(RefusalOf(ProtoStep()), "step: unknown kind of view; a newer version may have written it");
}

TEST(ViewStep, RefusesWhatIsNoPermutation) {
  ProtoStep proto;
  proto.mutable_permute()->add_dims(0);
  proto.mutable_permute()->add_dims(0);
  EXPECT_EQ(RefusalOf(proto), "step.permute.dims[1]: dimension 0 occurs twice");
  proto.mutable_permute()->set_dims(1, 2);
  EXPECT_EQ(RefusalOf(proto), "step.permute.dims[1]: 2 is out of range: there are 2 dimensions");
}

TEST(ViewStep, RefusesSlicesThatDoNotAdvance) {
  ProtoStep proto = ToProto(view::Slice{0, 0, 4, 1});
  proto.mutable_slice()->set_step("0");
  EXPECT_EQ(RefusalOf(proto), "step.slice.step: 0 is not positive");
}

TEST(ViewStep, RefusesStridesThatDoNotFitTheSizes) {
  ProtoStep proto = ToProto(view::AsStrided{{2}, {1}, 0});
  proto.mutable_as_strided()->add_sizes("3");
  EXPECT_EQ(RefusalOf(proto), "step.as_strided.strides: 1 strides for 2 sizes");
}

TEST(ViewStep, RefusesDiagonalsOfOneDimension) {
  EXPECT_EQ(RefusalOf(ToProto(view::Diagonal{1, 1, 0})), "step.diagonal.dim2: equals dim1, 1");
}

TEST(ViewStep, RefusesWindowsThatDoNotAdvance) {
  EXPECT_EQ(RefusalOf(ToProto(view::Unfold{0, 3, 0})), "step.unfold.step: 0 is not positive");
  EXPECT_EQ(RefusalOf(ToProto(view::Unfold{0, -1, 1})), "step.unfold.size: -1 is negative");
}

TEST(ViewStep, RefusesDimensionsThatNoTensorHas) {
  ProtoStep proto;
  proto.mutable_select()->set_dim(64);
  proto.mutable_select()->set_index("0");
  EXPECT_EQ(RefusalOf(proto), "step.select.dim: 64 is out of range: there are 64 dimensions of any tensor");
}

TEST(ViewStep, NamesTheStepOfAChainThatIsWrong) {
  google::protobuf::RepeatedPtrField<ProtoStep> steps;
  *steps.Add() = ToProto(view::Detach{});
  steps.Add();
  EXPECT_EQ(ParseViewSteps(steps, "view_steps").status().message(),
            "view_steps[1]: unknown kind of view; a newer version may have written it");
}

}  // namespace
}  // namespace cotan
