// SPDX-License-Identifier: Apache-2.0

// Every function of tensors in docs/aliasing.md: it agrees with eager, and its metadata are those that
// the page names.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "serialization/container/container.h"
#include "serialization/metadata/view_and_mutation_meta.h"
#include "serialization/schema/program.pb.h"
#include "testing/conformance/documented_programs/documented_program.h"
#include "testing/conformance/harness/case_flags.h"
#include "testing/conformance/harness/compiled_case.h"
#include "testing/conformance/harness/conf_case.h"
#include "testing/conformance/harness/custom_functions.h"
#include "testing/conformance/harness/difference.h"
#include "testing/conformance/harness/metadata_check.h"
#include "testing/conformance/harness/modes.h"

namespace cotan::conformance {
namespace {

using at::Tensor;
using serialization::Method;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

using MyFunction = CustomView;

void ExpectNothingElse(const Method&) {}

// A function of the page.
struct Row {
  std::string code;
  ConfCase c;
  // Kinds of its inputs or outputs, as AOTAutograd names them. The heading of its section has them, unless
  // the list is empty.
  std::vector<std::string> kinds;
  std::function<void(const Method&)> expect = ExpectNothingElse;
};

void PrintTo(const Row& row, std::ostream* out) { *out << row.c.name; }

Row MakeRow(const char* name, std::function<Tensors()> inputs, const ExecutedProgram& program,
            std::vector<std::string> kinds, std::function<void(const Method&)> expect = ExpectNothingElse) {
  return {program.code, Case(name, "documented", std::move(inputs), program.function), std::move(kinds),
          std::move(expect)};
}

Tensors ALeaf() { return {leaf(0, {2, 3})}; }
Tensors AComputed() { return {leaf(0, {2, 3}).clone()}; }

void ExpectOneBase(const Method& method) { EXPECT_EQ(method.input_binding().num_bases(), 1u); }

std::vector<Row> RowsAboutInputs() {
  return {
      MakeRow("NotMutated", ALeaf, COTAN_FUNCTION(Tensor f(Tensor x) { return x * 2; }), {"NOT_MUTATED"}),
      MakeRow(
          "MutatedInGraph",
          []() -> Tensors {
            return {buf(0, {2, 3})};
          },
          COTAN_FUNCTION(Tensor f(Tensor counter) {
            counter.add_(1);
            return counter * 2;
          }),
          {"MUTATED_IN_GRAPH"}, [](const Method& method) { EXPECT_EQ(method.input_updates_size(), 1); }),
      MakeRow("MutatedOutGraph", AComputed, COTAN_FUNCTION(Tensor f(Tensor x) {
                x.mul_(2);
                return x + 1;
              }),
              {"MUTATED_OUT_GRAPH"}),
      MakeRow(
          "TheSameTensorTwice",
          []() -> Tensors {
            const Tensor b = leaf(0, {2, 3}).clone();
            return {b, b};
          },
          COTAN_FUNCTION(Tensor f(Tensor x, Tensor y) {
            y.mul_(2);
            return x + y;
          }),
          {}, [](const Method& method) { EXPECT_THAT(method.input_binding().add_dupe_map(), ElementsAre(0, 0)); }),
      MakeRow(
          "ArgumentsThatShareMemory",
          []() -> Tensors {
            const Tensor b = leaf(0, {6}).clone();
            return {b.slice(0, 0, 4), b.slice(0, 2, 6)};
          },
          COTAN_FUNCTION(Tensor f(Tensor x, Tensor y) {
            x.mul_(2);
            return x + y;
          }),
          {}, ExpectOneBase),
  };
}

void ExpectOneIntermediateBase(const Method& method) { EXPECT_EQ(method.metadata().num_intermediate_bases(), 1u); }

std::vector<Row> RowsAboutOutputs() {
  return {
      MakeRow("NonAlias", ALeaf, COTAN_FUNCTION(Tensor f(Tensor x) { return x + 1; }), {"NON_ALIAS"}),
      MakeRow(
          "Detached",
          []() -> Tensors {
            return {buf(0, {2, 3}), leaf(1, {2, 3})};
          },
          COTAN_FUNCTION(Tensor f(Tensor x, Tensor w) {
            Tensor y = x.detach();
            return y.mul_(w);
          }),
          {"NON_ALIAS"},
          [](const Method& method) { EXPECT_TRUE(method.metadata().output_info(0).shared_storage().is_detached()); }),
      MakeRow("AliasOfInput", ALeaf, COTAN_FUNCTION(Tensor f(Tensor x) { return x.view({-1}); }), {"ALIAS_OF_INPUT"}),
      MakeRow("IsInput", AComputed, COTAN_FUNCTION(Tensor f(Tensor x) { return x.mul_(2); }), {"IS_INPUT"}),
      MakeRow("AliasOfIntermediate", ALeaf, COTAN_FUNCTION(std::vector<Tensor> f(Tensor x) {
                Tensor o = x * 2;
                return {o.view({-1}), o.t()};
              }),
              {"ALIAS_OF_INTERMEDIATE_SAVE_AS_OUTPUT", "ALIAS_OF_INTERMEDIATE"}, ExpectOneIntermediateBase),
      MakeRow("AliasOfIntermediateBaseIsUserOutput", ALeaf, COTAN_FUNCTION(std::vector<Tensor> f(Tensor x) {
                Tensor o = x * 2;
                return {o, o.view({-1})};
              }),
              {"ALIAS_OF_INTERMEDIATE_BASE_IS_USER_OUTPUT"}),
      MakeRow("UnsafeViewAlias", ALeaf, COTAN_FUNCTION(Tensor f(Tensor x) { return (x * 2).view({-1}); }),
              {"UNSAFE_VIEW_ALIAS"}),
      MakeRow("CustomFunctionView", ALeaf, COTAN_FUNCTION(Tensor f(Tensor x) { return MyFunction::apply(x); }),
              {"CUSTOM_FUNCTION_VIEW"}),
  };
}

std::vector<Row> Rows() {
  std::vector<Row> all = RowsAboutInputs();
  for (Row& row : RowsAboutOutputs()) all.push_back(std::move(row));
  return all;
}

// Returns the kinds of the inputs and outputs of the method "forward".
std::vector<std::string> KindsOf(const ViewAndMutationMeta& meta) {
  std::vector<std::string> kinds;
  for (const InputAliasInfo& info : meta.facts().input_info) {
    kinds.emplace_back(MutationTypeName(MutationTypeOf(info)));
  }
  for (const OutputAliasInfo& info : meta.facts().output_info) {
    kinds.push_back(absl::AsciiStrToUpper(OutputTypeName(info.output_type)));
  }
  return kinds;
}

class AliasingPageTest : public ::testing::TestWithParam<Row> {};

TEST_P(AliasingPageTest, AgreesWithEager) {
  const Row& row = GetParam();
  Differences differences;
  CheckProgram(row.c, differences);
  EXPECT_TRUE(differences.none()) << row.code << ": " << differences.first();
}

TEST_P(AliasingPageTest, HasTheMetadataOfThePage) {
  const Row& row = GetParam();
  SCOPED_TRACE(row.code);
  const std::string section = FindProgram(ProgramsOfAliasingPage(), row.code).section;
  const absl::StatusOr<std::string> bytes = CompileCase(row.c, /*keep_input_mutations=*/true);
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const absl::StatusOr<ArtifactFile> file = ArtifactFile::Parse(*bytes);
  ASSERT_TRUE(file.ok()) << file.status();
  const Method& forward = file->artifact().methods(0);
  ASSERT_EQ(forward.name(), "forward");
  const absl::StatusOr<ViewAndMutationMeta> meta = ViewAndMutationMeta::FromProto(forward.metadata());
  ASSERT_TRUE(meta.ok()) << meta.status();
  for (const std::string& kind : row.kinds) {
    EXPECT_THAT(section, HasSubstr(absl::StrCat("`", kind, "`")));
    EXPECT_THAT(KindsOf(*meta), ::testing::Contains(kind));
  }
  row.expect(forward);
}

std::string NameOf(const ::testing::TestParamInfo<Row>& info) { return info.param.c.name; }

INSTANTIATE_TEST_SUITE_P(Documented, AliasingPageTest, ::testing::ValuesIn(Rows()), NameOf);

// Functions with effects or wrapper types, and programs that are parts of functions, have tests of their own.
bool IsFunctionOfTensors(const std::string& code) {
  return (absl::StartsWith(code, "Tensorf(Tensor") || absl::StartsWith(code, "std::vector<Tensor>f(Tensor")) &&
         !absl::StrContains(code, "cotan::aot::");
}

TEST(AliasingPageProgramsTest, FunctionsOfTensorsAreThoseThatAreExecuted) {
  std::vector<std::string> executed;
  for (const Row& row : Rows()) executed.push_back(row.code);
  std::vector<std::string> documented;
  for (const DocumentedProgram& program : ProgramsOfAliasingPage()) {
    if (IsFunctionOfTensors(program.code)) documented.push_back(program.code);
  }
  EXPECT_THAT(executed, ::testing::UnorderedElementsAreArray(documented));
}

}  // namespace
}  // namespace cotan::conformance
