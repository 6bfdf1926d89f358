// SPDX-License-Identifier: Apache-2.0

// Loads checkpoints into a session: a refused one changes no state, and an accepted one is written and read again.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"
#include "runtime/session.h"
#include "runtime/testing/program_builder.h"
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

// Returns the bytes of all states by name.
std::map<std::string, std::string> StatesOf(const Session& session) {
  std::map<std::string, std::string> states;
  for (const auto& state : session.program().artifact().states()) {
    const absl::StatusOr<Tensor> value = session.State(state.name());
    Require(value.ok(), value.status().ToString());
    states[state.name()] = std::string(static_cast<const char*>(value->address()), value->storage()->bytes());
  }
  return states;
}

}  // namespace

bool RunInput(absl::string_view input) {
  static Session& session = *new Session(NewSession());
  const std::string path = PathOf("checkpoint.safetensors"), copy = PathOf("copy.safetensors");
  std::ofstream(path, std::ios::binary) << input;
  (void)training::ReadTrainingCheckpoint(path).ok();  // accepted or refused
  const std::map<std::string, std::string> before = StatesOf(session);
  if (const absl::Status status = session.LoadCheckpoint(path); !status.ok()) {
    Require(StatesOf(session) == before, "a refused checkpoint changes no state");
    return false;
  }
  Require(session.SaveCheckpoint(copy).ok(), "loaded states can be saved");
  const std::map<std::string, std::string> loaded = StatesOf(session);
  Require(session.LoadCheckpoint(copy).ok(), "saved states can be loaded");
  Require(StatesOf(session) == loaded, "saved states are loaded");
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
