// SPDX-License-Identifier: Apache-2.0

#include "testing/models/golden.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

constexpr char kData[] = "testing/models/data/";

absl::StatusOr<Golden> Load(const std::string& name) {
  return LoadGolden(kData + name + ".safetensors", kData + name + ".json");
}

TEST(GoldenTest, ReadsValuesAndTolerances) {
  const auto golden = Load("mlp");
  ASSERT_TRUE(golden.ok()) << golden.status();
  EXPECT_TRUE(golden->has_values);
  EXPECT_THAT(golden->inputs, SizeIs(2));
  EXPECT_THAT(golden->outputs, SizeIs(2));
  EXPECT_THAT(golden->gradients, SizeIs(6));
  EXPECT_EQ(golden->gradients.at("net.1.weight").dtype(), DType::kFloat64);
  EXPECT_EQ(golden->output_tolerance, 2e-6);
  ASSERT_THAT(golden->sgd, SizeIs(2));
  EXPECT_EQ(golden->sgd[0].lr, 0.05);
  EXPECT_EQ(golden->sgd[1].lr, 0.001);
  EXPECT_EQ(golden->sgd[0].num_compared, 5);
  EXPECT_EQ(golden->sgd[0].tolerance, 1e-5);
}

TEST(GoldenTest, ReadsBuffers) {
  const auto golden = Load("tv_shufflenet_v2");
  ASSERT_TRUE(golden.ok()) << golden.status();
  EXPECT_THAT(golden->buffers, SizeIs(87));
}

TEST(GoldenTest, AModelWithRandomNumbersHasOnlyInputs) {
  const auto golden = Load("dropout_cnn");
  ASSERT_TRUE(golden.ok()) << golden.status();
  EXPECT_FALSE(golden->has_values);
  EXPECT_THAT(golden->inputs, SizeIs(2));
}

// Losses are compared as long as PyTorch's own rounding does not change them.
TEST(GoldenTest, ComparesTheFirstLossesOfChaoticTraining) {
  const std::string manifest = ::testing::TempDir() + "/chaotic.json";
  std::ofstream(manifest) << R"({"golden": true, "inputs": [], "losses64": [1, 2, 3], "low_lr_losses64": [1, 2, 3],
    "sgd": {"lr": 0.05, "low_lr": 0.001, "momentum": 0.9},
    "tolerance": {"output_rtol": 1e-5, "grad_rtol": 1e-5, "sgd_loss_rtol": 10, "low_lr_sgd_loss_rtol": 1e-5,
                  "sgd_loss_errors": [0.00025, 0.42, 0.0001], "low_lr_sgd_loss_errors": [1e-7, 1e-7, 1e-7]}})";
  const auto golden = LoadGolden(std::string(kData) + "mlp.safetensors", manifest);
  ASSERT_TRUE(golden.ok()) << golden.status();
  EXPECT_EQ(golden->sgd[0].num_compared, 1);
  EXPECT_DOUBLE_EQ(golden->sgd[0].tolerance, 0.005);
  EXPECT_EQ(golden->sgd[1].num_compared, 3);
}

TEST(GoldenTest, ErrorNamesTheInvalidFile) {
  EXPECT_EQ(Load("no_such_model").status().code(), absl::StatusCode::kNotFound);
  const std::string manifest = ::testing::TempDir() + "/empty.json";
  std::ofstream(manifest) << "{}";
  const absl::Status status = LoadGolden(std::string(kData) + "mlp.safetensors", manifest).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("empty.json"));
}

}  // namespace
}  // namespace cotan::testing
