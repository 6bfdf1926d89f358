// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/checkpoint.h"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session/safetensors.h"
#include "runtime/session/session.h"
#include "runtime/session/session_access.h"
#include "runtime/testing/program_builder.h"
#include "runtime/testing/session_states.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LinearRegression;
using testing::ProgramBuilder;
using testing::StateBytes;
using testing::TestKernels;

std::string TestPath(absl::string_view name) { return absl::StrCat(::testing::TempDir(), "/", name); }

Session NewSession() { return *Session::Create(LinearRegression().Load(), {.kernels = &TestKernels(), .threads = 1}); }

void Train(Session& session, int steps) {
  const Tensor input = *Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 3});
  const Tensor target = *Tensor::From<float>({1, 0, 0, 1}, {2, 2});
  for (int i = 0; i < steps; ++i) {
    const absl::Status status = session.Run("train_step", {input, target}).status();
    ASSERT_TRUE(status.ok()) << status;
  }
}

// Returns the path of an empty folder.
std::string NewFolder(absl::string_view name) {
  const std::string folder = TestPath(name);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directory(folder);
  return folder;
}

std::vector<std::string> Entries(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) names.push_back(entry.path().filename());
  return names;
}

std::string ReadAll(const std::string& path) {
  absl::StatusOr<MappedFile> file = MappedFile::Open(path);
  return file.ok() ? std::string(file->bytes()) : "";
}

// Writes a file without fsync.
void WriteAll(const std::string& path, absl::string_view bytes) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
  ASSERT_TRUE(file.good());
}

TEST(CheckpointTest, ResumingEqualsNeverStopping) {
  const std::string path = TestPath("resume.safetensors");
  Session whole = NewSession();
  ASSERT_TRUE(whole.SetHyperparameter("lr", 0.01).ok());
  ASSERT_TRUE(whole.SetRng({.seed = 7, .offset = 3}).ok());
  Train(whole, 3);
  ASSERT_TRUE(whole.SaveCheckpoint(path).ok());
  Train(whole, 4);

  // Runs in a child process, which sends its states over a pipe.
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  const pid_t child = ::fork();
  if (child == 0) {
    Session resumed = NewSession();
    if (!resumed.LoadCheckpoint(path).ok()) ::_exit(1);
    Train(resumed, 4);
    const std::string bytes = StateBytes(resumed);
    const bool written = ::write(ends[1], bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size());
    ::_exit(written ? 0 : 1);
  }
  ::close(ends[1]);
  std::string resumed(4096, '\0');
  const ssize_t size = ::read(ends[0], resumed.data(), resumed.size());
  ::close(ends[0]);
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_EQ(status, 0);
  resumed.resize(static_cast<size_t>(size));
  EXPECT_EQ(resumed, StateBytes(whole));
}

TEST(CheckpointTest, AdditionsAreStoredAndIgnored) {
  const std::string path = TestPath("additions.safetensors");
  Session session = NewSession();
  const StateStore& states = SessionCoreOf(session)->states();
  SafetensorsFile additions;
  const std::string bytes(8, '\x07');
  additions.tensors.push_back({"cotan.test", DType::kInt64, {}, bytes});
  additions.metadata.push_back({"cotan.note", "text"});
  ASSERT_TRUE(SaveCheckpoint(states, path, SystemFiles(), additions).ok());
  const absl::Status loaded = session.LoadCheckpoint(path);
  EXPECT_TRUE(loaded.ok()) << loaded;
  const std::string written = ReadAll(path);
  const absl::StatusOr<SafetensorsFile> file = ParseSafetensors(written);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto is_test = [](const SafetensorsEntry& entry) { return entry.name == "cotan.test"; };
  const auto found = std::find_if(file->tensors.begin(), file->tensors.end(), is_test);
  ASSERT_NE(found, file->tensors.end());
  EXPECT_EQ(found->bytes, bytes);
  EXPECT_EQ(file->metadata.back(), (std::pair<std::string, std::string>("cotan.note", "text")));

  additions.tensors[0].name = "weight";
  const absl::Status refused = SaveCheckpoint(states, path, SystemFiles(), additions);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the addition 'weight'"));
  EXPECT_EQ(ReadAll(path), written);

  additions.tensors[0].name = "cotan.note";  // as one of the metadata, which are apart
  ASSERT_TRUE(SaveCheckpoint(states, path, SystemFiles(), additions).ok());
  EXPECT_TRUE(session.LoadCheckpoint(path).ok());
  SafetensorsFile two_tensors = additions, two_texts = additions;
  two_tensors.tensors.push_back(additions.tensors[0]);
  two_texts.metadata.push_back({"cotan.note", "other"});
  for (const SafetensorsFile& repeated : {two_tensors, two_texts}) {
    const absl::Status twice = SaveCheckpoint(states, path, SystemFiles(), repeated);
    EXPECT_EQ(twice.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(twice.message()), HasSubstr("the addition 'cotan.note' of a checkpoint is given twice"));
  }
}

