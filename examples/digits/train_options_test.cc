// SPDX-License-Identifier: Apache-2.0

#include "examples/digits/train_options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace cotan::digits {
namespace {

using ::testing::HasSubstr;

absl::StatusOr<TrainOptions> Parse(std::vector<std::string> words) {
  words.insert(words.begin(), "train");
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  return ParseTrainOptions(static_cast<int>(words.size()), argv.data());
}

std::string ErrorOf(const std::vector<std::string>& words) { return std::string(Parse(words).status().message()); }

TEST(TrainOptionsTest, HaveDefaultsAndAreSet) {
  const absl::StatusOr<TrainOptions> defaults = Parse({});
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  EXPECT_EQ(defaults->epochs, 3);
  EXPECT_EQ(defaults->device, "cpu");
  EXPECT_FALSE(defaults->resume);
  const auto options = Parse({"--epochs=0", "--threads", "2", "--device=cuda", "--checkpoint=a b", "--resume",
                              "--train_images=7", "--held_out_images=1", "--artifact=x", "--data=folder"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->epochs, 0);
  EXPECT_EQ(options->threads, 2);
  EXPECT_EQ(options->device, "cuda");
  EXPECT_EQ(options->checkpoint, "a b");
  EXPECT_TRUE(options->resume);
  EXPECT_EQ(options->train_images, 7);
  EXPECT_EQ(options->held_out_images, 1);
  EXPECT_EQ(options->artifact, "x");
  EXPECT_EQ(options->data, "folder");
  EXPECT_TRUE(Parse({"--help"})->help);
}

TEST(TrainOptionsTest, AreRefusedWithTheirName) {
  EXPECT_THAT(ErrorOf({"--epoch_count=3"}), HasSubstr("there is no option '--epoch_count=3'"));
  EXPECT_THAT(ErrorOf({"-e"}), HasSubstr("there is no option '-e'"));
  EXPECT_THAT(ErrorOf({"--epochs"}), HasSubstr("'--epochs' needs a value"));
  EXPECT_THAT(ErrorOf({"--epochs=-1"}), HasSubstr("--epochs=-1 is not a number of at least 0"));
  EXPECT_THAT(ErrorOf({"--threads=two"}), HasSubstr("--threads=two is not a number"));
  EXPECT_THAT(ErrorOf({"--threads=3000000000"}), HasSubstr("--threads=3000000000"));
  EXPECT_THAT(ErrorOf({"--train_images=0"}), HasSubstr("at least 1"));
  EXPECT_THAT(ErrorOf({"--resume"}), HasSubstr("--resume needs --checkpoint"));
  EXPECT_THAT(ErrorOf({"--resume=1"}), HasSubstr("'--resume=1' has a value, which this option does not take"));
  EXPECT_THAT(ErrorOf({"digits"}), HasSubstr("unexpected argument 'digits'"));
  EXPECT_THAT(ErrorOf({"digits", "--bogus"}), HasSubstr("unexpected argument 'digits'"));
  EXPECT_THAT(ErrorOf({"--threads", "2", "--bogus"}), HasSubstr("there is no option '--bogus'"));
}

}  // namespace
}  // namespace cotan::digits
