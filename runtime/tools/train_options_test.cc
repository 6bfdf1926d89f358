// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/train_options.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"

namespace cotan::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

CommandLine Line(std::vector<std::string> arguments) {
  std::vector<const char*> pointers;
  for (const std::string& argument : arguments) pointers.push_back(argument.c_str());
  return *CommandLine::Parse(pointers, TrainOptionNames());
}

absl::StatusOr<TrainOptions> Parse(std::vector<std::string> arguments) {
  return ParseTrainOptions(Line(std::move(arguments)), *testing::LinearRegression().Load());
}

std::string Refusal(std::vector<std::string> arguments) {
  const absl::Status status = Parse(std::move(arguments)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  return std::string(status.message());
}

std::string Write(absl::string_view name, absl::string_view bytes) {
  const std::string path = absl::StrCat(::testing::TempDir(), "/", name);
  EXPECT_TRUE(WriteFileAtomically(path, {bytes}).ok());
  return path;
}

TEST(TrainOptionsTest, EveryOptionIsInTheUsageText) {
  for (const absl::string_view name : TrainOptionNames()) {
    if (name == "help") continue;
    EXPECT_THAT(std::string(TrainUsage()), HasSubstr(absl::StrCat("--", name)));
  }
}

TEST(TrainOptionsTest, OptionsThatAreNotGivenHaveDefaults) {
  const absl::StatusOr<TrainOptions> options = Parse({});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->trainer.epochs, 1);
  EXPECT_EQ(options->trainer.batch, 0);
  EXPECT_FALSE(options->trainer.lr.has_value());
  EXPECT_FALSE(options->trainer.seed.has_value());
  EXPECT_EQ(options->trainer.normalization, training::Normalization());
  EXPECT_EQ(options->trainer.metric, training::Metric::kMeanSquaredError) << "targets of the program are f32";
}

TEST(TrainOptionsTest, ReadsOptions) {
  const absl::StatusOr<TrainOptions> options =
      Parse({"--epochs=3", "--seed=18446744073709551615", "--schedule=cosine(minimum=1e-4)", "--warmup_steps=7",
             "--ema=0.9", "--held_out=x", "--targets=y", "--early_stop=2", "--min_delta=0.5", "--metric=cross_entropy",
             "--clip_norm=2", "--clip_value=0.25"});
  ASSERT_TRUE(options.ok()) << options.status();
  EXPECT_EQ(options->trainer.seed, UINT64_MAX);
  EXPECT_EQ(options->trainer.schedule.minimum, 1e-4);
  EXPECT_EQ(options->trainer.schedule.warmup_steps, 7);
  EXPECT_EQ(options->trainer.ema, 0.9);
  EXPECT_EQ(options->trainer.early_stopping.patience, 2);
  EXPECT_EQ(options->trainer.early_stopping.min_delta, 0.5);
  EXPECT_EQ(options->trainer.metric, training::Metric::kCrossEntropy);
  EXPECT_EQ(options->trainer.clip_norm, 2);
  EXPECT_EQ(options->trainer.clip_value, 0.25);
}

TEST(TrainOptionsTest, MistakesNameTheOption) {
  EXPECT_EQ(Refusal({"--epochs=0"}), "--epochs=0: expected an integer of at least 1");
  EXPECT_EQ(Refusal({"--seed=-1"}), "--seed=-1: expected an integer of at least 0");
  EXPECT_THAT(Refusal({"--lr=0"}), HasSubstr("--lr=0: expected a number from"));
  EXPECT_THAT(Refusal({"--ema=1"}), HasSubstr("--ema=1: expected a number from"));
  EXPECT_THAT(Refusal({"--deviation=0"}), HasSubstr("--deviation=0: expected"));
  EXPECT_THAT(Refusal({"--schedule=sine"}), HasSubstr("--schedule=sine: there is no schedule 'sine'"));
  EXPECT_THAT(Refusal({"--held_out=x", "--metric=f1"}), HasSubstr("--metric=f1: there is no metric"));
  EXPECT_EQ(Refusal({"--best=x"}), "--best needs --held_out");
  EXPECT_EQ(Refusal({"--held_out=x"}), "--held_out needs --targets");
  EXPECT_EQ(Refusal({"--resume"}), "--resume needs --checkpoint");
}

TEST(TrainDataTest, TheNameOfAFileGivesItsFormat) {
  const std::string csv = Write("data.csv", "1,2,0\n3,4,1\n");
  const absl::StatusOr<TrainData> data = ReadTrainData(Line({"--data=" + csv, "--targets=2"}));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train.size(), 2);
  EXPECT_THAT(data->targets, ElementsAre("targets"));
  EXPECT_FALSE(data->held_out.has_value());
  EXPECT_THAT(std::string(ReadTrainData(Line({"--data=data.bin"})).status().message()),
              HasSubstr("--format=: expected csv, idx or safetensors for 'data.bin'"));
  EXPECT_THAT(std::string(ReadTrainData(Line({})).status().message()), HasSubstr("--data=FILE is missing"));
}

TEST(TrainDataTest, HoldsOutAShareOrAFile) {
  const std::string csv = Write("share.txt", "1;2;a\n3;4;b\n5;6;a\n7;8;b\n");
  const std::vector<std::string> options = {"--data=" + csv, "--format=csv", "--delimiter=;", "--classes=a,b",
                                            "--targets=-1"};
  std::vector<std::string> share = options, file = options, all = options;
  share.push_back("--held_out=0.25");
  const absl::StatusOr<TrainData> split = ReadTrainData(Line(share));
  ASSERT_TRUE(split.ok()) << split.status();
  EXPECT_EQ(split->train.size(), 3);
  EXPECT_EQ(split->held_out->size(), 1);
  file.push_back("--held_out=" + csv);
  EXPECT_EQ(ReadTrainData(Line(file))->held_out->size(), 4);
  all.push_back("--held_out=1");
  EXPECT_THAT(std::string(ReadTrainData(Line(all)).status().message()), HasSubstr("--held_out=1: the held-out"));
}

TEST(TrainDataTest, TheErrorOfAFolderNamesTheCommandThatPacksImages) {
  const std::string folder = ::testing::TempDir();
  const std::string csv = Write("few.csv", "1,2,0\n3,4,1\n");
  EXPECT_THAT(std::string(ReadTrainData(Line({"--data=" + folder})).status().message()),
              HasSubstr("this is a folder; if it has images, `cotan pack " + folder + " FILE.safetensors`"));
  EXPECT_THAT(
      std::string(ReadTrainData(Line({"--data=" + csv, "--targets=2", "--held_out=" + folder})).status().message()),
      HasSubstr("--held_out=" + folder + ": this is a folder"));
}

TEST(TrainDataTest, IdxFilesComeInPairs) {
  const std::string values = Write("values.idx", absl::string_view("\0\0\x08\x01\0\0\0\x02"
                                                                   "ab",
                                                                   10));
  const absl::StatusOr<TrainData> data =
      ReadTrainData(Line({"--data=" + values, "--targets=" + values, "--held_out=" + values + "," + values}));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train.columns().size(), 2u);
  EXPECT_EQ(data->held_out->columns()[1].name, "targets");
  EXPECT_THAT(ReadTrainData(Line({"--data=" + values}))->targets, IsEmpty());
  EXPECT_THAT(
      std::string(
          ReadTrainData(Line({"--data=" + values + "," + values, "--format=idx", "--targets=x"})).status().message()),
      HasSubstr("expected one IDX file, or INPUTS,TARGETS"));
}

}  // namespace
}  // namespace cotan::tools
