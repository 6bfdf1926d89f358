// SPDX-License-Identifier: Apache-2.0

#include "aot/tools/loss_flag.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cotan::aot {
namespace {

using ::testing::HasSubstr;

TEST(LossFlagTest, ReadsAnOutput) {
  EXPECT_EQ(ParseLoss("output:1")->output, 1);
  EXPECT_EQ(ParseLoss(" output:-1 ")->output, -1);
  EXPECT_EQ(ParseLoss("output:1")->function, "");
}

TEST(LossFlagTest, ReadsAFunction) {
  const auto loss = ParseLoss("cross_entropy( output:0, label )");
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_EQ(loss->function, "cross_entropy");
  EXPECT_EQ(loss->output, 0);
  EXPECT_EQ(loss->label, "label");
}

TEST(LossFlagTest, RefusesAllElse) {
  for (const char* text : {"", "output", "output:x", "mse_loss", "mse_loss(output:0)", "mse_loss(output:0,)",
                           "mse_loss(x,label)", "mse_loss(output:0,label", "focal(output:0,label)"}) {
    const absl::Status status = ParseLoss(text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("cross_entropy, nll_loss, mse_loss")) << text;
  }
}

TEST(LossFlagTest, MakesTheLabelFromTheOutput) {
  CompileOptions options;
  ASSERT_TRUE(SetLoss(*ParseLoss("cross_entropy(output:0,label)"), {at::ones({4, 5, 6})}, options).ok());
  EXPECT_EQ(options.loss.targets[0].sizes(), (std::vector<int64_t>{4, 6}));
  EXPECT_EQ(options.loss.targets[0].scalar_type(), at::kLong);
  EXPECT_EQ(options.loss.function({at::ones({4, 5, 6})}, options.loss.targets).dim(), 0);

  ASSERT_TRUE(SetLoss(*ParseLoss("mse_loss(output:-1,wanted)"), {at::ones({1}), at::ones({2, 3})}, options).ok());
  EXPECT_EQ(options.loss.targets[0].sizes(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(options.loss.function({at::ones({1}), at::ones({2, 3})}, options.loss.targets).item<float>(), 1);
}

TEST(LossFlagTest, RefusesOutputsThatAreNotThere) {
  CompileOptions options;
  EXPECT_EQ(SetLoss({"", 2, ""}, {at::ones({1})}, options).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(SetLoss({"mse_loss", 0, "t"}, {at::ones({1}, at::kLong)}, options).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(LossFlagTest, RefusesFunctionsOfOutputsWhoseSizesDependOnData) {
  CompileOptions options;
  const absl::Status status = SetLoss({"mse_loss", 0, "t"}, {at::Tensor()}, options);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("return the loss from the model"));
  EXPECT_TRUE(SetLoss({"", 0, ""}, {at::Tensor()}, options).ok());
}

}  // namespace
}  // namespace cotan::aot
