// SPDX-License-Identifier: Apache-2.0

#include <fstream>
#include <string>
#include <vector>

#include "capi/test_handles.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "include/cotan.h"

namespace cotan::capi {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

class CStatesTest : public ::testing::Test {
 protected:
  ProgramHandle program_ = LoadLinearRegression();
  SessionHandle session_ = MakeSession(program_.get());
};

TEST_F(CStatesTest, AStateIsReadAsACopyAndSet) {
  cotan_tensor* value = nullptr;
  ASSERT_EQ(cotan_session_get_state(session_.get(), "bias", &value), COTAN_OK);
  const TensorHandle copy(value);
  EXPECT_THAT(Floats(value), ElementsAre(0.25f, -0.25f));
  EXPECT_EQ(cotan_session_set_state(session_.get(), "bias", F32({3, 4}, {2}).get()), COTAN_OK) << cotan_last_error();
  EXPECT_THAT(StateOf(session_.get(), "bias"), ElementsAre(3, 4));
  EXPECT_THAT(Floats(value), ElementsAre(0.25f, -0.25f));
}

TEST_F(CStatesTest, WrongStatesAreNamed) {
  cotan_tensor* value = nullptr;
  EXPECT_EQ(cotan_session_get_state(session_.get(), "biases", &value), COTAN_NOT_FOUND);
  EXPECT_THAT(cotan_last_error(), HasSubstr("cotan_session_get_state: no state 'biases'"));
  EXPECT_EQ(cotan_session_set_state(session_.get(), "bias", F32({3, 4, 5}, {3}).get()), COTAN_INVALID_ARGUMENT);
  EXPECT_THAT(cotan_last_error(), HasSubstr("'bias'"));
  EXPECT_EQ(value, nullptr);
}

TEST_F(CStatesTest, AHyperparameterDecidesTheNextStep) {
  double lr = 0;
  ASSERT_EQ(cotan_session_get_hyperparameter(session_.get(), "lr", 0, &lr), COTAN_OK);
  EXPECT_EQ(lr, 0.125);
  ASSERT_EQ(cotan_session_set_hyperparameter(session_.get(), "lr", 0, 0), COTAN_OK);
  const std::vector<float> weight = StateOf(session_.get(), "weight");
  TrainOnce(session_.get());
  EXPECT_EQ(StateOf(session_.get(), "weight"), weight);
  EXPECT_EQ(cotan_session_get_hyperparameter(session_.get(), "momentum", 0, &lr), COTAN_NOT_FOUND);
  EXPECT_THAT(cotan_last_error(), HasSubstr("there are: hyperparameter.lr.0"));
  EXPECT_EQ(cotan_session_set_hyperparameter(session_.get(), "lr", 1, 0.5), COTAN_NOT_FOUND);
}

TEST_F(CStatesTest, SeedAndOffsetOfTheGeneratorDetermineTheDraws) {
  int64_t seed = -1;
  int64_t offset = -1;
  ASSERT_EQ(cotan_session_set_rng(session_.get(), 7, 4), COTAN_OK);
  TrainOnce(session_.get());
  ASSERT_EQ(cotan_session_get_rng(session_.get(), &seed, &offset), COTAN_OK);
  EXPECT_EQ(seed, 7);
  EXPECT_EQ(offset, 6);
  const SessionHandle other = MakeSession(program_.get());
  TrainOnce(other.get());
  EXPECT_NE(StateOf(other.get(), "bias"), StateOf(session_.get(), "bias"));
}

TEST_F(CStatesTest, TrainingContinuesFromACheckpointWithTheSameBits) {
  const std::string path = ::testing::TempDir() + "/c.safetensors";
  TrainOnce(session_.get());
  ASSERT_EQ(cotan_session_save_checkpoint(session_.get(), path.c_str()), COTAN_OK) << cotan_last_error();
  TrainOnce(session_.get());
  const SessionHandle resumed = MakeSession(program_.get());
  ASSERT_EQ(cotan_session_load_checkpoint(resumed.get(), path.c_str()), COTAN_OK) << cotan_last_error();
  TrainOnce(resumed.get());
  EXPECT_EQ(StateOf(resumed.get(), "weight"), StateOf(session_.get(), "weight"));
  EXPECT_EQ(StateOf(resumed.get(), "bias"), StateOf(session_.get(), "bias"));
}

TEST_F(CStatesTest, CheckpointsThatCannotBeUsedAreNamed) {
  EXPECT_EQ(cotan_session_load_checkpoint(session_.get(), "/nowhere/c"), COTAN_NOT_FOUND);
  EXPECT_THAT(cotan_last_error(), HasSubstr("/nowhere/c"));
  EXPECT_EQ(cotan_session_save_checkpoint(session_.get(), "/nowhere/c"), COTAN_NOT_FOUND);
  const std::string path = ::testing::TempDir() + "/text";
  std::ofstream(path) << "this is a text, not a checkpoint";
  EXPECT_NE(cotan_session_load_checkpoint(session_.get(), path.c_str()), COTAN_OK);
  EXPECT_THAT(StateOf(session_.get(), "optimizer.weight.momentum"), Each(0));
}

}  // namespace
}  // namespace cotan::capi
