// SPDX-License-Identifier: Apache-2.0

#include "runtime/compiled_autograd/linked_methods.h"

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "runtime/testing/loaded_function.h"
#include "serialization/container/container.h"

namespace cotan {
namespace {

using testing::At;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::Leaf;
using testing::LoadedFunction;
using testing::Square;
using testing::Values;

class LinkedMethodsTest : public ::testing::Test {
 protected:
  LinkedMethodsTest() { EXPECT_TRUE(CompiledAutograd::Reset().ok()); }
  ~LinkedMethodsTest() override { EXPECT_TRUE(CompiledAutograd::Reset().ok()); }

  // Adds the gradient of x^4 and of the first column of a matrix with n columns to the leaves, twice.
  static void Train(int64_t n, const CompiledAutogradOptions& options) {
    LoadedFunction program(Square());
    const Variable x = Leaf({2, 3});
    const Variable rows = *Variable::Leaf(*Tensor::Zeros(DType::kFloat32, {4, n}));
    for (int round = 1; round <= 2; ++round) {
      const Variable twice = At(program.Call({At(program.Call({x}), 0)}), 0);
      const Variable column = *rows.View({view::Select{.dim = 1, .index = 1}});
      CompiledAutograd scope(options);
      TensorOps& ops = program.session.ops();
      const absl::Status status =
          autograd::Backward({twice, column}, {*ops.Ones(DType::kFloat32, {2}), *ops.Ones(DType::kFloat32, {4})}, ops);
      ASSERT_TRUE(status.ok()) << status;
      EXPECT_THAT(Values(x.grad()), ElementsAre(32.0f * round, 108.0f * round));
      const std::vector<float> gradient = Values(rows.grad());
      for (int64_t i = 0; i < 4 * n; ++i) EXPECT_EQ(gradient[static_cast<size_t>(i)], i % n == 1 ? round : 0) << i;
    }
  }

  // Captures sizes 5 and 6 and returns the path of the artifact.
  std::string Save() const {
    Train(5, {});
    Train(6, {});
    EXPECT_EQ(CompiledAutograd::Stats().captures, 4);
    std::string path = ::testing::TempDir() + "/captures.cotan";
    const absl::Status saved = CompiledAutograd::SaveCaptures(path);
    EXPECT_TRUE(saved.ok()) << saved;
    EXPECT_TRUE(CompiledAutograd::Reset().ok());
    return path;
  }
};

TEST_F(LinkedMethodsTest, WhatWasSavedIsNotCapturedAgain) {
  const auto program = Program::Load(Save());
  ASSERT_TRUE(program.ok()) << program.status();
  const auto linked = LinkedMethods::Load(*program);
  ASSERT_TRUE(linked.ok()) << linked.status();
  for (const int64_t n : {6, 7, 5, 9}) Train(n, {.linked = *linked, .capture = false});
  EXPECT_EQ(CompiledAutograd::Stats().captures, 0);
  EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 0);
  EXPECT_EQ(CompiledAutograd::Stats().hits, 8);
}

TEST_F(LinkedMethodsTest, GraphsWithoutALinkedMethodAreWalkedIfCapturesAreDisabled) {
  const auto linked = LinkedMethods::Load(*Program::Load(Save()));
  ASSERT_TRUE(linked.ok()) << linked.status();
  LoadedFunction program(Square());
  const Variable x = Leaf({2, 3});
  CompiledAutograd scope({.linked = *linked, .capture = false});
  ASSERT_TRUE(program.Backward(At(program.Call({x}), 0), {1, 1}).ok());
  EXPECT_THAT(Values(x.grad()), ElementsAre(4, 6));
  EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 1);
  EXPECT_THAT(CompiledAutograd::Messages().back(), HasSubstr("captures are disabled"));
}

TEST_F(LinkedMethodsTest, SourcesNameTheSplicedMethods) {
  const auto program = Program::Load(Save());
  ASSERT_TRUE(program.ok()) << program.status();
  const serialization::Method& method = (*program)->method(0);
  ASSERT_EQ(method.linked().sources_size(), 1);
  EXPECT_EQ(method.linked().sources(0).method(), "b");
}

TEST_F(LinkedMethodsTest, MethodsOfOtherTypesAreNotRun) {
  const std::string path = Save();
  const auto change = [&](const std::function<void(serialization::Method&)>& apply) {
    serialization::Artifact artifact = (*Program::Load(path))->artifact();
    for (serialization::Method& method : *artifact.mutable_methods()) apply(method);
    const std::string bytes = *ArtifactWriter().Serialize(std::move(artifact));
    const auto program = Program::LoadBytes(bytes);
    if (!program.ok()) return;  // refused by the verifier
    const auto linked = LinkedMethods::Load(*program);
    ASSERT_TRUE(linked.ok()) << linked.status();
    ASSERT_TRUE(CompiledAutograd::Reset().ok());
    Train(7, {.linked = *linked, .capture = false});
    EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 2);
    EXPECT_THAT(CompiledAutograd::Messages().back(), ::testing::AnyOf(HasSubstr("another"), HasSubstr("declared")));
  };
  change([](serialization::Method& method) { method.mutable_outputs()->RemoveLast(); });
  change([](serialization::Method& method) { method.mutable_linked()->mutable_inputs()->Add(0); });
  change([](serialization::Method& method) {
    for (serialization::Value& value : *method.mutable_values()) {
      if (value.type().sizes_size() == 2) value.mutable_type()->add_sizes("1");
    }
  });
}

TEST_F(LinkedMethodsTest, ArtifactsWithoutLinkedMethodsAreRefused) {
  const auto refused = LinkedMethods::Load(Square().Load());
  EXPECT_THAT(refused.status().message(), HasSubstr("no linked method"));
  EXPECT_THAT(CompiledAutograd::SaveCaptures("unused.cotan").message(), HasSubstr("captured nothing"));
}

}  // namespace
}  // namespace cotan
