// SPDX-License-Identifier: Apache-2.0

// Compares what compiled forwards save with what PyTorch's min-cut partitioner saves.
#include "testing/models/saved.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "testing/models/check.h"

namespace cotan::testing {
namespace {

constexpr char kData[] = "testing/models/data";
constexpr char kReferences[] = "testing/models/data/saved_bytes.json";

std::vector<std::string> Models() {
  const auto models = FindModels(kData);
  EXPECT_TRUE(models.ok()) << models.status();
  return models.ok() ? *models : std::vector<std::string>();
}

class SavedModelTest : public ::testing::TestWithParam<std::string> {};

TEST_P(SavedModelTest, SavesAtMostWhatPyTorchsMinimalCutSaves) {
  const auto references = ReadReferenceBytes(kReferences);
  ASSERT_TRUE(references.ok()) << references.status();
  const std::string name = std::filesystem::path(GetParam()).stem().string();
  const auto reference = ReferenceOf(*references, name);
  ASSERT_TRUE(reference.ok()) << reference.status();
  const auto bytes = MeasurePair(GetParam(), {});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_LE(bytes->saved, *reference->min_cut);
  EXPECT_GT(bytes->saved, 0);
}

// From budget to budget only the peak is bounded: a model that is fitted into it may save other values.
TEST_P(SavedModelTest, SmallerBudgetsNeedNoMoreMemoryAndSaveNoMoreThanTheMinimalCut) {
  const auto by_default = MeasurePair(GetParam(), {.partitioner = aot::Partitioner::kDefault});
  ASSERT_TRUE(by_default.ok()) << by_default.status();
  const auto whole = MeasurePair(GetParam(), {.activation_memory_budget = 1});
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_LE(whole->saved, by_default->saved);
  PairBytes last = *whole;
  for (const double budget : {0.75, 0.5, 0.25, 0.0}) {
    const auto bytes = MeasurePair(GetParam(), {.activation_memory_budget = budget});
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_LE(bytes->saved, whole->saved) << budget;
    EXPECT_LE(bytes->peak, last.peak) << budget;
    last = *bytes;
  }
  EXPECT_LT(last.saved, by_default->saved);
}

INSTANTIATE_TEST_SUITE_P(All, SavedModelTest, ::testing::ValuesIn(Models()),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

TEST(ReferenceBytesTest, OtherFilesAreRefused) {
  EXPECT_EQ(ReadReferenceBytes("testing/models/data/none.json").status().code(), absl::StatusCode::kNotFound);
  const std::string path = ::testing::TempDir() + "/other.json";
  std::ofstream(path) << "{\"models\": {\"m\": {}}}";
  EXPECT_EQ(ReadReferenceBytes(path).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ReferenceBytesTest, FunctionalFormsHaveTheBytesOfTheirNetworkAndOtherModelsNone) {
  const References references = {{"net", {8, 9}}, {"net_func", {}}, {"other_func", {4, 5}}};
  EXPECT_EQ(ReferenceOf(references, "net")->min_cut, 8);
  EXPECT_EQ(ReferenceOf(references, "net_func")->min_cut, 8);
  EXPECT_EQ(ReferenceOf(references, "other_func")->min_cut, 4);
  EXPECT_EQ(ReferenceOf(references, "unknown_func").status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace cotan::testing
