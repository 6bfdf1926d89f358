// SPDX-License-Identifier: Apache-2.0

// Planted faults, compiled by nvcc, are each found with their position.
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/sim/ptx/plain_memory.h"
#include "kernels/cuda/sim/ptx/ptx_parser.h"

namespace cotan::cuda::ptx {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kCount = 512;

class FaultsTest : public ::testing::TestWithParam<uint64_t> {
 protected:
  // Runs a kernel of testdata/faults.cu in two blocks of 256 threads. `in_place` passes x as y.
  absl::Status Run(const std::string& kernel, bool in_place = false, bool initialise = false,
                   bool begins_early = false) {
    std::ifstream file("kernels/cuda/sim/ptx/testdata/faults.ptx");
    const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
    const absl::StatusOr<Module> module = ParsePtx(text);
    if (!module.ok()) return module.status();
    PlainMemory memory;
    memory.set_direct(GetParam() != 2);
    const std::vector<float> values(kCount, 0.5f);
    const uint64_t x = memory.Put(values);
    const uint64_t y = in_place ? x : initialise ? memory.Put(values) : memory.Allocate(kCount * sizeof(float));
    const Launch launch{.grid = {2, 1, 1},
                        .block = {256, 1, 1},
                        .parameters = ParameterBuffer().Add(x).Add(y).Add(kCount).Take(),
                        .begins_early = begins_early,
                        .seed = GetParam()};
    return RunKernel(*module, kernel, launch, memory).status();
  }

  void ExpectFault(const absl::Status& status, absl::StatusCode code, const std::string& kernel,
                   const std::string& message) {
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("kernel " + kernel + ", PTX line "), HasSubstr(message),
                                                     HasSubstr("block ("), HasSubstr("thread (")));
  }
};

TEST_P(FaultsTest, CorrectKernelRuns) { EXPECT_EQ(Run("correct"), absl::OkStatus()); }

TEST_P(FaultsTest, DroppedBarrier) {
  // Seen as a read of unwritten memory or a race, whichever thread comes first.
  const absl::Status status = Run("dropped_barrier");
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
}

TEST_P(FaultsTest, DroppedSecondBarrier) {
  ExpectFault(Run("dropped_second_barrier"), absl::StatusCode::kFailedPrecondition, "dropped_second_barrier", "race: ");
}

TEST_P(FaultsTest, OnePastTheEnd) {
  ExpectFault(Run("one_past_the_end"), absl::StatusCode::kOutOfRange, "one_past_the_end",
              "outside of every allocation");
}

TEST_P(FaultsTest, WrongStride) {
  ExpectFault(Run("wrong_stride"), absl::StatusCode::kFailedPrecondition, "wrong_stride", "race: writes what block ");
}

TEST_P(FaultsTest, UnalignedVector) {
  ExpectFault(Run("unaligned_vector"), absl::StatusCode::kInvalidArgument, "unaligned_vector",
              "misaligned access of 16 bytes");
}

TEST_P(FaultsTest, RaceBetweenBlocks) {
  ExpectFault(Run("race_between_blocks", false, true), absl::StatusCode::kFailedPrecondition, "race_between_blocks",
              "in the same launch");
}

TEST_P(FaultsTest, MissingInitialisation) {
  ExpectFault(Run("missing_initialisation"), absl::StatusCode::kFailedPrecondition, "missing_initialisation",
              "never written");
  EXPECT_EQ(Run("missing_initialisation", false, true), absl::OkStatus());
}

TEST_P(FaultsTest, MissingSharedInitialisation) {
  ExpectFault(Run("missing_shared_initialisation"), absl::StatusCode::kFailedPrecondition,
              "missing_shared_initialisation", "reads shared memory at address 28 that was never written");
}

TEST_P(FaultsTest, DivergentBarrier) {
  ExpectFault(Run("divergent_barrier"), absl::StatusCode::kFailedPrecondition, "divergent_barrier",
              "divergent barrier");
}

TEST_P(FaultsTest, InactiveLane) {
  ExpectFault(Run("inactive_lane"), absl::StatusCode::kFailedPrecondition, "inactive_lane", "which is inactive");
}

TEST_P(FaultsTest, WrongMask) {
  ExpectFault(Run("wrong_mask"), absl::StatusCode::kFailedPrecondition, "wrong_mask", "is not in its mask 0x7fffffff");
}

TEST_P(FaultsTest, WrongRestrict) {
  ExpectFault(Run("wrong_restrict", true), absl::StatusCode::kFailedPrecondition, "wrong_restrict", ".nc");
  EXPECT_EQ(Run("wrong_restrict"), absl::OkStatus());
}

TEST_P(FaultsTest, AccessBeforeEarlierWorkEnded) {
  EXPECT_EQ(Run("waits", false, true, true), absl::OkStatus());
  for (const std::string kernel :
       {"reads_before_wait", "writes_before_wait", "counts_before_wait", "selects_before_wait"}) {
    ExpectFault(Run(kernel, false, true, true), absl::StatusCode::kFailedPrecondition, kernel,
                "accesses global memory before griddepcontrol.wait");
    // Nothing runs at the same time as a kernel that does not begin early.
    EXPECT_EQ(Run(kernel, false, true), absl::OkStatus());
  }
}

TEST_P(FaultsTest, ExitBeforeEarlierWorkEnded) {
  ExpectFault(Run("exits_before_wait", false, true, true), absl::StatusCode::kFailedPrecondition, "exits_before_wait",
              "exits without griddepcontrol.wait");
  EXPECT_EQ(Run("correct", false, true, true).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(Run("exits_before_wait", false, true), absl::OkStatus());
}

// Blocks and warps in order, and in two drawn orders.
INSTANTIATE_TEST_SUITE_P(Seeds, FaultsTest, ::testing::Values(0, 1, 2));

}  // namespace
}  // namespace cotan::cuda::ptx
