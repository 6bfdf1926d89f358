// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/interpreter.h"

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/sim/ptx/plain_memory.h"
#include "kernels/cuda/sim/ptx/ptx_parser.h"

namespace cotan::cuda::ptx {
namespace {

using ::testing::HasSubstr;

// Runs kernels `k(.param .u64 out)` given by their bodies. %rd1 is the address out + 4 * thread, %r1
// the thread, %t the base of 256 bytes of shared memory.
class InterpreterTest : public ::testing::Test {
 protected:
  absl::StatusOr<Counters> Run(const std::string& body, Launch launch = {.block = {32, 1, 1}}) {
    const std::string text = absl::StrCat(R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry k(.param .u64 out) {
.reg .pred %p<9>; .reg .b16 %h<9>; .reg .b32 %r<20>; .reg .f32 %f<9>; .reg .b64 %rd<9>; .reg .b32 %t;
.shared .align 16 .b8 tile[256];
mov.u32 %t, tile; mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [out]; mad.wide.u32 %rd1, %r1, 4, %rd1;
)",
                                          body, "\n}\n");
    COTAN_ASSIGN_OR_RETURN(const Module module, ParsePtx(text));
    out_ = memory_.Allocate(4096);
    launch.parameters = ParameterBuffer().Add(out_).Take();
    return RunKernel(module, "k", launch, memory_);
  }

  void ExpectFault(const std::string& body, absl::StatusCode code, const std::string& message,
                   Launch launch = {.block = {32, 1, 1}}) {
    const absl::Status status = Run(body, launch).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  }

  std::vector<uint32_t> Out(size_t count) const { return memory_.Get<uint32_t>(out_, count); }

  PlainMemory memory_;
  uint64_t out_ = 0;
};

TEST_F(InterpreterTest, LanesPartAndMeet) {
  const auto counters = Run(R"(
setp.lt.u32 %p1, %r1, 10;
@%p1 bra low;
mov.u32 %r2, 7;
bra.uni join;
low: mov.u32 %r2, %r1;
join:
@!%p1 add.u32 %r2, %r2, 1;
vote.sync.ballot.b32 %r3, %p1, -1;
add.u32 %r2, %r2, %r3;
st.global.u32 [%rd1], %r2;
ret;)");
  ASSERT_TRUE(counters.ok()) << counters.status();
  for (uint32_t i = 0; i < 32; ++i) EXPECT_EQ(Out(32)[i], (i < 10 ? i : 8) + 1023);
  EXPECT_EQ(counters->warp, 32);
  EXPECT_EQ(counters->global_store_sectors, 4);
}

TEST_F(InterpreterTest, AsyncCopyIsDeferredUntilItIsWaitedFor) {
  const std::string copy = R"(
st.global.u32 [%rd1], %r1;
mad.lo.u32 %r2, %r1, 4, %t;
cp.async.ca.shared.global [%r2], [%rd1], 4;
cp.async.commit_group;)";
  const std::string read = "ld.shared.u32 %r3, [%r2]; add.u32 %r3, %r3, 5; st.global.u32 [%rd1], %r3; ret;";
  ASSERT_EQ(Run(copy + "cp.async.wait_group 0;" + read).status(), absl::OkStatus());
  EXPECT_EQ(Out(32)[9], 14);
  ASSERT_EQ(Run(copy + "cp.async.wait_all;" + read).status(), absl::OkStatus());
  ExpectFault(copy + read, absl::StatusCode::kFailedPrecondition, "never written");
  ExpectFault(copy + "cp.async.wait_group 1;" + read, absl::StatusCode::kFailedPrecondition, "never written");
}

TEST_F(InterpreterTest, Atomics) {
  ASSERT_EQ(Run(R"(
ld.param.u64 %rd2, [out];
setp.eq.u32 %p1, %r1, 0;
@%p1 st.shared.v4.u32 [tile], {0, 100, 0, 0f3F800000};
bar.sync 0;
atom.shared.add.u32 %r2, [%t], 1;
red.shared.min.s32 [%t+4], -3;
atom.shared.cas.b32 %r3, [tile+8], 0, 77;
red.shared.add.f32 [tile+12], 0f3F000000;
bar.sync 0;
@!%p1 ret;
ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [tile];
st.global.v4.u32 [%rd2], {%r4, %r5, %r6, %r7};)")
                .status(),
            absl::OkStatus());
  EXPECT_EQ(Out(4), (std::vector<uint32_t>{32, static_cast<uint32_t>(-3), 77, 0x41880000}));  // 17.0f.
}

TEST_F(InterpreterTest, CountsBankConflictsAndSectors) {
  const auto strided = Run(R"(
mad.lo.u32 %r2, %r1, 8, %t;
st.shared.u32 [%r2], %r1;
mul.wide.u32 %rd2, %r1, 60;
add.u64 %rd1, %rd1, %rd2;
st.global.u32 [%rd1], %r1;)");
  ASSERT_TRUE(strided.ok()) << strided.status();
  EXPECT_EQ(strided->shared_accesses, 1);
  EXPECT_EQ(strided->shared_bank_conflicts, 1);
  EXPECT_EQ(strided->global_store_sectors, 32);
  EXPECT_EQ(strided->global_store_bytes, 128);
}

TEST_F(InterpreterTest, BarriersReduce) {
  ASSERT_EQ(Run(R"(
setp.lt.u32 %p1, %r1, 40;
bar.red.popc.u32 %r2, 0, %p1;
bar.red.and.pred %p2, 0, %p1;
bar.red.or.pred %p3, 0, !%p1;
selp.u32 %r3, 100, 0, %p2;
selp.u32 %r4, 1000, 0, %p3;
add.u32 %r2, %r2, %r3;
add.u32 %r2, %r2, %r4;
st.global.u32 [%rd1], %r2;)",
                {.block = {64, 1, 1}})
                .status(),
            absl::OkStatus());
  EXPECT_EQ(Out(64), std::vector<uint32_t>(64, 1040));
}

