// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/training_checkpoint.h"

#include <random>
#include <string>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"

namespace cotan::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LinearRegression;
using testing::TestKernels;

std::string TestPath(absl::string_view name) { return absl::StrCat(::testing::TempDir(), "/", name); }

Session NewSession() { return *Session::Create(LinearRegression().Load(), {.kernels = &TestKernels(), .threads = 1}); }

TrainingCheckpoint Example() {
  TrainingCheckpoint checkpoint;
  checkpoint.step = 12;
  checkpoint.base_rates = {0.1, 0.01};
  checkpoint.early_stopping = {0.75, 8, 1};
  checkpoint.losses.Add(1, 2.5);
  checkpoint.scores.Add(8, 0.75);
  checkpoint.averages.emplace_back("weight", *Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 3}));
  checkpoint.options = {{"batch", "64"}, {"schedule", "constant"}};
  return checkpoint;
}

std::string ReadAll(const std::string& path) { return std::string(MappedFile::Open(path)->bytes()); }

TEST(TrainingCheckpointTest, ReadsWhatItWrote) {
  const std::string path = TestPath("written.safetensors");
  const Session session = NewSession();
  const absl::Status saved = SaveTrainingCheckpoint(session, Example(), path);
  ASSERT_TRUE(saved.ok()) << saved;
  const absl::StatusOr<TrainingCheckpoint> read = ReadTrainingCheckpoint(path);
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(read->step, 12);
  EXPECT_THAT(read->base_rates, ElementsAre(0.1, 0.01));
  EXPECT_EQ(read->early_stopping, Example().early_stopping);
  EXPECT_EQ(read->losses.ToNumbers(), Example().losses.ToNumbers());
  EXPECT_EQ(read->scores.ToNumbers(), Example().scores.ToNumbers());
  ASSERT_EQ(read->averages.size(), 1u);
  EXPECT_EQ(read->averages[0].first, "weight");
  EXPECT_THAT(*read->averages[0].second.ToVector<float>(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(read->options, Example().options);
}

TEST(TrainingCheckpointTest, EqualStatesGiveEqualBytesAndASessionLoadsThem) {
  const std::string first = TestPath("first.safetensors"), second = TestPath("second.safetensors");
  Session session = NewSession();
  ASSERT_TRUE(session.SetRng({.seed = 3, .offset = 4}).ok());
  ASSERT_TRUE(SaveTrainingCheckpoint(session, Example(), first).ok());
  Session loaded = NewSession();
  const absl::Status status = loaded.LoadCheckpoint(first);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(*loaded.Rng(), (RngState{3, 4}));
  ASSERT_TRUE(SaveTrainingCheckpoint(loaded, Example(), second).ok());
  EXPECT_EQ(ReadAll(first), ReadAll(second));
}

TEST(TrainingCheckpointTest, CheckpointsOfASessionAloneAreRefused) {
  const std::string path = TestPath("plain.safetensors");
  ASSERT_TRUE(NewSession().SaveCheckpoint(path).ok());
  const absl::Status status = ReadTrainingCheckpoint(path).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("plain.safetensors': the checkpoint holds states only"));
}

TEST(TrainingCheckpointTest, DamagedFilesGiveACheckpointOrAnErrorWithThePath) {
  const std::string path = TestPath("damaged.safetensors");
  ASSERT_TRUE(SaveTrainingCheckpoint(NewSession(), Example(), path).ok());
  const std::string file = ReadAll(path);
  std::mt19937_64 random(testing::TestSeed());
  int refused = 0;
  for (int trial = 0; trial < 300; ++trial) {
    std::string damaged = file.substr(0, trial % 2 == 0 ? file.size() : random() % (file.size() + 1));
    for (uint64_t flips = random() % 5; flips > 0 && !damaged.empty(); --flips) {
      damaged[random() % damaged.size()] = static_cast<char>(random());
    }
    ASSERT_TRUE(WriteFileAtomically(path, {damaged}).ok());
    const absl::Status status = ReadTrainingCheckpoint(path).status();
    if (status.ok()) continue;
    ++refused;
    EXPECT_THAT(std::string(status.message()), HasSubstr("damaged.safetensors'")) << status;
  }
  EXPECT_GT(refused, 100);
}

}  // namespace
}  // namespace cotan::training
