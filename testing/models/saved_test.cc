// SPDX-License-Identifier: Apache-2.0

// Compares what compiled forwards save with what PyTorch's min-cut partitioner saves.
#include "testing/models/saved.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/strip.h"
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

// The functional form of a network, NAME_func, is compared with the references of the network itself if PyTorch cannot
// trace it.
TEST_P(SavedModelTest, SavesAtMostWhatPyTorchsMinimalCutSaves) {
  const auto references = ReadReferenceBytes(kReferences);
  ASSERT_TRUE(references.ok()) << references.status();
  const std::string name = std::filesystem::path(GetParam()).stem().string();
  ASSERT_TRUE(references->contains(name)) << "run record_saved_bytes.py";
  std::optional<int64_t> reference = references->at(name).min_cut;
  if (!reference.has_value()) reference = references->at(std::string(absl::StripSuffix(name, "_func"))).min_cut;
  ASSERT_TRUE(reference.has_value()) << "PyTorch cannot trace this archive";
  const auto bytes = MeasurePair(GetParam(), {});
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  EXPECT_LE(bytes->saved, *reference);
  EXPECT_GT(bytes->saved, 0);
}

TEST_P(SavedModelTest, TheMinimalCutAndSmallerBudgetsSaveNoMore) {
  const auto by_default = MeasurePair(GetParam(), {.partitioner = aot::Partitioner::kDefault});
  ASSERT_TRUE(by_default.ok()) << by_default.status();
  int64_t last = by_default->saved;
  for (const double budget : {1.0, 0.5, 0.0}) {
    const auto bytes = MeasurePair(GetParam(), {.activation_memory_budget = budget});
    ASSERT_TRUE(bytes.ok()) << bytes.status();
    EXPECT_LE(bytes->saved, last) << budget;
    last = bytes->saved;
  }
  EXPECT_LT(last, by_default->saved);
}

INSTANTIATE_TEST_SUITE_P(All, SavedModelTest, ::testing::ValuesIn(Models()),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

TEST(ReferenceBytesTest, OtherFilesAreRefused) {
  EXPECT_EQ(ReadReferenceBytes("testing/models/data/none.json").status().code(), absl::StatusCode::kNotFound);
  const std::string path = ::testing::TempDir() + "/other.json";
  std::ofstream(path) << "{\"models\": {\"m\": {}}}";
  EXPECT_EQ(ReadReferenceBytes(path).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::testing
