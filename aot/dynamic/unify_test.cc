// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/unify.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "serialization/container/container.h"

namespace cotan::aot {
namespace {

using serialization::Artifact;
using serialization::Method;
using ::testing::HasSubstr;

const DynamicShapes kShapes{{{"batch", 1, 64, 8}}, {{SymInt::Symbol(0), 4}}};
const std::vector<DimVector> kPoints = {{11}, {14}, {13}};

void AddSizes(std::vector<int64_t> sizes, serialization::TensorType& type) {
  type.set_dtype(serialization::DTYPE_F32);
  for (const int64_t size : sizes) type.add_sizes(std::to_string(size));
}

// x.view(-1) of an input of 4 columns.
Method Flatten(int64_t batch) {
  Method method;
  method.set_name("forward");
  AddSizes({batch, 4}, *method.add_values()->mutable_type());
  AddSizes({4 * batch}, *method.add_values()->mutable_type());
  method.add_inputs(0);
  method.add_outputs(1);
  serialization::Op& op = *method.add_ops();
  op.add_inputs(0);
  op.add_outputs(1);
  op.set_source("aten.view flat");
  op.mutable_view()->add_steps()->mutable_view()->add_sizes(std::to_string(4 * batch));
  method.mutable_metadata()->add_output_info()->mutable_geometry()->add_sizes(std::to_string(4 * batch));
  method.mutable_metadata()->mutable_output_info(0)->mutable_geometry()->add_strides("1");
  return method;
}

absl::Status Unify(std::vector<Method>& methods) {
  std::vector<Method*> pointers;
  for (Method& method : methods) pointers.push_back(&method);
  return UnifyMethods(kShapes, kPoints, {}, pointers);
}

std::vector<Method> Methods() { return {Flatten(11), Flatten(14), Flatten(13)}; }

TEST(UnifyTest, SizesBecomeExpressions) {
  std::vector<Method> methods = Methods();
  const absl::Status status = Unify(methods);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(methods[0].values(0).type().sizes(0), "s0");
  EXPECT_EQ(methods[0].values(0).type().sizes(1), "4");
  EXPECT_EQ(methods[0].values(1).type().sizes(0), "(s0 * 4)");
  EXPECT_EQ(methods[0].ops(0).view().steps(0).view().sizes(0), "(s0 * 4)");
  ASSERT_EQ(methods[0].metadata().output_info(0).dynamic_dims_size(), 1);
  EXPECT_EQ(methods[0].metadata().output_info(0).dynamic_dims(0), 0u);
}

TEST(UnifyTest, SavedTensorsTellTheirDynamicDimensions) {
  std::vector<Method> methods = Methods();
  for (Method& method : methods) {
    method.add_outputs(0);
    method.set_num_saved(1);
    method.mutable_metadata()->mutable_saved()->set_num_tensors(1);
  }
  ASSERT_TRUE(Unify(methods).ok());
  const serialization::SavedForBackward& saved = methods[0].metadata().saved();
  ASSERT_EQ(saved.dynamic_tensors_size(), 1);
  EXPECT_EQ(saved.dynamic_tensors(0).tensor(), 0u);
  EXPECT_EQ(saved.dynamic_tensors(0).dims(0), 0u);
}

TEST(UnifyTest, OutputsThatAreIntegersBecomeExpressions) {
  std::vector<Method> methods = Methods();
  for (size_t k = 0; k < methods.size(); ++k) {
    serialization::OutputAliasInfo& info = *methods[k].mutable_metadata()->add_output_info();
    info.set_raw_type(serialization::RAW_INT);
    info.mutable_scalar()->set_int_value(kPoints[k][0] + 1);
  }
  ASSERT_TRUE(Unify(methods).ok());
  EXPECT_EQ(methods[0].metadata().output_info(1).raw_type(), serialization::RAW_SYM_INT);
  EXPECT_EQ(methods[0].metadata().output_info(1).scalar().sym_int(), "(s0 + 1)");
}

TEST(UnifyTest, SizesAfterStridedConvolutionsAreExact) {
  std::vector<Method> methods;
  for (const DimVector& point : kPoints) {
    Method& method = methods.emplace_back();
    const int64_t out = (point[0] + 2 - 3) / 2 + 1;
    AddSizes({2, 3, point[0]}, *method.add_values()->mutable_type());
    AddSizes({8, 3, 3}, *method.add_values()->mutable_type());
    AddSizes({2, 8, out}, *method.add_values()->mutable_type());
    AddSizes({2, 8 * out}, *method.add_values()->mutable_type());
    serialization::Op& op = *method.add_ops();
    op.add_inputs(0);
    op.add_inputs(1);
    op.add_outputs(2);
    op.mutable_convolution()->add_stride(2);
    op.mutable_convolution()->add_padding(1);
    op.mutable_convolution()->add_dilation(1);
  }
  ASSERT_TRUE(Unify(methods).ok());
  const auto after = SymInt::Parse(methods[0].values(2).type().sizes(2));
  const auto flat = SymInt::Parse(methods[0].values(3).type().sizes(1));
  for (int64_t size = 1; size < 50; ++size) {
    EXPECT_EQ(*after->Evaluate({size}), (size - 1) / 2 + 1);
    EXPECT_EQ(*flat->Evaluate({size}), 8 * ((size - 1) / 2 + 1));
  }
}

TEST(UnifyTest, EachDrawBeginsWhereTheOneBeforeEnds) {
  std::vector<Method> methods;
  for (const DimVector& point : kPoints) {
    Method& method = methods.emplace_back();
    int64_t slice = 0;
    for (const int64_t width : {5, 7, 40}) {
      serialization::Expr& expr = *method.add_ops()->mutable_expr();
      expr.add_domain_sizes(std::to_string(point[0]));
      expr.add_domain_sizes(std::to_string(width));
      serialization::ExprInstruction& random = *expr.add_instructions();
      random.set_fn(serialization::FN_RANDOM_UNIFORM);
      random.set_slice(std::to_string(slice));
      slice += (point[0] * width + 3) / 4;
    }
    method.set_rng_blocks(std::to_string(slice));
  }
  ASSERT_TRUE(Unify(methods).ok());
  const auto last = SymInt::Parse(methods[0].ops(2).expr().instructions(0).slice());
  const auto all = SymInt::Parse(methods[0].rng_blocks());
  for (int64_t size = 1; size < 50; ++size) {
    EXPECT_EQ(*last->Evaluate({size}), (5 * size + 3) / 4 + (7 * size + 3) / 4);
    EXPECT_EQ(*all->Evaluate({size}), (5 * size + 3) / 4 + (7 * size + 3) / 4 + 10 * size);
  }
}

TEST(UnifyTest, WhatDependsOnTheSizeOtherwiseIsRefused) {
  std::vector<Method> methods = Methods();
  methods[1].mutable_ops(0)->mutable_copy();
  EXPECT_THAT(Unify(methods).message(),
              HasSubstr("method 'forward', op 0 (view) from aten.view flat: the program has op "
                        "0 (copy) from aten.view flat there at other sizes"));
  methods = Methods();
  *methods[2].add_ops() = methods[2].ops(0);
  EXPECT_THAT(Unify(methods).message(), HasSubstr("op 1 (view) from aten.view flat: it is there at some sizes only"));
  methods = Methods();
  methods[0].mutable_ops(0)->mutable_view()->mutable_steps(0)->mutable_view()->set_sizes(0, "1000");
  EXPECT_THAT(Unify(methods).message(),
              HasSubstr("not a known function of the dynamic dimensions: it was 1000, 56, 52"));
  methods = Methods();
  methods[0].mutable_values(0)->mutable_type()->add_dim_order(0);
  EXPECT_THAT(Unify(methods).message(), HasSubstr("layout or rank"));
  EXPECT_THAT(Unify(methods).message(), HasSubstr("{batch=11}, {batch=14}"));
}

std::string FileOf(int64_t batch, const std::string& weights) {
  ArtifactWriter writer;
  Artifact artifact;
  serialization::State& state = *artifact.add_states();
  state.set_name("weight");
  AddSizes({2}, *state.mutable_type());
  state.set_segment(writer.AddSegment(weights));
  *artifact.add_methods() = Flatten(batch);
  return *std::move(writer).Serialize(std::move(artifact));
}

TEST(UnifyTest, ArtifactsGetTheirSymbols) {
  const auto bytes =
      UnifyArtifacts(kShapes, kPoints, {}, {FileOf(11, "12345678"), FileOf(14, "12345678"), FileOf(13, "12345678")});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto file = ArtifactFile::Parse(*bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_EQ(file->artifact().symbols_size(), 1);
  EXPECT_EQ(file->artifact().symbols(0).name(), "batch");
  EXPECT_EQ(file->artifact().symbols(0).max(), 64);
  EXPECT_EQ(file->segment(file->artifact().states(0).segment()), "12345678");
  EXPECT_EQ(file->artifact().methods(0).values(0).type().sizes(0), "s0");
}

TEST(UnifyTest, StatesMustNotDependOnSizes) {
  const auto bytes =
      UnifyArtifacts(kShapes, kPoints, {}, {FileOf(11, "12345678"), FileOf(14, "12345679"), FileOf(13, "12345678")});
  EXPECT_THAT(bytes.status().message(), HasSubstr("'weight' has other sizes or another content"));
}

}  // namespace
}  // namespace cotan::aot
