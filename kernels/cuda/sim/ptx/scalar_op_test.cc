// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/scalar_op.h"

#include <bit>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "kernels/cuda/sim/ptx/opcode_name.h"
#include "kernels/cuda/sim/ptx/ptx_module.h"

namespace cotan::cuda::ptx {
namespace {

OpcodeName Name(const std::string& text) {
  Instruction instruction;
  instruction.modifiers = absl::StrSplit(text, '.');
  instruction.opcode = instruction.modifiers[0];
  instruction.modifiers.erase(instruction.modifiers.begin());
  return ParseOpcodeName(instruction);
}

uint64_t F(float value) { return std::bit_cast<uint32_t>(value); }
uint64_t D(double value) { return std::bit_cast<uint64_t>(value); }

constexpr uint64_t kNan = 0x7fffffff;
constexpr uint64_t kMinusOne = 0xffffffff;

struct Case {
  std::string opcode;
  std::vector<uint64_t> sources;
  uint64_t expected;
};

TEST(ScalarOpTest, Evaluates) {
  const std::vector<Case> cases = {
      {"add.s32", {kMinusOne, 2}, 1},
      {"add.sat.s32", {0x7fffffff, 1}, 0x7fffffff},
      {"sub.u64", {0, 1}, ~uint64_t{0}},
      {"mul.hi.s32", {kMinusOne, 5}, kMinusOne},
      {"mul.hi.u32", {kMinusOne, 5}, 4},
      {"mul.wide.s32", {kMinusOne, 5}, static_cast<uint64_t>(-5)},
      {"mul.wide.u16", {0xffff, 0xffff}, 0xfffe0001},
      {"mad.lo.s32", {3, 4, kMinusOne}, 11},
      {"mad.wide.u32", {kMinusOne, 2, 3}, 0x200000001},
      {"div.s32", {static_cast<uint32_t>(-7), 2}, static_cast<uint32_t>(-3)},
      {"rem.s32", {static_cast<uint32_t>(-7), 2}, kMinusOne},
      {"div.u32", {7, 0}, kMinusOne},
      {"min.s32", {kMinusOne, 1}, kMinusOne},
      {"min.u32", {kMinusOne, 1}, 1},
      {"abs.s32", {kMinusOne}, 1},
      {"shl.b32", {1, 32}, 0},
      {"shr.s32", {0x80000000, 40}, kMinusOne},
      {"shr.u64", {uint64_t{1} << 63, 63}, 1},
      {"dp4a.u32.u32", {0x01020304, 0xff020304, 5}, 255 + 4 + 9 + 16 + 5},
      {"dp4a.s32.u32", {0xff000001, 0x02000003, 5}, 6},
      {"dp4a.u32.s32", {0x02000000, 0xff000000, 1}, kMinusOne},
      {"dp2a.lo.u32.u32", {0x00030002, 0x09080705, 1}, 3 * 7 + 2 * 5 + 1},
      {"dp2a.hi.u32.u32", {0x00030002, 0x09080705, 1}, 3 * 9 + 2 * 8 + 1},
      {"dp2a.lo.s32.s32", {0xffff0001, 0x0000ff04, 0}, 5},
      {"shf.l.wrap.b32", {0x80000000, 1, 33}, 3},
      {"shf.r.clamp.b32", {5, 7, 32}, 7},
      {"bfe.u32", {0xabcd1234, 8, 8}, 0x12},
      {"bfe.s32", {0x0000f000, 12, 4}, kMinusOne},
      {"bfi.b32", {0xff, 0, 4, 4}, 0xf0},
      {"prmt.b32", {0x33221100, 0x77665544, 0x7530}, 0x77553300},
      {"popc.b64", {~uint64_t{0}}, 64},
      {"clz.b32", {1}, 31},
      {"brev.b32", {1}, 0x80000000},
      {"bfind.u32", {0x10}, 4},
      {"bfind.shiftamt.u32", {0x10}, 27},
      {"lop3.b32", {0xf0, 0xcc, 0xaa, 0x96}, (0xf0 ^ 0xcc ^ 0xaa)},
      {"not.pred", {1}, 0},
      {"selp.b32", {1, 2, 0}, 2},
      {"setp.lt.s32", {kMinusOne, 0}, 1},
      {"setp.lt.u32", {kMinusOne, 0}, 0},
      {"setp.lt.f32", {kNan, F(1)}, 0},
      {"setp.ltu.f32", {kNan, F(1)}, 1},
      {"setp.nan.f32", {kNan, F(1)}, 1},
      {"setp.eq.and.s32", {1, 1, 0}, 0},
      {"set.eq.u32.s32", {1, 1}, kMinusOne},
      {"set.eq.f32.s32", {1, 1}, F(1)},
      {"add.f32", {F(1), F(0x1p-24f)}, F(1)},
      {"add.rp.f32", {F(1), F(0x1p-24f)}, F(1 + 0x1p-23f)},
      {"fma.rn.f32", {F(1 + 0x1p-23f), F(1 - 0x1p-23f), F(-1)}, F(-0x1p-46f)},
      {"mul.ftz.f32", {F(0x1p-100f), F(-0x1p-40f)}, F(-0.0f)},
      {"mul.f32", {F(0x1p-100f), F(0x1p-40f)}, F(0x1p-140f)},
      {"add.sat.f32", {F(3), kNan}, F(0)},
      {"min.f32", {kNan, F(2)}, F(2)},
      {"min.NaN.f32", {kNan, F(2)}, kNan},
      {"max.f32", {F(-0.0f), F(0)}, F(0)},
      {"copysign.f32", {F(-1), F(3)}, F(-3)},
      {"neg.f32", {F(0)}, F(-0.0f)},
      {"div.rz.f64", {D(1), D(3)}, D(0x1.5555555555555p-2)},
      {"div.rp.f64", {D(1), D(3)}, D(0x1.5555555555556p-2)},
      {"rcp.rn.f32", {F(3)}, F(1.0f / 3)},
      {"ex2.approx.ftz.f32", {F(3)}, F(8)},
      {"lg2.approx.f32", {F(0)}, F(-1.0f / 0.0f)},
      {"fma.rn.f16x2", {0x3c004000, 0x40004000, 0x3c003c00}, 0x42004500},
      {"add.rn.bf16x2", {0x3f803f80, 0x3f804000}, 0x40004040},
      {"fma.rn.relu.f16", {0xbc00, 0x3c00, 0}, 0},
      {"cvt.s64.s32", {kMinusOne}, ~uint64_t{0}},
      {"cvt.u64.u32", {kMinusOne}, kMinusOne},
      {"cvt.sat.u8.s32", {kMinusOne}, 0},
      {"cvt.rzi.s32.f32", {F(-2.7f)}, static_cast<uint32_t>(-2)},
      {"cvt.rni.s32.f32", {F(2.5f)}, 2},
      {"cvt.rpi.u32.f32", {F(2.1f)}, 3},
      {"cvt.rzi.s32.f32", {F(1e20f)}, 0x7fffffff},
      {"cvt.rzi.s32.f32", {kNan}, 0},
      {"cvt.rzi.s64.f32", {kNan}, uint64_t{1} << 63},
      {"cvt.rn.f32.u64", {~uint64_t{0}}, F(0x1p64f)},
      {"cvt.rz.f32.u64", {~uint64_t{0}}, F(0x1.fffffep63f)},
      {"cvt.rn.f32.f64", {D(0.1)}, F(0.1f)},
      {"cvt.rni.f32.f32", {F(-0.5f)}, F(-0.0f)},
      {"cvt.sat.f32.f32", {F(7)}, F(1)},
      {"cvt.rn.f16.f32", {F(1.0f)}, 0x3c00},
      {"cvt.f32.bf16", {0x3f80}, F(1)},
      {"cvt.rn.bf16x2.f32", {F(1), F(2)}, 0x3f804000},
  };
  for (const Case& test : cases) {
    const std::optional<ScalarOp> op = FindScalarOp(Name(test.opcode));
    ASSERT_TRUE(op.has_value()) << test.opcode;
    uint64_t sources[4] = {};
    ASSERT_EQ(op->num_sources, static_cast<int>(test.sources.size())) << test.opcode;
    for (size_t i = 0; i < test.sources.size(); ++i) sources[i] = test.sources[i];
    const uint64_t result = EvaluateScalar(*op, sources) & LowBits(op->result_type.TotalBits());
    EXPECT_EQ(result, test.expected) << test.opcode << std::hex << " gives 0x" << result << ", not 0x" << test.expected;
  }
}

TEST(ScalarOpTest, RefusesUnknownCombinations) {
  for (const char* opcode : {"frobnicate.s32", "add.cc.u32", "cvt.rn.satfinite.e4m3x2.f32", "mul.f8", "setp.eq.f16x2",
                             "min.xorsign.abs.f32", "add", "setp.s32"}) {
    EXPECT_FALSE(FindScalarOp(Name(opcode)).has_value()) << opcode;
  }
}

}  // namespace
}  // namespace cotan::cuda::ptx
