// SPDX-License-Identifier: Apache-2.0

// A killed process, a full disk and bad input leave a session on a GPU as they leave one on the CPU.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/cuda/register_cuda.h"
#include "kernels/cuda/testing/test_device.h"
#include "runtime/distributed/single_rank.h"
#include "runtime/session.h"
#include "runtime/session/checkpoint.h"
#include "runtime/session/session_access.h"
#include "runtime/testing/program_builder.h"
#include "runtime/testing/session_states.h"

namespace cotan::testing {
namespace {

using cuda::testing::TestDevice;

std::string TestFolder() { return std::getenv("TEST_TMPDIR"); }

std::unique_ptr<TestDevice> NewDevice(const std::string& kernel_cache = TestFolder() + "/kernels") {
  absl::StatusOr<std::unique_ptr<TestDevice>> device = TestDevice::Create({.kernel_cache = kernel_cache});
  EXPECT_TRUE(device.ok()) << device.status();
  return *std::move(device);
}

Session OnGpu(TestDevice& gpu) {
  return *Session::Create(LinearRegression().Load(), {.kernels = &CudaKernels(), .device = &gpu.device()});
}

Session OnCpu() { return *Session::Create(LinearRegression().Load(), {.kernels = &CpuKernels(), .threads = 1}); }

std::vector<Tensor> Batch() {
  return {*Tensor::From<float>({1, 2, 3, 4, 5, 6}, {2, 3}), *Tensor::From<float>({1, 0, 0, 1}, {2, 2})};
}

void Train(Session& session, int steps) {
  for (int i = 0; i < steps; ++i) {
    const absl::Status status = session.Run("train_step", Batch()).status();
    ASSERT_TRUE(status.ok()) << status;
  }
}

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Trains on a GPU and saves without end. Says that it saves by creating the file `ready`.
[[noreturn]] void SaveForever(const std::string& path, const std::string& ready) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  Session session = OnGpu(*gpu);
  for (;;) {
    Train(session, 1);
    if (!session.SaveCheckpoint(path).ok()) ::_exit(1);
    ::close(::open(ready.c_str(), O_CREAT | O_WRONLY, 0600));
  }
}

// The first test: a process that has used a GPU cannot use it in a child.
TEST(CudaSessionFaultsTest, AKilledProcessLeavesAWholeCheckpointForBothDevices) {
  const std::string folder = TestFolder() + "/killed";
  std::filesystem::create_directory(folder);
  const std::string path = folder + "/killed.safetensors";
  for (int trial = 0; trial < 4; ++trial) {
    const std::string ready = absl::StrCat(TestFolder(), "/ready.", trial);
    const pid_t child = ::fork();
    if (child == 0) SaveForever(path, ready);
    for (int i = 0; i < 60000 && !std::filesystem::exists(ready); ++i) ::usleep(1000);
    ::usleep(static_cast<useconds_t>(3000 + 1700 * trial));
    ASSERT_EQ(::kill(child, SIGKILL), 0);
    int status = 0;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    ASSERT_TRUE(WIFSIGNALED(status));
    ASSERT_TRUE(std::filesystem::exists(ready));
    Session on_cpu = OnCpu();
    const absl::Status read = on_cpu.LoadCheckpoint(path);
    ASSERT_TRUE(read.ok()) << read;
  }
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  Session on_gpu = OnGpu(*gpu);
  ASSERT_TRUE(on_gpu.LoadCheckpoint(path).ok());
  ASSERT_TRUE(on_gpu.SaveCheckpoint(path).ok());  // removes the temporary files of the dead
  const std::filesystem::directory_iterator entries(folder);
  EXPECT_EQ(std::distance(entries, {}), 1);
}

// A disk with room for some bytes.
class FullDisk final : public FileSystem {
 public:
  explicit FullDisk(size_t room) : room_(room) {}
  absl::Status Write(int file, absl::string_view bytes, const std::string& path) override {
    if (bytes.size() > room_) return absl::ResourceExhaustedError(absl::StrCat("the disk is full: ", path));
    room_ -= bytes.size();
    return FileSystem::Write(file, bytes, path);
  }

