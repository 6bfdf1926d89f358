// SPDX-License-Identifier: Apache-2.0

#include "serialization/schema/op_kind.h"

#include <algorithm>
#include <set>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using serialization::Op;
using ::testing::Contains;
using ::testing::Not;

TEST(OpKindTest, EveryOpHasANameOfItsOwn) {
  std::set<absl::string_view> names;
  for (const OpKind kind : AllOpKinds()) names.insert(OpKindName(kind));
  EXPECT_EQ(names.size(), AllOpKinds().size());
  EXPECT_THAT(names, Not(Contains("unknown")));
}

TEST(OpKindTest, AllButViewsAreListedInTheOrderOfTheSchema) {
  EXPECT_EQ(AllOpKinds().front(), Op::kExpr);
  EXPECT_THAT(AllOpKinds(), Contains(Op::kAttentionBackward));
  EXPECT_THAT(AllOpKinds(), Contains(Op::kCheckedIndex));
  EXPECT_THAT(AllOpKinds(), Not(Contains(Op::kView)));
  EXPECT_TRUE(std::is_sorted(AllOpKinds().begin(), AllOpKinds().end()));
}

TEST(OpKindTest, NamesAreThoseOfTheSchema) {
  EXPECT_EQ(OpKindName(Op::kView), "view");
  EXPECT_EQ(OpKindName(Op::kConvolutionBackwardWeight), "convolution_backward_weight");
  EXPECT_EQ(OpKindName(Op::KIND_NOT_SET), "unknown");
}

}  // namespace
}  // namespace cotan
