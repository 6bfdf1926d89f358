// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/train_options.h"

#include <cstdlib>
#include <filesystem>
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
              HasSubstr("--format=: expected csv, idx, safetensors or images for 'data.bin'"));
  EXPECT_THAT(std::string(ReadTrainData(Line({})).status().message()), HasSubstr("--data=FILE is missing"));
}

TEST(TrainDataTest, OptionsOfOtherFormatsAreRefused) {
  const auto refusal = [](const std::string& format, const std::string& option) {
    const absl::Status status = ReadTrainData(Line({"--data=x", "--targets=y", "--format=" + format, option})).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
    return std::string(status.message());
  };
  EXPECT_EQ(refusal("csv", "--inputs=a"),
            "--inputs=a: it is for --format=safetensors, but the data are csv; leave it out");
  EXPECT_EQ(refusal("idx", "--inputs=a"),
            "--inputs=a: it is for --format=safetensors, but the data are idx; leave it out");
  for (const std::string format : {"idx", "safetensors"}) {
    EXPECT_EQ(refusal(format, "--classes=a,b"),
              "--classes=a,b: it is for --format=csv, but the data are " + format + "; leave it out");
    EXPECT_EQ(refusal(format, "--delimiter=;"),
              "--delimiter=;: it is for --format=csv, but the data are " + format + "; leave it out");
  }
  EXPECT_EQ(ReadTrainData(Line({"--data=x.csv", "--classes=a,b"})).status().message(), "--classes needs --targets");
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

// Folders of images are read by a program in PATH, which is a script here.
class ImageFoldersTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::create_directories(programs_);
    for (const char* name : {"train", "held_out", "other", "broken"}) {
      std::filesystem::create_directories(absl::StrCat(folder_, name));
    }
    const std::string header = R"({"inputs":{"dtype":"U8","shape":[2,1],"data_offsets":[0,2]},)"
                               R"("targets":{"dtype":"U8","shape":[2],"data_offsets":[2,4]}})";
    const char size[8] = {static_cast<char>(header.size())};
    Write("packed", absl::StrCat(absl::string_view(size, sizeof(size)), header, "abcd"));
    const char* const path = std::getenv("PATH");
    path_ = path == nullptr ? "" : path;
    setenv("PATH", absl::StrCat(programs_, ":", path_).c_str(), 1);
  }
  void TearDown() override {
    setenv("PATH", path_.c_str(), 1);
    std::filesystem::remove_all(programs_);
  }
  // Writes cotan-pack, whose arguments are the folder, "-" and the number of channels.
  void WriteProgram() {
    const std::string path = absl::StrCat(programs_, "/cotan-pack");
    const std::string script = absl::StrCat(
        "#!/bin/sh\n"
        "case $1 in *_broken) echo \"cotan pack: '$1' has no images\" >&2; exit 1;; esac\n"
        "test \"$2 $3\" = '- 1' || exit 2\n"
        "cat ",
        ::testing::TempDir(),
        "/packed\n"
        "echo '2 images' >&2; echo 'class 0: cat' >&2\n"
        "case $1 in *_other) echo 'class 1: dog' >&2;; esac\n");
    EXPECT_TRUE(WriteFileAtomically(path, {script}).ok());
    std::filesystem::permissions(path, std::filesystem::perms::owner_all);
  }
  std::string Folder(absl::string_view option, absl::string_view name) {
    return absl::StrCat("--", option, "=", folder_, name);
  }
  absl::Status Refusal(const std::vector<std::string>& arguments) { return ReadTrainData(Line(arguments)).status(); }

  const std::string folder_ = absl::StrCat(::testing::TempDir(), "/images_");
  const std::string programs_ = absl::StrCat(::testing::TempDir(), "/programs");
  std::string path_;
};

TEST_F(ImageFoldersTest, ArePacked) {
  WriteProgram();
  const absl::StatusOr<TrainData> data =
      ReadTrainData(Line({Folder("data", "train"), "--channels=1", Folder("held_out", "held_out")}));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_EQ(data->train.size(), 2);
  EXPECT_EQ(data->held_out->size(), 2);
  EXPECT_THAT(data->targets, ElementsAre("targets"));
  EXPECT_THAT(data->classes, ElementsAre("class 0: cat"));
  EXPECT_TRUE(Parse({Folder("data", "train"), "--held_out=0.5"}).ok()) << "they have targets";
}

TEST_F(ImageFoldersTest, MistakesAreExplained) {
  const absl::Status no_program = Refusal({Folder("data", "train")});
  EXPECT_EQ(no_program.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(no_program.message()), HasSubstr("needs the program cotan-pack beside cotan or in PATH"));
  WriteProgram();
  const absl::Status broken = Refusal({Folder("data", "broken"), "--channels=1"});
  EXPECT_EQ(broken.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(broken.message(), absl::StrCat("'", folder_, "broken' has no images"));
  EXPECT_THAT(
      std::string(Refusal({Folder("data", "train"), "--channels=1", Folder("held_out", "other")}).message()),
      HasSubstr(
          "other' has other subfolders than --data: class 0: cat, class 1: dog; those of --data are class 0: cat"));
  EXPECT_THAT(std::string(Refusal({Folder("data", "train")}).message()), HasSubstr("cotan-pack ended with status 2"));
  EXPECT_EQ(Refusal({Folder("data", "train"), "--channels=2"}).message(), "--channels=2: expected 1 or 3");
  EXPECT_THAT(std::string(Refusal({Folder("data", "train"), "--targets=x"}).message()),
              HasSubstr("--targets=x: the targets of a folder of images are its subfolders"));
  for (const std::string option : {"--inputs=x", "--classes=cat,dog", "--delimiter=;"}) {
    EXPECT_EQ(Refusal({Folder("data", "train"), "--channels=1", option}).message(),
              option + ": it is for files; the classes of a folder of images are its subfolders");
  }
  const std::string csv = Write("few.csv", "1,2,0\n3,4,1\n");
  EXPECT_THAT(std::string(Refusal({"--data=" + csv, "--targets=2", "--channels=1"}).message()),
              HasSubstr("--channels=1: it is for folders of images"));
  EXPECT_THAT(std::string(Refusal({"--data=" + csv, "--targets=2", Folder("held_out", "train")}).message()),
              HasSubstr("this is a folder; expected a file"));
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
