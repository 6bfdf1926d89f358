// SPDX-License-Identifier: Apache-2.0

// Replaces operator new to test that failing allocations become COTAN_RESOURCE_EXHAUSTED.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iterator>
#include <new>
#include <set>
#include <string>
#include <vector>

#include "capi/test_handles.h"
#include "gtest/gtest.h"
#include "include/cotan.h"

namespace {

// Number of allocations of this thread that still succeed; negative: all.
thread_local int allocations_left = -1;

void* Allocate(size_t bytes) {
  if (allocations_left == 0) return nullptr;
  if (allocations_left > 0) --allocations_left;
  return std::malloc(bytes == 0 ? 1 : bytes);
}

}  // namespace

void* operator new(size_t bytes) {
  void* const memory = Allocate(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(size_t bytes, const std::nothrow_t&) noexcept { return Allocate(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace cotan::capi {
namespace {

// Calls `call` with room for 0, 1, 2, ... allocations until it succeeds. Returns how often it failed.
int FailEachAllocation(const std::function<cotan_status()>& call) {
  for (int allowed = 0; allowed < 10000; ++allowed) {
    allocations_left = allowed;
    const cotan_status status = call();
    allocations_left = -1;
    if (status == COTAN_OK) return allowed;
    EXPECT_EQ(status, COTAN_RESOURCE_EXHAUSTED) << cotan_last_error();
    EXPECT_STRNE(cotan_last_error(), "");
  }
  ADD_FAILURE() << "did not succeed";
  return 0;
}

constexpr char kFileName[] = "states.safetensors";

// Returns the bytes of a file; "" if there is none.
std::string ContentOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
}

// Saves to a file in `folder` with each allocation failing in turn. Whenever one has failed, the folder has the file of
// before, if there was one, or the whole new one, and no other.
void FailEachAllocationOfSaving(cotan_session* session, const std::string& folder) {
  const std::string path = folder + "/" + kFileName;
  const std::string old_file = ContentOf(path);
  std::set<std::string> files;
  EXPECT_GT(FailEachAllocation([&] {
              const cotan_status status = cotan_session_save_checkpoint(session, path.c_str());
              allocations_left = -1;
              if (status != COTAN_OK) files.insert(ContentOf(path));
              for (const auto& entry : std::filesystem::directory_iterator(folder)) {
                EXPECT_EQ(entry.path().filename().string(), kFileName);
              }
              return status;
            }),
            10);
  const std::string new_file = ContentOf(path);
  EXPECT_NE(new_file, old_file);
  files.erase(old_file);
  files.erase(new_file);
  EXPECT_TRUE(files.empty()) << files.size() << " files are neither old nor new";
}

// The analyzer follows operator new to malloc(), and handles not to their operator delete.
// NOLINTBEGIN(clang-analyzer-unix.Malloc)

TEST(AllocationTest, TensorsAndStatesReportThatMemoryIsShort) {
  const ProgramHandle program = LoadLinearRegression();
  const SessionHandle session = MakeSession(program.get());
  const int64_t sizes[] = {2};
  const float values[] = {1, 2};
  cotan_tensor* out = nullptr;
  EXPECT_GT(FailEachAllocation([&] { return cotan_tensor_create(COTAN_F32, 1, sizes, values, 8, &out); }), 0);
  const TensorHandle tensor(out);
  EXPECT_GT(FailEachAllocation([&] { return cotan_session_get_state(session.get(), "bias", &out); }), 0);
  const TensorHandle state(out);
  EXPECT_EQ(Floats(state.get()), (std::vector<float>{0.25f, -0.25f}));
}

// Each call fails at each of its allocations in turn, and afterwards the program trains as if nothing had failed.
TEST(AllocationTest, EachAllocationOfLoadingMayFail) {
  const std::string& bytes = LinearRegressionBytes();
  cotan_program* loaded = nullptr;
  EXPECT_GT(FailEachAllocation([&] { return cotan_program_load_copy(bytes.data(), bytes.size(), "linear", &loaded); }),
            10);
  const ProgramHandle program(loaded);
  cotan_session* created = nullptr;
  EXPECT_GT(FailEachAllocation([&] { return cotan_session_create(program.get(), nullptr, &created); }), 10);
  const SessionHandle session(created);
  const ProgramHandle other_program = LoadLinearRegression();
  const SessionHandle other = MakeSession(other_program.get());
  EXPECT_EQ(TrainOnce(session.get()), TrainOnce(other.get()));
}

TEST(AllocationTest, EachAllocationOfPlanningAndRunningMayFail) {
  const ProgramHandle program = LoadLinearRegression();
  const SessionHandle session = MakeSession(program.get());
  const SessionHandle other = MakeSession(program.get());
  const TensorHandle input = F32({1, 2, 3, -1, 0.5f, 2}, {2, 3});
  const TensorHandle target = F32({1, 0, -1, 2}, {2, 2});
  cotan_tensor* arguments[] = {input.get(), target.get()};
  cotan_tensor* results[] = {nullptr};
  EXPECT_GT(
      FailEachAllocation([&] { return cotan_session_run(session.get(), "train_step", arguments, 2, results, 1); }), 10);
  const TensorHandle loss(results[0]);
  EXPECT_EQ(Floats(loss.get()).at(0), TrainOnce(other.get()));
  EXPECT_EQ(StateOf(session.get(), "weight"), StateOf(other.get(), "weight"));
}

TEST(AllocationTest, EachAllocationOfSavingAndLoadingStatesMayFail) {
  const ProgramHandle program = LoadLinearRegression();
  const SessionHandle session = MakeSession(program.get());
  const SessionHandle other = MakeSession(program.get());
  const std::string folder = ::testing::TempDir() + "/allocation";
  const std::string path = folder + "/" + kFileName;
  std::filesystem::create_directory(folder);
  FailEachAllocationOfSaving(session.get(), folder);
  TrainOnce(session.get());
  FailEachAllocationOfSaving(session.get(), folder);
  const std::vector<float> before = StateOf(other.get(), "weight");
  int failed = 0;
  EXPECT_GT(FailEachAllocation([&] {
              const cotan_status status = cotan_session_load_checkpoint(other.get(), path.c_str());
              const int left = allocations_left;
              allocations_left = -1;
              if (status != COTAN_OK) {
                EXPECT_EQ(StateOf(other.get(), "weight"), before) << ++failed;
              }
              allocations_left = left;
              return status;
            }),
            10);
  EXPECT_EQ(StateOf(other.get(), "weight"), StateOf(session.get(), "weight"));
}

TEST(AllocationTest, ATextThatCannotBeStoredIsReplaced) {
  cotan_program* program = nullptr;
  allocations_left = 0;
  const cotan_status status = cotan_program_load(nullptr, &program);
  allocations_left = -1;
  EXPECT_EQ(status, COTAN_RESOURCE_EXHAUSTED);
  EXPECT_STREQ(cotan_last_error(), "not enough memory");
}

// NOLINTEND(clang-analyzer-unix.Malloc)

}  // namespace
}  // namespace cotan::capi
