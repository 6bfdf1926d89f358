// SPDX-License-Identifier: Apache-2.0

// Trains every exported model in testing/models/data for five steps, and tests that the check finds errors.
#include "testing/models/check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "absl/strings/str_replace.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;

constexpr char kData[] = "testing/models/data";

CheckOptions Options() { return {.scratch_folder = ::testing::TempDir()}; }

std::vector<std::string> Models() {
  absl::StatusOr<std::vector<std::string>> models = FindModels(kData);
  EXPECT_TRUE(models.ok()) << models.status();
  return models.ok() ? *models : std::vector<std::string>();
}

class ExportedModelTest : public ::testing::TestWithParam<std::string> {};

TEST_P(ExportedModelTest, TrainsAsInPyTorch) {
  const ModelReport report = CheckModel(GetParam(), Options());
  EXPECT_TRUE(report.status.ok()) << ToLine(report);
  EXPECT_GT(report.values, 0);
  std::printf("%s\n", ToLine(report).c_str());
}

INSTANTIATE_TEST_SUITE_P(All, ExportedModelTest, ::testing::ValuesIn(Models()),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

std::string ReadFile(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

// A copy of mlp in the test's folder with one piece of its manifest replaced.
ModelReport CheckMlpWith(const std::string& from, const std::string& to) {
  const std::string folder = ::testing::TempDir() + "/changed";
  std::filesystem::create_directories(folder);
  for (const char* file : {"mlp.pt2", "mlp.safetensors", "mlp.json"}) {
    std::string content = ReadFile(std::string(kData) + "/" + file);
    if (std::string(file) == "mlp.json") {
      EXPECT_THAT(content, HasSubstr(from));
      content = absl::StrReplaceAll(content, {{from, to}});
    }
    std::ofstream(folder + "/" + file, std::ios::binary) << content;
  }
  return CheckModel(folder + "/mlp.pt2", Options());
}

TEST(CheckTest, FindsLossesThatDiffer) {
  const ModelReport report = CheckMlpWith("1.1419581363879854", "1.1430000000000000");
  EXPECT_EQ(report.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_EQ(report.worst_where, "loss after 5 steps at lr 0.05");
  EXPECT_THAT(ToLine(report), HasSubstr("FAILED"));
}

TEST(CheckTest, FindsGradientsBeyondTheirTolerance) {
  const ModelReport report = CheckMlpWith("\"grad_rtol\": 1e-05", "\"grad_rtol\": 1e-12");
  EXPECT_EQ(report.status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(report.worst_where, HasSubstr("gradient of net."));
}

TEST(CheckTest, ReportsWhyAModelCannotBeChecked) {
  EXPECT_THAT(std::string(CheckModel("/no/such/model.pt2", Options()).status.message()), HasSubstr("/no/such/model"));
  EXPECT_EQ(FindModels("/no/such/folder").status().code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(FindModels("/").status().code(), absl::StatusCode::kNotFound);
}

TEST(CheckTest, WritesJsonForMachines) {
  ModelReport good, bad;
  good.name = "good";
  bad.name = "bad";
  bad.status = absl::UnimplementedError("no \"such\" op");
  bad.worst = std::numeric_limits<double>::infinity();
  const nlohmann::json json = nlohmann::json::parse(ToJson({good, bad}));
  EXPECT_EQ(json["passed"], 1);
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["models"][1]["message"], "no \"such\" op");
  EXPECT_TRUE(json["models"][1]["worst"].is_null());
}

}  // namespace
}  // namespace cotan::testing
