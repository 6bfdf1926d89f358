// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/known_counts.h"

#include <string>
#include <tuple>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using serialization::Artifact;
using serialization::Method;
using ::testing::HasSubstr;

// Adds a sizing method that is continued by `next` at a count; it has an op over `domain`.
void AddSizing(const std::string& name, const std::string& next, const std::string& domain, Artifact& artifact) {
  Method& method = *artifact.add_methods();
  method.set_name(name);
  method.add_ops()->mutable_expr()->add_domain_sizes(domain);
  method.mutable_continuation()->set_method(next);
  method.mutable_continuation()->add_inputs()->set_count(1);
}

void AddInput(const std::string& size, Method& method) {
  method.add_values()->mutable_type()->add_sizes(size);
  method.add_inputs(static_cast<uint32_t>(method.values_size() - 1));
}

DynamicShapes Shapes() {
  DynamicShapes shapes;
  shapes.symbols = {{.name = "batch"}, {.name = "found", .from_data = true}, {.name = "kept", .from_data = true}};
  return shapes;
}

// "f.sizes" counts s1 for "f.sizes.1", which counts s2 for "f"; s0 is a dynamic dimension.
Artifact Chain(const std::string& first_domain, const std::string& second_domain) {
  Artifact artifact;
  Method& called = *artifact.add_methods();
  called.set_name("f");
  AddInput("s2", called);
  called.add_ops()->mutable_expr()->add_domain_sizes("(s1 + s2)");
  AddSizing("f.sizes", "f.sizes.1", first_domain, artifact);
  AddSizing("f.sizes.1", "f", second_domain, artifact);
  AddInput("s1", *artifact.mutable_methods(2));
  return artifact;
}

TEST(KnownCountsTest, AMethodUsesWhatWasCountedBefore) {
  Artifact artifact = Chain("(s0 * 2)", "(s0 + s1)");
  EXPECT_TRUE(CheckCountsAreKnown(Shapes(), artifact).ok()) << CheckCountsAreKnown(Shapes(), artifact);
}

TEST(KnownCountsTest, RefusesCountsOfTheSameMethodAndOfLaterOnes) {
  for (const auto& [first, second, name] :
       {std::tuple{"(s0 + s1)", "1", "'found'"}, {"(s0 * s2)", "1", "'kept'"}, {"1", "(s1 + s2)", "'kept'"}}) {
    Artifact artifact = Chain(first, second);
    const absl::Status status = CheckCountsAreKnown(Shapes(), artifact);
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
    EXPECT_THAT(status.message(), HasSubstr(name));
    EXPECT_THAT(status.message(), HasSubstr("op 0 (expr)"));
  }
}

TEST(KnownCountsTest, RefusesASizeThatNoMethodCounts) {
  Artifact artifact;
  Method& called = *artifact.add_methods();
  called.set_name("f");
  called.set_backward_method("f.backward");
  Method& backward = *artifact.add_methods();
  backward.set_name("f.backward");
  EXPECT_TRUE(CheckCountsAreKnown(Shapes(), artifact).ok());
  backward.add_ops()->mutable_expr()->add_domain_sizes("(s0 * s1)");
  EXPECT_THAT(CheckCountsAreKnown(Shapes(), artifact).message(), HasSubstr("method 'f.backward', op 0 (expr)"));
  Artifact chain = Chain("1", "1");
  chain.mutable_methods(0)->set_backward_method("f.backward");
  *chain.add_methods() = backward;
  EXPECT_TRUE(CheckCountsAreKnown(Shapes(), chain).ok()) << CheckCountsAreKnown(Shapes(), chain);
}

}  // namespace
}  // namespace cotan::aot
