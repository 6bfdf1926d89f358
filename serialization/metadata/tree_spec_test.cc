// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/tree_spec.h"

#include "absl/strings/match.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

// (*, {a: *, b: [*, none]})
TreeSpec Example() {
  TreeSpec list;
  list.kind = TreeSpec::Kind::kList;
  list.children.resize(2);
  list.children[1].kind = TreeSpec::Kind::kNone;
  TreeSpec dict;
  dict.kind = TreeSpec::Kind::kDict;
  dict.keys = {"a", "b"};
  dict.children = {TreeSpec(), list};
  TreeSpec spec = TreeSpec::FlatTuple(1);
  spec.children.push_back(dict);
  return spec;
}

TEST(TreeSpec, RoundTrips) {
  absl::StatusOr<TreeSpec> again = TreeSpec::FromProto(Example().ToProto(), "spec");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(*again, Example());
  EXPECT_EQ(again->ToString(), "(*, {a: *, b: [*, none]})");
}

TEST(TreeSpec, NoneIsNoLeaf) {
  EXPECT_EQ(Example().num_leaves(), 3);
  EXPECT_EQ(TreeSpec::FlatTuple(0).num_leaves(), 0);
  EXPECT_EQ(TreeSpec().num_leaves(), 1);
}

TEST(TreeSpec, RefusesKeysThatDoNotFit) {
  serialization::TreeSpec proto = Example().ToProto();
  proto.mutable_children(1)->add_keys("c");
  EXPECT_EQ(TreeSpec::FromProto(proto, "spec").status().message(), "spec.children[1].keys: 3 keys where 2 belong");
  proto = Example().ToProto();
  proto.add_keys("a");
  EXPECT_EQ(TreeSpec::FromProto(proto, "spec").status().message(), "spec.keys: 1 keys where 0 belong");
  proto = Example().ToProto();
  proto.mutable_children(1)->set_keys(1, "a");
  EXPECT_EQ(TreeSpec::FromProto(proto, "spec").status().message(), "spec.children[1].keys[1]: \"a\" occurs twice");
}

TEST(TreeSpec, RefusesChildrenOfLeaves) {
  serialization::TreeSpec proto;
  proto.add_children();
  EXPECT_EQ(TreeSpec::FromProto(proto, "spec").status().message(), "spec.children: must be empty for a leaf");
}

TEST(TreeSpec, RefusesUnknownKindsAndDeepNesting) {
  serialization::TreeSpec proto;
  proto.set_kind(static_cast<serialization::TreeSpec::Kind>(9));
  EXPECT_EQ(TreeSpec::FromProto(proto, "spec").status().message(),
            "spec.kind: 9 is not a known kind of tree; a newer version may have written it");

  serialization::TreeSpec deep;
  serialization::TreeSpec* inner = &deep;
  for (int i = 0; i < 70; ++i) {
    inner->set_kind(serialization::TreeSpec::LIST);
    inner = inner->add_children();
  }
  EXPECT_TRUE(absl::EndsWith(TreeSpec::FromProto(deep, "spec").status().message(), "is nested more than 64 times"));
}

}  // namespace
}  // namespace cotan
