// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/inspect_html.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/function_builder.h"
#include "runtime/testing/program_builder.h"
#include "serialization/metadata/graph_signature.h"

namespace cotan::tools {
namespace {

using testing::AliasOf;
using testing::Fresh;
using ::testing::HasSubstr;
using testing::LinearRegression;
using testing::MethodBuilder;
using ::testing::Not;
using testing::Plain;
using testing::ProgramBuilder;

TEST(InspectHtmlTest, HostileNamesStayText) {
  const std::string hostile = "</script><script>alert(1)</script>";
  ProgramBuilder program = LinearRegression();
  program.artifact().mutable_states(0)->set_name(hostile);
  program.artifact().mutable_states(2)->set_owner(hostile);
  program.artifact().mutable_methods(0)->mutable_ops(0)->set_source(hostile);
  program.artifact().mutable_methods(0)->set_input_names(0, hostile);
  const std::string page = *InspectHtml(*program.Load(), hostile, {});
  EXPECT_THAT(page, Not(HasSubstr("alert(1)</script>")));
  EXPECT_THAT(page, HasSubstr(R"(\u003c/script\u003e\u003cscript\u003ealert(1))"));
}

TEST(InspectHtmlTest, TimesOfAProfileAreThoseOfTheSteps) {
  const std::string lines = ProfileLines("twice", std::vector<ProfiledStep>{{"a\tstep", 1.5}, {"another", 20}});
  EXPECT_EQ(lines, "twice\t0\t1.500\ta step\ntwice\t1\t20.000\tanother\n");
  ProgramBuilder program;
  MethodBuilder method = program.AddMethod("twice");
  const uint32_t x = method.Input("x", DType::kFloat32, {"2", "2"});
  method.Output("y", method.Matmul(method.Matmul(x, x, {"2", "2"}), x, {"2", "2"}));
  const std::shared_ptr<const Program> loaded = program.Load();
  const std::string page = *InspectHtml(*loaded, "twice.cotan", *ParseProfile(lines));
  EXPECT_THAT(page, HasSubstr(R"("bytes": 48, "flops": 16, "us": 20.000})"));
  EXPECT_EQ(InspectHtml(*loaded, "twice.cotan", *ParseProfile("twice\t0\t1\ta\n")).status().message(),
            "the profile of method 'twice' has 1 steps, its plan has 2; measure this artifact with "
            "`cotan bench --profile=FILE` on the CPU");
}

// return x + 1, x.t()
TEST(InspectHtmlTest, AViewOfAnArgumentIsARowWithAnEdgeFromTheArgument) {
  ProgramBuilder program;
  MethodBuilder f = program.AddMethod("f");
  f.Output("sum", Plus(f, f.Input("x", DType::kFloat32, {"2", "3"}), 1.0));
  ViewAndMutationMetaFields facts;
  facts.input_info = {Plain()};
  facts.output_info = {Fresh(false), AliasOf(OutputType::kAliasOfInput, 0, false, {view::Permute{{1, 0}}})};
  SetMetadata(f, facts);
  GraphSignature signature;
  signature.user_inputs = {"x"};
  signature.user_outputs = {"sum", "flipped"};
  *f.proto().mutable_signature() = signature.ToProto();
  const std::string page = *InspectHtml(*program.Load(), "f.cotan", {});
  EXPECT_THAT(page,
              HasSubstr(R"({"class": "result", "number": "", "kind": "result", "type": "", "source": "flipped")"));
  // Rows: the argument, the sum, the result "sum", the result "flipped".
  EXPECT_THAT(page, HasSubstr(R"json({"from": 0, "to": 3, "kind": "alias", )json"
                              R"json("label": "alias_of_input 0 through permute(1, 0)"})json"));
}

TEST(InspectHtmlTest, MalformedProfilesAreRefused) {
  for (const char* text : {"x\t0\t1\n", "x\t1\t1\tname\n", "x\t0\tsoon\tname\n", "x\t0\t-1\tname\n", "hello"}) {
    EXPECT_THAT(std::string(ParseProfile(text).status().message()), HasSubstr("line 1 of the profile")) << text;
  }
}

}  // namespace
}  // namespace cotan::tools
