// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/input_mutations.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

TEST(InputsToDetachTest, AreTheNonLeavesWithoutGradient) {
  ViewAndMutationMetaFields facts;
  facts.input_info.resize(3);
  for (InputAliasInfo& info : facts.input_info) info.requires_grad = true;
  facts.input_info[0].is_leaf = true;
  EXPECT_THAT(InputsToDetach(facts, {false, false, true}), ElementsAre(1));
  EXPECT_THAT(InputsToDetach(facts, {true, true, true}), IsEmpty());
}

}  // namespace
}  // namespace cotan::aot
