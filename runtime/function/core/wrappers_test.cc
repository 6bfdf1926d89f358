// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/core/wrappers.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;

FlatMeta Quantized(int start) {
  return WrapperMeta{.type_name = "quantized",
                     .flat_start = start,
                     .flat_count = 2,
                     .attributes = {{"data", PlainTensorMeta{start, {}}}, {"scale", PlainTensorMeta{start + 1, {}}}},
                     .outer_sizes = {SymInt(2)},
                     .outer_strides = {SymInt(1)},
                     .metadata = "axis=0"};
}

FlatMeta Pair() {
  return WrapperMeta{.type_name = "pair",
                     .flat_start = 0,
                     .flat_count = 3,
                     .attributes = {{"q", *std::get_if<WrapperMeta>(&static_cast<const FlatMeta&>(Quantized(0)))},
                                    {"t", PlainTensorMeta{2, {}}}},
                     .outer_sizes = {},
                     .outer_strides = {},
                     .metadata = ""};
}

Variable Number(float value) { return Variable(*Tensor::Scalar(value)); }
float Value(const Variable& variable) { return *variable.tensor().Item<float>(); }

WrappedVariable MakeQuantized(const Variable& data, const Variable& scale) {
  return WrappedVariable("quantized", {{"data", WrappedVariable(data)}, {"scale", WrappedVariable(scale)}}, "axis=0",
                         {2});
}

WrappedVariable MakePair() {
  return WrappedVariable("pair", {{"q", MakeQuantized(Number(1), Number(2))}, {"t", WrappedVariable(Number(3))}}, "",
                         {});
}

TEST(WrappersTest, RewrappingUndoesFlattening) {
  std::vector<Variable> flat;
  ASSERT_TRUE(FlattenAs(Pair(), MakePair(), "p", flat).ok());
  ASSERT_TRUE(FlattenAs(PlainTensorMeta(), WrappedVariable(Number(4)), "x", flat).ok());
  ASSERT_EQ(flat.size(), 4u);
  EXPECT_EQ(Value(flat[3]), 4);
  const WrappedVariable again = RewrapAs(Pair(), flat, {});
  EXPECT_EQ(again.StructureText(), MakePair().StructureText());
  const std::vector<Variable> tensors = again.Tensors();
  ASSERT_EQ(tensors.size(), 3u);
  for (size_t i = 0; i < tensors.size(); ++i) EXPECT_TRUE(tensors[i].is_same(flat[i]));
  EXPECT_EQ(again.parts()[0].value.metadata(), "axis=0");
  EXPECT_THAT(again.parts()[0].value.outer_sizes(), ElementsAre(2));
}

std::string Refusal(const FlatMeta& meta, const WrappedVariable& value) {
  std::vector<Variable> flat;
  return std::string(FlattenAs(meta, value, "p", flat).message());
}

TEST(WrappersTest, WhatIsMadeOtherwiseIsRefusedByAttribute) {
  const WrappedVariable plain(Number(1));
  EXPECT_EQ(Refusal(PlainTensorMeta(), MakePair()), "'p' is a pair, not a plain tensor");
  EXPECT_EQ(Refusal(Pair(), plain), "'p' is a plain tensor, not a pair");
  WrappedVariable value = MakePair();
  value.parts()[0].value = plain;
  EXPECT_EQ(Refusal(Pair(), value), "'p.q' is a plain tensor, not a quantized");
  value = MakePair();
  value.parts()[0].value.parts().pop_back();
  EXPECT_EQ(Refusal(Pair(), value), "'p.q' has 1 attributes; a quantized has 2: data, scale");
  value = MakePair();
  value.parts()[0].value.parts()[1].name = "factor";
  EXPECT_EQ(Refusal(Pair(), value), "'p.q' has the attribute 'factor' where a quantized has 'scale'");
  value = MakePair();
  value.parts()[1].value = MakePair();
  EXPECT_EQ(Refusal(Pair(), value), "'p.t' is a pair, not a plain tensor");
  EXPECT_EQ(Refusal(Pair(), WrappedVariable("pair", MakePair().parts(), "bits=4", {})),
            "'p' has the metadata \"bits=4\"; the one traced had \"\"");
}

TEST(WrappersTest, GradientsAreMadeAsTheirWrapper) {
  Variable scale = *Variable::Leaf(*Tensor::Scalar(2.0f));
  ASSERT_TRUE(scale.SetGrad(Number(5)).ok());
  const WrappedVariable gradient = GradientOf(MakeQuantized(Number(1), scale));
  EXPECT_EQ(gradient.StructureText(), "quantized{data: plain, scale: plain}");
  EXPECT_FALSE(gradient.Tensors()[0].defined());
  EXPECT_EQ(Value(gradient.Tensors()[1]), 5);
}

}  // namespace
}  // namespace cotan