TEST(CheckpointTest, TensorsThatAreNotAlignedInTheFileAreLoaded) {
  const std::string path = TestPath("not_aligned.safetensors");
  Session session = NewSession();
  Train(session, 2);
  ASSERT_TRUE(session.SaveCheckpoint(path).ok());
  std::string bytes = ReadAll(path);
  uint64_t header_size = 0;
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  bytes.insert(sizeof(header_size) + header_size, " ");
  ++header_size;
  std::memcpy(bytes.data(), &header_size, sizeof(header_size));
  WriteAll(path, bytes);
  Session loaded = NewSession();
  const absl::Status status = loaded.LoadCheckpoint(path);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(StateBytes(loaded), StateBytes(session));
}

TEST(CheckpointTest, HoldsEveryPersistentStateByName) {
  const std::string path = TestPath("names.safetensors");
  Session session = NewSession();
  ASSERT_TRUE(session.SaveCheckpoint(path).ok());
  const std::string bytes = ReadAll(path);
  const absl::StatusOr<SafetensorsFile> file = ParseSafetensors(bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  std::vector<std::string> names;
  for (const SafetensorsEntry& entry : file->tensors) names.push_back(entry.name);
  EXPECT_THAT(names, ::testing::UnorderedElementsAre("weight", "bias", "optimizer.weight.momentum", "step",
                                                     "hyperparameter.lr.0", "rng"));
}

TEST(CheckpointTest, ACheckpointOfAnotherModelListsTheDifferences) {
  ProgramBuilder other;
  other.AddState("weight", serialization::State::PARAMETER, DType::kFloat32, {"4"}, 0);
  other.AddState("gamma", serialization::State::PARAMETER, DType::kFloat32, {"4"}, 0);
  Session from = *Session::Create(other.Load(), {.kernels = &TestKernels(), .threads = 1});
  const std::string path = TestPath("other.safetensors");
  ASSERT_TRUE(from.SaveCheckpoint(path).ok());

  Session session = NewSession();
  const std::string before = StateBytes(session);
  const absl::Status status = session.LoadCheckpoint(path);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr(path));
  EXPECT_THAT(std::string(status.message()), HasSubstr("missing: bias, optimizer.weight.momentum, step"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("unexpected: gamma"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("of another type: weight (f32[4], expected f32[2,3])"));
  EXPECT_EQ(StateBytes(session), before);
}

TEST(CheckpointTest, DamagedFilesChangeNothing) {
  const std::string path = TestPath("damaged.safetensors");
  Session session = NewSession();
  Train(session, 1);
  ASSERT_TRUE(session.SaveCheckpoint(path).ok());
  const std::string whole = ReadAll(path);
  Train(session, 1);
  const std::string before = StateBytes(session);
  for (size_t size = 0; size < whole.size(); ++size) {
    WriteAll(path, absl::string_view(whole).substr(0, size));
    ASSERT_FALSE(session.LoadCheckpoint(path).ok()) << size;
  }
  int refused = 0;
  for (size_t i = 0; i < whole.size(); ++i) {
    std::string flipped = whole;
    flipped[i] = static_cast<char>(flipped[i] ^ 0x20);
    WriteAll(path, flipped);
    Session victim = NewSession();
    const std::string initial = StateBytes(victim);
    if (victim.LoadCheckpoint(path).ok()) continue;
    ++refused;
    ASSERT_EQ(StateBytes(victim), initial) << i;
  }
  EXPECT_GT(refused, static_cast<int>(whole.size()) * 9 / 10);
  EXPECT_EQ(StateBytes(session), before);
  WriteAll(path, whole);
  EXPECT_TRUE(session.LoadCheckpoint(path).ok());
}

TEST(CheckpointTest, NewerVersionsAreRefused) {
  const std::string path = TestPath("newer.safetensors");
  Session session = NewSession();
  ASSERT_TRUE(session.SaveCheckpoint(path).ok());
  const std::string newer =
      absl::StrReplaceAll(ReadAll(path), {{"\"cotan_checkpoint\":\"1\"", "\"cotan_checkpoint\":\"2\""}});
  WriteAll(path, newer);
  EXPECT_EQ(session.LoadCheckpoint(path).code(), absl::StatusCode::kUnimplemented);
}

TEST(CheckpointTest, UnwritablePathsAreNamed) {
  Session session = NewSession();
  const absl::Status status = session.SaveCheckpoint("/nonexistent/folder/x.safetensors");
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nonexistent/folder/x.safetensors"));
  EXPECT_EQ(session.LoadCheckpoint("/nonexistent/x").code(), absl::StatusCode::kNotFound);
}

// A file system that writes one byte at a time and fails from a chosen byte on, as if the process were killed
// there.
class CrashingFiles : public FileSystem {
 public:
  explicit CrashingFiles(int crash_at) : left_(crash_at) {}
  absl::StatusOr<int> Create(const std::string& path) override {
    if (Crashed()) return Crash();
    return FileSystem::Create(path);
  }
  absl::Status Write(int file, absl::string_view bytes, const std::string& path) override {
    for (size_t i = 0; i < bytes.size(); ++i) {
      if (Crashed()) return Crash();
      const absl::Status status = FileSystem::Write(file, bytes.substr(i, 1), path);
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }
  absl::Status Sync(int file, const std::string& path) override {
    return Crashed() ? Crash() : FileSystem::Sync(file, path);
  }
  absl::Status Rename(const std::string& from, const std::string& to) override {
    return Crashed() ? Crash() : FileSystem::Rename(from, to);
  }
  absl::Status SyncFolder(const std::string& path) override {
    return Crashed() ? Crash() : FileSystem::SyncFolder(path);
  }
  void Remove(const std::string& path) override {
    if (left_ >= 0) FileSystem::Remove(path);  // a dead process cleans nothing
  }
  bool crashed() const { return left_ < 0; }

 private:
  bool Crashed() { return left_ < 0 || --left_ < 0; }
  static absl::Status Crash() { return absl::AbortedError("the process is dead"); }
  int left_;
};

TEST(CheckpointTest, ACrashAtAnyByteLeavesTheOldOrTheNewFileWhole) {
  const std::string folder = NewFolder("crash");
  const std::string path = folder + "/crash.safetensors";
  Session session = NewSession();
  ASSERT_TRUE(session.SaveCheckpoint(path).ok());
  const std::string old_file = ReadAll(path);
  Train(session, 1);
  int crash_at = 0;
  int kept_old = 0;
  for (;; ++crash_at) {
    CrashingFiles files(crash_at);
    const absl::Status status = SaveCheckpoint(SessionCoreOf(session)->states(), path, files);
    const std::string now = ReadAll(path);
    if (!files.crashed()) {
      ASSERT_TRUE(status.ok()) << status;
      break;
    }
    ASSERT_FALSE(status.ok());
    if (now == old_file) {
      ++kept_old;
    } else {
      Session loaded = NewSession();
      ASSERT_TRUE(loaded.LoadCheckpoint(path).ok()) << crash_at;
      ASSERT_EQ(StateBytes(loaded), StateBytes(session));
      WriteAll(path, old_file);
    }
  }
  EXPECT_GT(kept_old, static_cast<int>(old_file.size()));
  EXPECT_THAT(Entries(folder), ElementsAre("crash.safetensors"));
}

// Returns how many processes are killed: COTAN_KILLS, or 100.
int NumKills() {
  const char* const text = std::getenv("COTAN_KILLS");
  int kills = 100;
  EXPECT_TRUE(text == nullptr || absl::SimpleAtoi(text, &kills)) << text;
  return kills;
}

// The states of a session after each number of steps, computed when they are asked for.
class StatesBySteps {
 public:
  // Returns after how many steps, at most 10,000, `bytes` are the states; -1 if they never are.
  int StepsOf(const std::string& bytes) {
    while (!steps_.contains(bytes)) {
      const auto steps = static_cast<int>(steps_.size());
      if (steps > 10000) return -1;
      steps_[StateBytes(session_)] = steps;
      Train(session_, 1);
    }
    return steps_[bytes];
  }

 private:
  Session session_ = NewSession();
  absl::flat_hash_map<std::string, int> steps_;
};

// A child process that saves its states to `path` after each step. After each save it reports over a pipe how many
// steps the saved states have.
class SavingProcess {
 public:
  explicit SavingProcess(const std::string& path) {
    int ends[2] = {-1, -1};
    EXPECT_EQ(::pipe(ends), 0);
    process_ = ::fork();
    EXPECT_GE(process_, 0);
    if (process_ == 0) TrainAndSave(path, ends[1]);
    ::close(ends[1]);
    reports_ = ends[0];
  }
  SavingProcess(const SavingProcess&) = delete;
  SavingProcess& operator=(const SavingProcess&) = delete;
  ~SavingProcess() { ::close(reports_); }

  // Waits for a report; 0 if the process has ended and each report has been read.
  int NextReport() {
    int steps = 0;
    return ::read(reports_, &steps, sizeof(steps)) == static_cast<ssize_t>(sizeof(steps)) ? steps : 0;
  }

  // Kills the process and waits for its end. Returns whether it ran until then.
  bool Kill() {
    int status = 0;
    if (process_ <= 0 || ::kill(process_, SIGKILL) != 0) return false;
    return ::waitpid(process_, &status, 0) == process_ && WIFSIGNALED(status);
  }

 private:
  [[noreturn]] static void TrainAndSave(const std::string& path, int reports) {
    Session session = NewSession();
    for (int steps = 1;; ++steps) {
      Train(session, 1);
      if (!session.SaveCheckpoint(path).ok()) ::_exit(1);
      if (::write(reports, &steps, sizeof(steps)) != static_cast<ssize_t>(sizeof(steps))) ::_exit(1);
    }
  }

  pid_t process_ = -1;
  int reports_ = -1;
};

TEST(CheckpointTest, AKilledProcessLeavesTheLastSavedOrTheNextFileWhole) {
  std::mt19937_64 random(testing::TestSeed());
  const std::string folder = NewFolder("killed");
  const std::string path = folder + "/killed.safetensors";
  Session session = NewSession();
  ASSERT_TRUE(session.SaveCheckpoint(path).ok());
  StatesBySteps states;
  int steps_in_file = 0;
  const int kills = NumKills();
  for (int trial = 0; trial < kills; ++trial) {
    SavingProcess process(path);
    // Half of the processes have saved when they are killed, however slow the disk is.
    int saved = random() % 2 == 0 ? process.NextReport() : 0;
    ::usleep(static_cast<useconds_t>(500 + random() % 10000));
    ASSERT_TRUE(process.Kill());
    while (const int steps = process.NextReport()) saved = steps;
    Session loaded = NewSession();
    const absl::Status read = loaded.LoadCheckpoint(path);
    ASSERT_TRUE(read.ok()) << read;
    const int old_steps = saved > 0 ? saved : steps_in_file;
    steps_in_file = states.StepsOf(StateBytes(loaded));
    // The process may have died between the next save and its report.
    ASSERT_THAT(steps_in_file, ::testing::AnyOf(old_steps, saved + 1)) << "kill " << trial;
  }
  ASSERT_TRUE(session.SaveCheckpoint(path).ok());
  EXPECT_THAT(Entries(folder), ElementsAre("killed.safetensors"));
}

}  // namespace
}  // namespace cotan
