// SPDX-License-Identifier: Apache-2.0

// Every exported model in testing/models/data trains on a simulated GPU as PyTorch did, as `//testing/models:check`
// with --device=cuda_sim says of any folder.
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "testing/models/check.h"

namespace cotan::testing {
namespace {

std::vector<std::string> Models() {
  absl::StatusOr<std::vector<std::string>> models = FindModels("testing/models/data");
  EXPECT_TRUE(models.ok()) << models.status();
  return models.ok() ? *models : std::vector<std::string>();
}

class ExportedModelOnSimulatedGpuTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ExportedModelOnSimulatedGpuTest, TrainsAsInPyTorch) {
  const ModelReport report =
      CheckModel(GetParam(), {.scratch_folder = std::getenv("TEST_TMPDIR"), .device = "cuda_sim"});
  EXPECT_TRUE(report.status.ok()) << ToLine(report);
  EXPECT_GT(report.values, 0);
}

INSTANTIATE_TEST_SUITE_P(All, ExportedModelOnSimulatedGpuTest, ::testing::ValuesIn(Models()),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

}  // namespace
}  // namespace cotan::testing
