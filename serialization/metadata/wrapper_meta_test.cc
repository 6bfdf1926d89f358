// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/wrapper_meta.h"

#include <utility>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

// quantized{data, scale} at flat values start, start + 1.
WrapperMeta Quantized(int start) {
  WrapperMeta meta;
  meta.type_name = "quantized";
  meta.flat_start = start;
  meta.flat_count = 2;
  meta.attributes = {{"data", PlainTensorMeta{start, {}}}, {"scale", PlainTensorMeta{start + 1, {}}}};
  meta.outer_sizes = {2, SymInt::Symbol(0)};
  meta.outer_strides = {SymInt::Symbol(0), 1};
  meta.metadata = std::string("\0\1", 2);
  return meta;
}

// A plain tensor, then jagged{values: quantized, offsets, device: opaque}.
std::vector<FlatMeta> Nested() {
  WrapperMeta jagged;
  jagged.type_name = "jagged";
  jagged.flat_start = 1;
  jagged.flat_count = 3;
  jagged.attributes = {
      {"values", Quantized(1)}, {"offsets", PlainTensorMeta{3, {}}}, {"pool", OpaqueMeta{"pool_id", "7"}}};
  return {PlainTensorMeta{0, TensorGeometry{DType::kFloat32, {2}, {1}, 0}}, std::move(jagged)};
}

WrapperMeta& Jagged(std::vector<FlatMeta>& metas) { return *std::get_if<WrapperMeta>(&metas[1]); }

std::string RefusalOf(const std::vector<FlatMeta>& metas) {
  return std::string(ValidateFlatMetas(metas, "inputs").message());
}

TEST(WrapperMeta, NestedWrappersRoundTrip) {
  const std::vector<FlatMeta> metas = Nested();
  EXPECT_EQ(RefusalOf(metas), "");
  google::protobuf::RepeatedPtrField<serialization::FlatMeta> protos;
  for (const FlatMeta& meta : metas) *protos.Add() = ToProto(meta);
  absl::StatusOr<std::vector<FlatMeta>> again = ParseFlatMetas(protos, "inputs");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, metas);
}

TEST(WrapperMeta, CountsFlatValuesOfNestedWrappers) {
  EXPECT_EQ(FlatCount(Nested()), 4);
  EXPECT_TRUE(HasWrappers(Nested()));
  EXPECT_FALSE(HasWrappers({PlainTensorMeta{0, {}}}));
  EXPECT_EQ(WrapperTypeName(Nested()[1]), "jagged");
  EXPECT_EQ(WrapperTypeName(Nested()[0]), "");
}

TEST(WrapperMeta, FlatValuesAreCalledAfterTheirPlace) {
  EXPECT_EQ(FlatNames(Nested(), {"x", "rows"}),
            (std::vector<std::string>{"x", "rows.values.data", "rows.values.scale", "rows.offsets"}));
}

TEST(WrapperMeta, TextShowsTheNesting) {
  EXPECT_EQ(ToString(Nested()[1]),
            "jagged{values: quantized{data: flat 1, scale: flat 2}, offsets: flat 3, pool: opaque "
            "pool_id}");
}

TEST(WrapperMeta, RefusesFlatValuesOutOfOrder) {
  std::vector<FlatMeta> metas = Nested();
  Jagged(metas).attributes[1].value = PlainTensorMeta{2, {}};
  EXPECT_EQ(RefusalOf(metas), "inputs[1].wrapper.attributes[1].flat_index: 2 is out of order: flat value 3 comes next");
  metas = Nested();
  Jagged(metas).flat_start = 0;
  EXPECT_EQ(RefusalOf(metas), "inputs[1].wrapper.flat_start: 0 is out of order: flat value 1 comes next");
}

TEST(WrapperMeta, RefusesCountsThatTheAttributesDoNotAddUpTo) {
  std::vector<FlatMeta> metas = Nested();
  Jagged(metas).flat_count = 4;
  EXPECT_EQ(RefusalOf(metas), "inputs[1].wrapper.flat_count: 4 flat values, but its attributes take 3");
}

TEST(WrapperMeta, RefusesTwoAttributesOfOneName) {
  std::vector<FlatMeta> metas = Nested();
  Jagged(metas).attributes[1].name = "values";
  EXPECT_EQ(RefusalOf(metas), "inputs[1].wrapper.attributes[1]: the name \"values\" occurs twice");
}

TEST(WrapperMeta, RefusesTypesWithoutNameAndStridesWithoutSizes) {
  std::vector<FlatMeta> metas = Nested();
  Jagged(metas).type_name = "";
  EXPECT_EQ(RefusalOf(metas), "inputs[1].wrapper.type_name: is empty");
  metas = Nested();
  Jagged(metas).attributes[2].value = OpaqueMeta{"", "7"};
  EXPECT_EQ(RefusalOf(metas), "inputs[1].wrapper.attributes[2].type_name: is empty");
  metas = Nested();
  Jagged(metas).outer_strides = {1};
  EXPECT_EQ(RefusalOf(metas), "inputs[1].wrapper.outer_strides: 1 strides for 0 sizes");
}

TEST(WrapperMeta, RefusesNestingThatNoProgramHas) {
  google::protobuf::RepeatedPtrField<serialization::FlatMeta> protos;
  serialization::WrapperMeta* inner = protos.Add()->mutable_wrapper();
  for (int i = 0; i < 20; ++i) inner = inner->add_attributes()->mutable_wrapper();
  const absl::Status status = ParseFlatMetas(protos, "inputs").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_TRUE(absl::EndsWith(status.message(), "wrappers are nested more than 16 times")) << status;
}

TEST(WrapperMeta, RefusesEntriesWithoutKind) {
  google::protobuf::RepeatedPtrField<serialization::FlatMeta> protos;
  protos.Add();
  EXPECT_EQ(ParseFlatMetas(protos, "inputs").status().message(), "inputs[0]: neither plain nor a wrapper");
  protos.Mutable(0)->mutable_wrapper()->add_attributes()->set_name("data");
  EXPECT_EQ(ParseFlatMetas(protos, "inputs").status().message(),
            "inputs[0].wrapper.attributes[0]: the attribute \"data\" has no kind");
}

}  // namespace
}  // namespace cotan
