// SPDX-License-Identifier: Apache-2.0

#include "aot/linking/fuse_linked.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "linking/fingerprint.h"
#include "linking/link_builder.h"
#include "linking/linked_artifact.h"
#include "serialization/text/text.h"

namespace cotan::aot {
namespace {

using ::testing::HasSubstr;

// grad += sum over rows of (a + b), of sizes [s0, 3].
serialization::Method Accumulation() {
  LinkBuilder link("backward", {8});
  const SymInt rows = SymInt::Symbol(0);
  const LinkBuilder::Value a = link.Input(RowMajorType(DType::kFloat32, {rows, 3}), "a");
  const LinkBuilder::Value b = link.Input(RowMajorType(DType::kFloat32, {rows, 3}), "b");
  const LinkBuilder::Value grad = link.Input(RowMajorType(DType::kFloat32, {3}), "grad");
  const LinkBuilder::Value sum = *link.Add(*link.SumTo(*link.Add(a, b), {3}), grad);
  link.Update(2, sum);
  serialization::Method method = link.method();
  method.mutable_linked()->add_key(1);
  method.mutable_linked()->add_sizes("s0");
  method.mutable_linked()->set_num_symbols(1);
  for (const uint32_t input : {1, 2, 3}) method.mutable_linked()->add_inputs(input);
  return method;
}

TEST(FuseLinkedTest, AccumulationsAreFusedWithTheirGradients) {
  const serialization::Artifact captures = LinkedArtifact({Accumulation()});
  const auto fused = FuseLinked(captures);
  ASSERT_TRUE(fused.ok()) << fused.status();
  const serialization::Method& method = fused->methods(0);
  const auto is_expr = [](const serialization::Op& op) { return op.has_expr(); };
  EXPECT_EQ(std::count_if(method.ops().begin(), method.ops().end(), is_expr), 1) << MethodText(*fused, method);
  EXPECT_EQ(method.name(), "backward");
  EXPECT_EQ(method.inputs_size(), 3);
  ASSERT_EQ(method.input_updates_size(), 1);
  EXPECT_EQ(method.input_updates(0).input(), 2);
  EXPECT_EQ(method.linked().SerializeAsString(), captures.methods(0).linked().SerializeAsString());
}

TEST(FuseLinkedTest, OtherMethodsAreRefused) {
  serialization::Artifact artifact;
  artifact.add_methods()->set_name("forward");
  EXPECT_THAT(FuseLinked(artifact).status().message(), HasSubstr("'forward' is not a linked method"));
}

TEST(FuseLinkedTest, SourcesOfOtherProgramsAreNamed) {
  serialization::Artifact program;
  program.add_methods()->set_name("backward");
  serialization::Artifact captures = LinkedArtifact({Accumulation()});
  serialization::LinkedSource& source = *captures.mutable_methods(0)->mutable_linked()->add_sources();
  source.set_method("backward");
  source.set_fingerprint(MethodFingerprint(program, 0));
  EXPECT_TRUE(CheckSources(captures, {&program}).ok());
  program.mutable_methods(0)->add_ops();
  EXPECT_THAT(CheckSources(captures, {&program}).message(), HasSubstr("'backward' in 'backward'"));
}

}  // namespace
}  // namespace cotan::aot
