// SPDX-License-Identifier: Apache-2.0

#include <bit>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"
#include "kernels/cuda/sim/ptx/opcode_name.h"
#include "kernels/cuda/sim/ptx/ptx_module.h"
#include "kernels/cuda/sim/ptx/scalar_op.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {
namespace {

constexpr int kLanes = 32;
constexpr int kRounds = 300;

std::optional<ScalarOp> Find(const std::string& text) {
  Instruction instruction;
  instruction.modifiers = absl::StrSplit(text, '.');
  instruction.opcode = instruction.modifiers[0];
  instruction.modifiers.erase(instruction.modifiers.begin());
  return FindScalarOp(ParseOpcodeName(instruction));
}

// Returns numbers of all kinds, for any type, with set bits above the width.
uint64_t RandomBits(std::mt19937_64& random) {
  static constexpr float kFloats[] = {0.0f, -0.0f, 1.0f, -1.5f, 3e-45f, -1e-39f, 65504.0f, 65520.0f, 6e-8f, 3e38f};
  static constexpr uint64_t kBits[] = {0,
                                       1,
                                       31,
                                       32,
                                       63,
                                       64,
                                       0x7f800000,
                                       0xff800000,
                                       0x7fc00001,
                                       0xffc00000,
                                       0x7fffffff,
                                       0x80000000,
                                       0x7c00,
                                       0xfc00,
                                       0x7e01,
                                       0x8001,
                                       0x3fff,
                                       ~uint64_t{0},
                                       uint64_t{0x7ff} << 52,
                                       uint64_t{0xfff8} << 48,
                                       uint64_t{1} << 63};
  switch (random() % 6) {
    case 0:
      return std::bit_cast<uint32_t>(kFloats[random() % std::size(kFloats)]) | random() << 32;
    case 1:
      return kBits[random() % std::size(kBits)];
    case 2:
      return std::bit_cast<uint64_t>(static_cast<double>(kFloats[random() % std::size(kFloats)]));
    case 3:
      return std::bit_cast<uint32_t>(static_cast<float>(static_cast<int>(random() % 4001) - 2000) * 0.37f);
    case 4:
      return random() % 100;
    default:
      return random();
  }
}

bool IsNan(uint64_t bits, ScalarType type) {
  if (!type.IsFloat()) return false;
  const double value = DecodeFloat(bits & LowBits(type.bits), type);
  return value != value;
}

// Returns names of instructions, with and without a function for warps.
std::vector<std::string> Names() {
  std::vector<std::string> names = {
      "and.pred",     "or.pred",      "xor.pred",       "not.pred",        "mul.wide.s16",   "mul.wide.u16",
      "mul.wide.s32", "mul.wide.u32", "mad.wide.s32",   "mad.wide.u32",    "mul.hi.u32",     "mul.hi.s32",
      "cvt.f32.f16",  "cvt.f32.bf16", "cvt.rn.f16.f32", "cvt.rn.bf16.f32", "cvt.rn.f32.f64", "cvt.f64.f32"};
  for (const char* type : {"s16", "u16", "s32", "u32", "s64", "u64"}) {
    for (const char* op :
         {"add",     "sub",     "mul.lo",  "mad.lo",  "min",     "max",     "neg",        "shr",        "setp.eq",
          "setp.ne", "setp.lt", "setp.le", "setp.gt", "setp.ge", "selp",    "cvt.rn.f32", "cvt.rn.f64", "cvt.s8",
          "cvt.u8",  "cvt.s16", "cvt.u16", "cvt.s32", "cvt.u32", "cvt.s64", "cvt.u64"}) {
      names.push_back(absl::StrCat(op, ".", type));
    }
  }
  for (const char* type : {"b16", "b32", "b64"}) {
    for (const char* op : {"and", "or", "xor", "not", "shl", "selp", "setp.eq", "setp.ne"}) {
      names.push_back(absl::StrCat(op, ".", type));
    }
  }
  for (const char* type : {"f32", "f64"}) {
    for (const char* op :
         {"add.rn",   "sub.rn",   "mul.rn",   "div.rn",   "rcp.rn",   "sqrt.rn",  "fma.rn",   "min",     "max",
          "neg",      "abs",      "setp.eq",  "setp.ne",  "setp.lt",  "setp.le",  "setp.gt",  "setp.ge", "setp.equ",
          "setp.neu", "setp.ltu", "setp.leu", "setp.gtu", "setp.geu", "setp.num", "setp.nan", "selp"}) {
      names.push_back(absl::StrCat(op, ".", type));
    }
  }
  return names;
}

TEST(WarpOpsTest, LanesGetWhatOneThreadGets) {
  std::mt19937_64 random(5);
  for (const std::string& name : Names()) {
    const std::optional<ScalarOp> op = Find(name);
    ASSERT_TRUE(op.has_value()) << name;
    ASSERT_NE(op->warp_fn, nullptr) << name;
    for (int round = 0; round < kRounds; ++round) {
      uint64_t values[4][kLanes];
      for (auto& lanes : values) {
        for (uint64_t& value : lanes) value = RandomBits(random);
      }
      const uint64_t* sources[4] = {values[0], values[1], values[2], values[3]};
      uint64_t results[kLanes];
      op->warp_fn(sources, results);
      const uint64_t mask = LowBits(op->result_type.TotalBits());
      for (int lane = 0; lane < kLanes; ++lane) {
        const uint64_t of_lane[4] = {values[0][lane], values[1][lane], values[2][lane], values[3][lane]};
        const uint64_t expected = EvaluateScalar(*op, of_lane) & mask;
        // PTX leaves the payload of a NaN of f64 open.
        if (op->result_type.bits == 64 && IsNan(expected, op->result_type) && IsNan(results[lane], op->result_type)) {
          continue;
        }
        ASSERT_EQ(results[lane], expected)
            << name << std::hex << " of " << of_lane[0] << ", " << of_lane[1] << ", " << of_lane[2];
      }
    }
  }
}

TEST(WarpOpsTest, ModifiersExcludeAFunctionForWarps) {
  for (const char* name : {"add.ftz.f32", "add.sat.s32", "add.rz.f32", "ex2.approx.f32", "add.f16x2", "min.NaN.f32",
                           "setp.lt.and.s32", "cvt.rzi.s32.f32", "cvt.sat.u8.s32"}) {
    const std::optional<ScalarOp> op = Find(name);
    ASSERT_TRUE(op.has_value()) << name;
    EXPECT_EQ(op->warp_fn, nullptr) << name;
  }
}

}  // namespace
}  // namespace cotan::cuda::ptx