 private:
  size_t room_;
};

TEST(CudaSessionFaultsTest, AFullDiskLeavesTheOldCheckpointAndTheSession) {
  const std::string path = TestFolder() + "/full.safetensors";
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  Session session = OnGpu(*gpu);
  ASSERT_TRUE(session.SaveCheckpoint(path).ok());
  const std::string old_file = ReadAll(path);
  Train(session, 2);
  const std::string states = StateBytes(session);
  for (const size_t room : {size_t{0}, old_file.size() / 2, old_file.size() - 1}) {
    FullDisk files(room);
    const absl::Status status = SaveCheckpoint(SessionCoreOf(session)->states(), path, files);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << room;
    EXPECT_EQ(ReadAll(path), old_file);
  }
  EXPECT_EQ(StateBytes(session), states);
  Train(session, 1);
  ASSERT_TRUE(session.SaveCheckpoint(path).ok());
  Session on_cpu = OnCpu();
  ASSERT_TRUE(on_cpu.LoadCheckpoint(path).ok());
  EXPECT_EQ(StateBytes(on_cpu), StateBytes(session));
}

TEST(CudaSessionFaultsTest, AKernelCacheThatCannotBeWrittenDoesNotStopTraining) {
  const std::string path = TestFolder() + "/no_folder";
  std::ofstream(path) << "a file";
  for (const std::string& folder : {path, path + "/kernels"}) {
    const std::unique_ptr<TestDevice> gpu = NewDevice(folder);
    Session session = OnGpu(*gpu);
    const std::string states = StateBytes(session);
    Train(session, 3);
    EXPECT_TRUE(session.Synchronize().ok());
    EXPECT_NE(StateBytes(session), states);
    EXPECT_GT(gpu->device().kernels().statistics().compiled, 0);
  }
  EXPECT_EQ(ReadAll(path), "a file");
}

TEST(CudaSessionFaultsTest, BadArgumentsAreRefusedWithTheTextOfTheCpu) {
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  Session on_gpu = OnGpu(*gpu);
  Session on_cpu = OnCpu();
  Train(on_gpu, 2);
  const std::string states = StateBytes(on_gpu);
  const Tensor x = Batch()[0], target = Batch()[1];
  const std::vector<std::vector<Tensor>> bad = {
      {},
      {x},
      {x, target, target},
      {x, Tensor()},
      {*Tensor::Zeros(DType::kFloat64, {2, 3}), target},
      {*Tensor::Zeros(DType::kInt64, {2, 3}), target},
      {*Tensor::Zeros(DType::kFloat32, {3}), target},
      {*Tensor::Zeros(DType::kFloat32, {2, 4}), target},
      {*Tensor::Zeros(DType::kFloat32, {5, 3}), target},
  };
  for (const std::vector<Tensor>& arguments : bad) {
    const absl::Status expected = on_cpu.Run("train_step", arguments).status();
    ASSERT_FALSE(expected.ok());
    EXPECT_EQ(on_gpu.Run("train_step", arguments).status(), expected);
  }
  EXPECT_EQ(on_gpu.Run("no_such_step", {x}).status(), on_cpu.Run("no_such_step", {x}).status());
  EXPECT_EQ(on_gpu.SetHyperparameter("no_such_rate", 1), on_cpu.SetHyperparameter("no_such_rate", 1));
  EXPECT_TRUE(on_gpu.Synchronize().ok());
  EXPECT_EQ(StateBytes(on_gpu), states);
  Train(on_gpu, 1);
  EXPECT_NE(StateBytes(on_gpu), states);
}

TEST(CudaSessionFaultsTest, ABadCheckpointIsRefusedWithTheTextOfTheCpuAndChangesNothing) {
  const std::string path = TestFolder() + "/bad.safetensors";
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  Session on_gpu = OnGpu(*gpu);
  Session on_cpu = OnCpu();
  ASSERT_TRUE(on_gpu.SaveCheckpoint(path).ok());
  const std::string whole = ReadAll(path);
  Train(on_gpu, 2);
  const std::string states = StateBytes(on_gpu);
  std::string renamed = whole;
  renamed[renamed.find("weight")] = 'W';
  for (const std::string& content :
       {std::string(), whole.substr(0, 4), whole.substr(0, whole.size() / 2), whole + "x", renamed}) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << content;
    const absl::Status expected = on_cpu.LoadCheckpoint(path);
    ASSERT_FALSE(expected.ok()) << content.size();
    EXPECT_EQ(on_gpu.LoadCheckpoint(path), expected);
    EXPECT_EQ(StateBytes(on_gpu), states);
  }
}

// Collectives of this communicator have no kernels for a GPU.
TEST(CudaSessionFaultsTest, ADataParallelProgramIsRefusedByACommunicatorOfTheHost) {
  const auto program = Program::Load("examples/data_parallel/digits_parallel.cotan");
  ASSERT_TRUE(program.ok()) << program.status();
  const std::unique_ptr<TestDevice> gpu = NewDevice();
  SingleRank rank;
  const absl::Status status =
      Session::Create(*program, {.kernels = &CudaKernels(), .device = &gpu->device(), .communicator = &rank}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "NcclCommunicator")) << status;
}

}  // namespace
}  // namespace cotan::testing