TEST_F(InterpreterTest, Carries) {
  ASSERT_EQ(Run(R"(
add.cc.u32 %r2, -1, %r1;
addc.u32 %r3, 0, 0;
sub.cc.s32 %r4, %r1, 1;
subc.u32 %r5, 7, 0;
mad.lo.cc.u32 %r6, %r1, -1, 1;
madc.hi.u32 %r7, %r1, -1, 0;
mad.lo.u32 %r8, %r3, 100, %r5;
mad.lo.u32 %r8, %r7, 1000, %r8;
st.global.u32 [%rd1], %r8;)")
                .status(),
            absl::OkStatus());
  EXPECT_EQ(Out(1)[0], 6);     // 0 - 1 borrows.
  EXPECT_EQ(Out(3)[2], 1107);  // (2^32 - 1) * 2 + 1 is 1 in the upper half.
}

TEST_F(InterpreterTest, RefusesUndefinedRegisters) {
  ExpectFault("add.u32 %r2, %r3, 1;", absl::StatusCode::kFailedPrecondition, "reads register %r3");
  // Copies of undefined values are not uses.
  EXPECT_EQ(Run("mov.u32 %r2, %r3; ret;").status(), absl::OkStatus());
  ExpectFault("mov.u32 %r2, %r3; st.global.u32 [%rd1], %r2;", absl::StatusCode::kFailedPrecondition, "%r2");
  EXPECT_EQ(Run("add.u32 %r2, %r3, 1;", {.block = {32, 1, 1}, .check_registers = false}).status(), absl::OkStatus());
}

TEST_F(InterpreterTest, RefusesBadAccesses) {
  ExpectFault("st.shared.u32 [tile+256], %r1;", absl::StatusCode::kOutOfRange, "outside of 256 bytes");
  ExpectFault("st.shared.u32 [tile+2], %r1;", absl::StatusCode::kInvalidArgument, "misaligned access of 4 bytes");
  ExpectFault("st.shared.u32 [tile], %r1;", absl::StatusCode::kFailedPrecondition, "race: writes");
  EXPECT_EQ(Run("st.shared.u32 [tile], %r1;", {.block = {32, 1, 1}, .check_races = false}).status(), absl::OkStatus());
  ExpectFault("ld.param.u32 %r2, [out+8];", absl::StatusCode::kOutOfRange, "parameter address 8");
  ExpectFault("cvta.shared.u64 %rd2, 256; ld.u32 %r2, [%rd2];", absl::StatusCode::kOutOfRange, "at shared address 256");
}

