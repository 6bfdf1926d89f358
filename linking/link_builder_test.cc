// SPDX-License-Identifier: Apache-2.0

#include "linking/link_builder.h"

#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"
#include "serialization/schema/tensor_type.h"
#include "serialization/text/text.h"
#include "serialization/verifier/artifact_verifier.h"

namespace cotan {
namespace {

using testing::ExprBuilder;
using ::testing::HasSubstr;
using testing::MethodBuilder;
using testing::ProgramBuilder;
using Value = LinkBuilder::Value;

serialization::TensorType F32(const std::vector<SymInt>& sizes) { return RowMajorType(DType::kFloat32, sizes); }

// Returns the text of the method; the test fails if it is not a valid one.
std::string TextOf(const LinkBuilder& link, int num_symbols = 0) {
  serialization::Artifact artifact;
  for (int i = 0; i < num_symbols; ++i) {
    serialization::SymbolProto& symbol = *artifact.add_symbols();
    symbol.set_min(1);
    symbol.set_max(100);
  }
  *artifact.add_methods() = link.method();
  const absl::Status valid = VerifyArtifact(artifact);
  EXPECT_TRUE(valid.ok()) << valid;
  return MethodText(artifact, artifact.methods(0));
}

// b(saved, tangent) = exp(tangent) * saved over [s0].
serialization::Method BackwardMethod() {
  ProgramBuilder program;
  MethodBuilder b = program.AddMethod("b");
  const uint32_t saved = b.Input("saved", DType::kFloat32, {"s0"});
  const uint32_t tangent = b.Input("tangent", DType::kFloat32, {"s0"});
  b.proto().add_outputs(b.Pointwise({"s0"}, {tangent, saved}, [](ExprBuilder& e) { return e.Mul(0, 1); }));
  return b.proto();
}

TEST(LinkBuilderTest, AMethodIsSplicedTwiceWithItsOwnSymbols) {
  LinkBuilder link("linked", {4});
  const Value gradient = link.Input(F32({SymInt::Symbol(0)}), "gradient");
  const Value a = link.Input(F32({SymInt::Symbol(0)}), "a");
  const Value b = link.Input(F32({SymInt::Symbol(0)}), "b");
  link.SetSource("1.net");
  const auto first = link.Splice(BackwardMethod(), {SymInt::Symbol(0)}, {a, gradient}, {});
  ASSERT_TRUE(first.ok()) << first.status();
  link.SetSource("0.net");
  const auto second = link.Splice(BackwardMethod(), {SymInt::Symbol(0)}, {b, (*first)[0]}, {});
  ASSERT_TRUE(second.ok()) << second.status();
  link.Output((*second)[0], "result");
  const std::string text = TextOf(link, 1);
  EXPECT_THAT(text, HasSubstr("1.net/"));
  EXPECT_THAT(text, HasSubstr("0.net/"));
  EXPECT_LT(text.find("1.net/"), text.find("0.net/"));
}

// A linked method has no values on the host, and no copies to and from it.
TEST(LinkBuilderTest, ASavedValueOnTheHostIsReadWhereItIs) {
  serialization::Method method = BackwardMethod();
  *method.add_values() = method.values(0);
  method.mutable_values(0)->set_on_host(true);
  const int copied = method.values_size() - 1;
  method.mutable_ops(0)->set_inputs(1, static_cast<uint32_t>(copied));
  serialization::Op& copy = *method.add_ops();
  copy.add_inputs(0);
  copy.add_outputs(static_cast<uint32_t>(copied));
  copy.mutable_copy();
  method.mutable_ops()->SwapElements(0, 1);
  LinkBuilder link("linked", {4});
  const Value gradient = link.Input(F32({SymInt::Symbol(0)}), "gradient");
  const Value saved = link.Input(F32({SymInt::Symbol(0)}), "saved");
  const auto results = link.Splice(method, {SymInt::Symbol(0)}, {saved, gradient}, {});
  ASSERT_TRUE(results.ok()) << results.status();
  link.Output((*results)[0], "result");
  const std::string text = TextOf(link, 1);
  EXPECT_THAT(text, ::testing::Not(HasSubstr("copy(")));
  EXPECT_THAT(text, ::testing::Not(HasSubstr("on host")));
}

TEST(LinkBuilderTest, AMethodThatWritesIsNotSpliced) {
  serialization::Method method = BackwardMethod();
  method.add_input_updates();
  LinkBuilder link("linked", {4});
  const Value a = link.Input(F32({4}), "a");
  EXPECT_EQ(link.Splice(method, {SymInt(4)}, {a, a}, {}).status().code(), absl::StatusCode::kUnimplemented);
}

TEST(LinkBuilderTest, ConformSumsAndCasts) {
  LinkBuilder link("linked", {});
  const Value x = link.Input(F32({2, 3, 4}), "x");
  const auto sum = link.Conform(x, DType::kFloat64, {SymInt(3), SymInt(1)});
  ASSERT_TRUE(sum.ok()) << sum.status();
  EXPECT_EQ(TensorTypeText(link.TypeOf(*sum)), "f64[3,1]");
  link.Output(*sum, "sum");
  EXPECT_THAT(TextOf(link), HasSubstr("reduce_sum"));
}

TEST(LinkBuilderTest, ConformOfAFittingValueAddsNothing) {
  LinkBuilder link("linked", {});
  const Value x = link.Input(F32({2, 3}), "x");
  EXPECT_EQ(*link.Conform(x, DType::kFloat32, {SymInt(2), SymInt(3)}), x);
  EXPECT_EQ(link.method().ops_size(), 0);
}

TEST(LinkBuilderTest, SizesThatDoNotBroadcastAreRefused) {
  LinkBuilder link("linked", {});
  const Value x = link.Input(F32({2, 3}), "x");
  const absl::Status refused = link.Conform(x, DType::kFloat32, {SymInt(2), SymInt(2)}).status();
  EXPECT_THAT(refused.message(), HasSubstr("invalid gradient: got f32[2,3] but expected shape compatible with"));
}

TEST(LinkBuilderTest, DecisionsOnSymbolsAreGuarded) {
  LinkBuilder link("linked", {5, 5});
  const auto equal = link.Equal(SymInt::Symbol(0), SymInt::Symbol(1));
  ASSERT_TRUE(equal.ok());
  EXPECT_TRUE(*equal);
  EXPECT_TRUE(*link.Equal(SymInt::Symbol(0), SymInt::Symbol(0)));
  EXPECT_EQ(link.method().linked().guards_size(), 1);
  EXPECT_TRUE(CheckGuards(link.method().linked(), {7, 7}).ok());
  EXPECT_THAT(CheckGuards(link.method().linked(), {7, 8}).message(), HasSubstr("no longer equal"));
}

TEST(LinkBuilderTest, AViewIsCopiedWhereADenseValueIsNeeded) {
  LinkBuilder link("linked", {});
  const Value x = link.Input(F32({2, 3}), "x");
  const auto turned = link.View(x, view::Permute{.dims = {1, 0}}, {SymInt(3), SymInt(2)});
  ASSERT_TRUE(turned.ok());
  const Value dense = link.Dense(*turned, link.TypeOf(*turned));
  EXPECT_NE(dense, *turned);
  EXPECT_EQ(link.Dense(dense, link.TypeOf(dense)), dense);
}

TEST(LinkBuilderTest, ArithmeticOfComplexGradientsIsRefused) {
  LinkBuilder link("linked", {});
  const Value x = link.Input(RowMajorType(DType::kComplex64, {SymInt(2)}), "x");
  EXPECT_EQ(link.Add(x, x).status().code(), absl::StatusCode::kUnimplemented);
}

}  // namespace
}  // namespace cotan
