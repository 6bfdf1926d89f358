// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/metadata_indexes.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;

TEST(MetadataIndexesTest, RenumbersWithoutRemovedInputs) {
  EXPECT_THAT(RenumberedInputs({0, 1, 2, 3}, {2, -1, 0, 2}), ElementsAre(0, 2));
}

TEST(MetadataIndexesTest, BasesOfIntermediateAliasesAreNotInputs) {
  OutputAliasInfo info;
  EXPECT_FALSE(HasInputAsBase(info));
  info.base_index = 0;
  info.output_type = OutputType::kAliasOfInput;
  EXPECT_TRUE(HasInputAsBase(info));
  info.output_type = OutputType::kAliasOfIntermediate;
  EXPECT_FALSE(HasInputAsBase(info));
}

TEST(MetadataIndexesTest, AStorageMadeByTheProgramHasNoInputAsOwner) {
  InputAliasInfo info;
  EXPECT_FALSE(HasInputAsStorageOwner(info));
  info.new_storage.emplace().owner = NewStorage::Owner::kProgram;
  EXPECT_FALSE(HasInputAsStorageOwner(info));
  info.new_storage->owner = NewStorage::Owner::kInput;
  EXPECT_TRUE(HasInputAsStorageOwner(info));
}

}  // namespace
}  // namespace cotan::aot