TEST_F(InterpreterTest, RefusesHangs) {
  ExpectFault("setp.lt.u32 %p1, %r1, 40; @%p1 bra wait; loop: bra loop; wait: bar.sync 0;",
              absl::StatusCode::kDeadlineExceeded, "more than 100000 warp instructions",
              {.block = {64, 1, 1}, .max_warp_instructions = 100000});
  ExpectFault("bar.sync 1, 64;", absl::StatusCode::kFailedPrecondition, "barrier that other threads never reach");
  ExpectFault("setp.lt.u32 %p1, %r1, 16; @%p1 bra a; bar.warp.sync -1; ret; a: shfl.sync.idx.b32 %r2, %r1, 0, 31, -1;",
              absl::StatusCode::kFailedPrecondition, "which are not all there");
}

TEST_F(InterpreterTest, WaitsWithinAWarpEnd) {
  // Lane 31 opens a lock that the others wait for at a lower instruction.
  EXPECT_EQ(Run(R"(
setp.eq.u32 %p1, %r1, 31;
@%p1 st.shared.u32 [tile], 0;
bar.warp.sync -1;
@%p1 bra open;
wait: ld.volatile.shared.u32 %r2, [tile];
setp.eq.u32 %p2, %r2, 0;
@%p2 bra wait;
ret;
open: st.volatile.shared.u32 [tile], 1;)",
                {.block = {32, 1, 1}, .max_warp_instructions = 1000000})
                .status(),
            absl::OkStatus());
}

TEST_F(InterpreterTest, BlocksThatSleepRunAtTheSameTimeWhileEachHasAMultiprocessor) {
  // All blocks wait until all of them have come.
  const std::string body = R"(
setp.ne.u32 %p1, %r1, 0;
@%p1 bra end;
mov.u32 %r2, %ctaid.x;
setp.ne.u32 %p2, %r2, 0;
@%p2 bra join;
st.volatile.global.u32 [%rd1], 0;
join: atom.global.add.u32 %r2, [%rd1], 1;
wait: nanosleep.u32 20;
ld.volatile.global.u32 %r2, [%rd1];
setp.lt.u32 %p2, %r2, 3;
@%p2 bra wait;
end: ret;)";
  Launch launch = {.grid = {3, 1, 1}, .block = {64, 1, 1}, .multiprocessors = 3, .max_warp_instructions = 100000};
  for (const uint64_t seed : {0, 5}) {
    launch.seed = seed;
    const absl::StatusOr<Counters> counters = Run(body, launch);
    ASSERT_TRUE(counters.ok()) << counters.status();
    EXPECT_EQ(Out(1)[0], 3);
    EXPECT_LE(counters->warp_instructions, 200);
  }
  launch.multiprocessors = 2;
  EXPECT_EQ(Run(body, launch).status().code(), absl::StatusCode::kDeadlineExceeded);
}

TEST_F(InterpreterTest, NamesWhatItCannotExecute) {
  ExpectFault("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%f1}, {%r1}, {%r1}, {%f1};",
              absl::StatusCode::kUnimplemented, "PTX line 8 `mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32");
  ExpectFault("add.u32 %r1, %r1;", absl::StatusCode::kInvalidArgument, "takes 2 sources");
  ExpectFault("bra nowhere;", absl::StatusCode::kInvalidArgument, "no such label");
  ExpectFault("mov.u32 %r1, nothing;", absl::StatusCode::kInvalidArgument, "unknown name nothing");
  ExpectFault("trap;", absl::StatusCode::kAborted, "block (0, 0, 0), thread (0, 0, 0): trap");
}

TEST_F(InterpreterTest, ChecksTheLaunch) {
  const absl::StatusCode invalid = absl::StatusCode::kInvalidArgument;
  ExpectFault("ret;", invalid, "1056 threads a block, more than 1024", {.block = {33, 32, 1}});
  ExpectFault("ret;", invalid, "grid.y is 65536", {.grid = {1, 65536, 1}});
  ExpectFault("ret;", invalid, "block.z is 65", {.block = {1, 1, 65}});
  ExpectFault("ret;", invalid, "bytes of shared memory a block, more than the 101376 of compute capability 120",
              {.dynamic_shared_bytes = 120 * 1024, .compute_capability = 120});
  EXPECT_EQ(Run("ret;", {.dynamic_shared_bytes = 120 * 1024}).status(), absl::OkStatus());
}

}  // namespace
}  // namespace cotan::cuda::ptx
