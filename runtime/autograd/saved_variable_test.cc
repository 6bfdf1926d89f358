// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/saved_variable.h"

#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

class ReaderNode final : public Node {
 public:
  absl::string_view name() const override { return "Reader"; }
  absl::StatusOr<Gradients> Apply(BackwardContext&, absl::Span<Tensor>) override { return Gradients(); }
};

TEST(SavedVariableTest, GivesTheValueBack) {
  const Variable x(Vector({1, 2}));
  const SavedVariable saved(x);
  EXPECT_EQ(saved.Unpack(ReaderNode())->address(), x.tensor().address());
  EXPECT_FALSE(SavedVariable(Variable()).Unpack(ReaderNode())->defined());
}

TEST(SavedVariableTest, WritesAreFoundAlsoThroughAliases) {
  const Variable leaf = *Variable::Leaf(Vector({1, 2}));
  const Variable x = Scale(leaf, 2);
  const SavedVariable saved(x);
  Variable alias = x.Detach();
  alias.BumpVersion();
  EXPECT_THAT(saved.Unpack(ReaderNode()).status(),
              Fails(absl::StatusCode::kFailedPrecondition,
                    "one of the variables needed for gradient computation by Reader has been modified by an inplace "
                    "operation: f32[2], output 0 of Scale, is at version 1; expected version 0"));
}

TEST(SavedVariableTest, WhatIsReleasedIsGone) {
  SavedVariable saved(Variable(Vector({1, 2})));
  saved.Release();
  EXPECT_THAT(saved.Unpack(ReaderNode()).status(), Fails(absl::StatusCode::kFailedPrecondition,
                                                         "Reader: trying to backward through the graph a second time"));
}

TEST(SavedVariableTest, OneValueMayHaveHooks) {
  const SavedTensorHooks hooks = {
      .pack = [](const Tensor& value) -> absl::StatusOr<PackedData> { return std::make_shared<Tensor>(value); },
      .unpack = [](const PackedData&) -> absl::StatusOr<Tensor> {
        return Vector({5, 6});
      }};
  const ReaderNode node;
  Variable x(Vector({1, 2}));
  SavedVariable saved(x), none;
  ASSERT_TRUE(saved.RegisterHooks(hooks, node).ok());
  x.BumpVersion();
  EXPECT_THAT(ToVector(*saved.Unpack(node)), ::testing::ElementsAre(5, 6));
  constexpr absl::StatusCode kRefused = absl::StatusCode::kFailedPrecondition;
  EXPECT_THAT(saved.RegisterHooks(hooks, node), Fails(kRefused, "of Reader: hooks have already been set"));
  EXPECT_THAT(none.RegisterHooks(hooks, node), Fails(kRefused, "the value is none"));
  SavedVariable written(x);
  x.BumpVersion();
  EXPECT_THAT(written.RegisterHooks(hooks, node), Fails(kRefused, "has been modified by an inplace operation"));
  saved.Release();
  EXPECT_THAT(saved.RegisterHooks(hooks, node), Fails(kRefused, "the value has been freed"));
}

TEST(SavedVariableTest, DoesNotKeepTheGraph) {
  Variable leaf = *Variable::Leaf(Vector({1, 2}));
  Variable x = Scale(leaf, 2);
  const std::weak_ptr<Node> node = *x.grad_fn();
  const SavedVariable saved(x);
  x = Variable();
  EXPECT_TRUE(node.expired());
  EXPECT_TRUE(saved.Unpack(ReaderNode()).ok());
}

}  // namespace
}  // namespace cotan::autograd
