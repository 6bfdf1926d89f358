// SPDX-License-Identifier: Apache-2.0

// Loads checkpoints into a session: a refused one changes no state, and an accepted one is written and read again.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/session.h"
#include "runtime/testing/program_builder.h"
#include "runtime/testing/session_states.h"
#include "runtime/testing/test_kernels.h"
#include "runtime/training/training_checkpoint.h"
#include "testing/fuzz/fuzz_target.h"
#include "testing/fuzz/safetensors_mutator.h"

namespace cotan::testing {
namespace {

std::string PathOf(const char* name) { return absl::StrCat(::testing::TempDir(), "/", getpid(), "_", name); }

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

Session NewSession() {
  return *Session::Create(LinearRegression().Load(), {.kernels = &TestKernels(), .device = nullptr, .threads = 1});
}

}  // namespace

bool RunInput(absl::string_view input) {
  static Session& session = *new Session(NewSession());
  const std::string path = PathOf("checkpoint.safetensors"), copy = PathOf("copy.safetensors");
  std::ofstream(path, std::ios::binary) << input;
  (void)training::ReadTrainingCheckpoint(path).ok();  // accepted or refused
  const std::string before = StateBytes(session);
  if (const absl::Status status = session.LoadCheckpoint(path); !status.ok()) {
    Require(StateBytes(session) == before, "a refused checkpoint changes no state");
    return false;
  }
  Require(session.SaveCheckpoint(copy).ok(), "loaded states can be saved");
  const std::string loaded = StateBytes(session);
  Require(session.LoadCheckpoint(copy).ok(), "saved states can be loaded");
  Require(StateBytes(session) == loaded, "saved states are loaded");
  return true;
}

std::string MutateInput(absl::string_view input, std::mt19937_64& random) { return MutateSafetensors(input, random); }

std::vector<std::string> SeedInputs() {
  const Session session = NewSession();
  const std::string path = PathOf("seed.safetensors");
  Require(session.SaveCheckpoint(path).ok(), "the seed is saved");
  std::vector<std::string> seeds = {ReadAll(path)};
  training::TrainingCheckpoint checkpoint;
  checkpoint.step = 3;
  checkpoint.base_rates = {0.1};
  checkpoint.options = {{"batch", "32"}};
  Require(training::SaveTrainingCheckpoint(session, checkpoint, path).ok(), "the seed is saved");
  seeds.push_back(ReadAll(path));
  return seeds;
}

}  // namespace cotan::testing
