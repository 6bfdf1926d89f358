// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/ptx_parser.h"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::cuda::ptx {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kHeader[] = ".version 9.0\n.target sm_90\n.address_size 64\n";

absl::StatusOr<Module> Parse(const std::string& text) { return ParsePtx(absl::StrCat(kHeader, text)); }

TEST(PtxParserTest, ReadsKernel) {
  const absl::StatusOr<Module> module = Parse(R"(
.visible .entry scale(
	.param .u64 .ptr .global .align 4 scale_param_0,
	.param .f32 scale_param_1,
	.param .align 16 .b8 scale_param_2[20]
)
.maxntid 256, 1, 1
.minnctapersm 2
{
	.reg .pred %p<2>;
	.reg .b64 %rd<3>;
	.shared .align 16 .b8 tile[64];
	.loc 1 2 3
	ld.param.u64 %rd1, [scale_param_0+8]; // comment
$L__BB0_1:
	.pragma "nounroll";
	@!%p1 bra $L__BB0_1;
	{ .reg .b32 %rd1; mov.b64 {%rd1, _}, %rd2; }
	ret;
}
)");
  ASSERT_TRUE(module.ok()) << module.status();
  EXPECT_EQ(module->target, "sm_90");
  ASSERT_EQ(module->functions.size(), 1);
  const Function& kernel = module->functions[0];
  EXPECT_EQ(kernel.name, "scale");
  EXPECT_TRUE(kernel.is_entry);
  ASSERT_EQ(kernel.parameters.size(), 3);
  EXPECT_EQ(kernel.parameters[1].offset, 8);
  EXPECT_EQ(kernel.parameters[2].offset, 16);
  EXPECT_EQ(kernel.parameter_bytes, 36);
  EXPECT_THAT(kernel.max_threads, ElementsAre(256, 1, 1));
  EXPECT_EQ(kernel.static_shared_bytes, 64);
  ASSERT_EQ(kernel.instructions.size(), 4);
  const Instruction& load = kernel.instructions[0];
  EXPECT_EQ(load.text, "ld.param.u64 %rd1, [scale_param_0+8]");
  EXPECT_EQ(load.line, 17);
  EXPECT_THAT(load.modifiers, ElementsAre("param", "u64"));
  EXPECT_TRUE(load.operands[1].address);
  EXPECT_EQ(load.operands[1].elements[0].value, 8);
  EXPECT_EQ(kernel.labels.at("$L__BB0_1"), 1);
  EXPECT_TRUE(kernel.instructions[1].guard_negated);
  // %rd1 of the inner scope is another register.
  const Instruction& unpack = kernel.instructions[2];
  EXPECT_NE(unpack.operands[0].elements[0].index, load.operands[0].elements[0].index);
  EXPECT_EQ(unpack.operands[0].elements[1].kind, OperandKind::kSink);
}

TEST(PtxParserTest, ReadsVariables) {
  const absl::StatusOr<Module> module = Parse(R"(
.global .align 4 .b8 zeros[12];
.const .align 4 .f32 pi = 0f40490FDB;
.global .align 8 .u64 table[2] = {generic(zeros)+4, 7};
.extern .shared .align 16 .b8 dynamic[];
)");
  ASSERT_TRUE(module.ok()) << module.status();
  ASSERT_EQ(module->variables.size(), 3);
  EXPECT_EQ(module->variables[0].init.size(), 12);
  EXPECT_TRUE(module->variables[1].constant);
  uint32_t pi;
  std::memcpy(&pi, module->variables[1].init.data(), 4);
  EXPECT_EQ(pi, 0x40490fdb);
  ASSERT_EQ(module->variables[2].relocations.size(), 1);
  EXPECT_EQ(module->variables[2].relocations[0].second, "zeros");
  EXPECT_EQ(module->variables[2].init[0], std::byte{4});
  EXPECT_EQ(module->variables[2].init[8], std::byte{7});
}

TEST(PtxParserTest, NamesTheLineOfAnError) {
  const struct {
    const char* text;
    const char* message;
  } kCases[] = {
      {".visible .entry k()\n{\n\tadd.s32 %r1 %r2;\n}\n", "PTX line 6: expected ',' or ';' at '%r2'"},
      {".visible .entry k()\n{\n\tret;\n", "unterminated body at the end"},
      {".visible .entry k()\n{\na: ret;\na: ret;\n}\n", "PTX line 7: label a is defined twice"},
      {".bogus\n", "PTX line 5: unknown directive .bogus"},
      {".visible .entry k()\n{\n\t.reg .q32 %r;\n}\n", "PTX line 6: unknown register type"},
      {"/* open", "PTX line 4: unterminated comment"},
      {"^", "PTX line 4: unexpected character '^'"},
  };
  for (const auto& test : kCases) {
    const absl::Status status = Parse(test.text).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << test.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(test.message));
  }
  EXPECT_THAT(std::string(ParsePtx("").status().message()), HasSubstr("no .target"));
}

// Text that is cut anywhere is refused or read, and never crashes.
TEST(PtxParserTest, SurvivesTruncation) {
  const std::string text = absl::StrCat(kHeader,
                                        ".global .u64 t[2] = {generic(t)+4, -7};\n.visible .entry k(.param .u64 "
                                        "a)\n{\n.reg .b32 %r<4>;\n@!%r1 st.v2.u32 [%r2+4], {%r1, _};\n}\n");
  for (size_t length = 0; length < text.size(); ++length) {
    const absl::StatusOr<Module> module = ParsePtx(text.substr(0, length));
    EXPECT_TRUE(module.ok() || absl::IsInvalidArgument(module.status())) << module.status();
  }
}

}  // namespace
}  // namespace cotan::cuda::ptx
