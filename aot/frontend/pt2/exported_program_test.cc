// SPDX-License-Identifier: Apache-2.0

#include "aot/frontend/pt2/exported_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "aot/frontend/pt2/archive_builder.h"

namespace cotan::aot::pt2 {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

absl::StatusOr<ExportedProgram> ParseFiles(const ArchiveFiles& files) {
  return ParseExportedProgram(files[0].second, "models/model.json");
}

// Parses the small model with one piece of its program replaced.
absl::StatusOr<ExportedProgram> ParseWith(const std::string& from, const std::string& to) {
  ArchiveFiles files = SmallModel();
  Replace(files, "m/models/model.json", from, to);
  return ParseFiles(files);
}

void ExpectError(const absl::Status& status, absl::StatusCode code, const std::string& message) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(message));
  EXPECT_THAT(std::string(status.message()), HasSubstr("models/model.json"));
}

TEST(ExportedProgramTest, ReadsGraphSignatureAndSymbols) {
  const auto program = ParseFiles(SmallModel());
  ASSERT_TRUE(program.ok()) << program.status();
  ASSERT_THAT(program->graph.nodes, SizeIs(4));
  EXPECT_EQ(program->graph.nodes[1].target, "torch.ops.aten.linear.default");
  EXPECT_EQ(program->graph.nodes[1].module_path, "fc");
  EXPECT_EQ(program->graph.nodes[1].inputs[1].name, "weight");
  EXPECT_EQ(std::get<Name>(program->graph.nodes[1].inputs[1].value).name, "p_weight");
  ASSERT_THAT(program->inputs, SizeIs(3));
  EXPECT_EQ(program->inputs[0].kind, InputSpec::Kind::kParameter);
  EXPECT_EQ(program->inputs[0].name, "fc.weight");
  EXPECT_EQ(program->inputs[1].kind, InputSpec::Kind::kBuffer);
  EXPECT_FALSE(program->inputs[1].persistent);
  EXPECT_EQ(program->inputs[2].kind, InputSpec::Kind::kUserInput);
  EXPECT_EQ(program->inputs[2].name, "x");
  ASSERT_THAT(program->symbols, SizeIs(1));
  EXPECT_EQ(program->symbols[0].name, "s0");
  EXPECT_EQ(program->symbols[0].min, 2);
  EXPECT_EQ(program->symbols[0].max, 64);
  EXPECT_EQ(program->symbols[0].hint, 2);
  EXPECT_EQ(program->graph.tensor_values.at("x").sizes[0], SymInt::Symbol(0));
  EXPECT_EQ(program->in_spec.ToString(), "((*), {})");
  EXPECT_EQ(program->argument_names, std::vector<std::string>{"x"});
}

TEST(ExportedProgramTest, ReadsEachKindOfArgument) {
  const auto argument = [](const std::string& json) -> Argument {
    const auto program = ParseWith(R"({"as_int": 1}, "kind": 1)", json + R"(, "kind": 1)");
    EXPECT_TRUE(program.ok()) << json << program.status();
    return program.ok() ? program->graph.nodes[0].inputs[1].value : Argument();
  };
  EXPECT_EQ(std::get<int64_t>(argument(R"({"as_int": -7})")), -7);
  EXPECT_EQ(std::get<double>(argument(R"({"as_float": 0.5})")), 0.5);
  EXPECT_EQ(std::get<double>(argument(R"({"as_float": "-Infinity"})")), -INFINITY);
  EXPECT_TRUE(std::isnan(std::get<double>(argument(R"({"as_float": "NaN"})"))));
  EXPECT_EQ(std::get<bool>(argument(R"({"as_bool": true})")), true);
  EXPECT_EQ(std::get<std::string>(argument(R"({"as_string": "mean"})")), "mean");
  EXPECT_TRUE(std::holds_alternative<NoValue>(argument(R"({"as_none": true})")));
  EXPECT_EQ(std::get<DType>(argument(R"({"as_scalar_type": 13})")), DType::kBFloat16);
  EXPECT_EQ(std::get<MemoryFormat>(argument(R"({"as_memory_format": 2})")).code, 2);
  EXPECT_EQ(std::get<Layout>(argument(R"({"as_layout": 7})")).code, 7);
  EXPECT_EQ(std::get<Device>(argument(R"({"as_device": {"type": "cuda", "index": 0}})")).type, "cuda");
  EXPECT_EQ(std::get<std::complex<double>>(argument(R"({"as_complex": {"real": 1.0, "imag": 2.0}})")),
            std::complex<double>(1, 2));
  EXPECT_EQ(std::get<Name>(argument(R"({"as_sym_int": {"as_name": "s"}})")), Name{"s"});
  EXPECT_EQ(std::get<int64_t>(argument(R"({"as_sym_int": {"as_int": 3}})")), 3);
  const auto numbers = std::get<std::vector<Number>>(argument(R"({"as_sym_ints": [{"as_int": 3}, {"as_name": "s"}]})"));
  EXPECT_EQ(numbers, (std::vector<Number>{int64_t{3}, Name{"s"}}));
  EXPECT_EQ(std::get<std::vector<Number>>(argument(R"({"as_ints": [1, 2]})")),
            (std::vector<Number>{int64_t{1}, int64_t{2}}));
  const auto tensors =
      std::get<Tensors>(argument(R"({"as_optional_tensors": [{"as_none": true}, {"as_tensor": {"name": "x"}}]})"));
  EXPECT_EQ(tensors, (Tensors{std::nullopt, Name{"x"}}));
  EXPECT_EQ(std::get<Unsupported>(argument(R"({"as_custom_obj": {"name": "o", "class_fqn": "C"}})")).kind,
            "as_custom_obj");
}

TEST(ExportedProgramTest, RefusesAnotherMajorVersionOfTheSchema) {
  const absl::Status status = ParseWith(R"("major": 8)", R"("major": 9)").status();
  ExpectError(status, absl::StatusCode::kUnimplemented, "version 9.17 of the export schema (torch 2.11.0)");
}

TEST(ExportedProgramTest, TakesANewerMinorVersion) { EXPECT_TRUE(ParseWith(R"("minor": 17)", R"("minor": 99)").ok()); }

TEST(ExportedProgramTest, TellsWhereTheTextDoesNotFitTheSchema) {
  using Code = absl::StatusCode;
  ExpectError(ParseWith(R"("nodes":)", R"("knots":)").status(), Code::kInvalidArgument, "/graph_module/graph");
  ExpectError(ParseWith(R"("as_int": 1)", R"("as_int": "1")").status(), Code::kInvalidArgument,
              "an integer was expected");
  ExpectError(ParseWith(R"("target": "torch)", R"("target": 5, "t": "torch)").status(), Code::kInvalidArgument,
              "/target");
  ExpectError(ParseWith(R"({"as_int": 1}, "kind")", R"({}, "kind")").status(), Code::kInvalidArgument,
              "exactly one member");
  ExpectError(ParseWith("[1, {", "[2, {").status(), Code::kUnimplemented, "version 2 of the tree format");
  ExpectError(ParseWith(R"("dtype": 7)", R"("dtype": 31)").status(), Code::kUnimplemented, "dtype with number 31");
  ExpectError(ParseWith(R"("layout": 7)", R"("layout": 1)").status(), Code::kUnimplemented, "sparse");
  ExpectError(ParseWith("Symbol('s0', positive=True, integer=True)", "Symbol(").status(), Code::kInvalidArgument,
              "is not understood");
  ExpectError(ParseExportedProgram("{", "models/model.json").status(), Code::kInvalidArgument, "is damaged");
  ExpectError(ParseExportedProgram("[]", "models/model.json").status(), Code::kInvalidArgument, "is damaged");
  ExpectError(ParseExportedProgram(std::string(1 << 20, '['), "models/model.json").status(), Code::kInvalidArgument,
              "is damaged");
}

TEST(ExportedProgramTest, ReadsKeysOfDictionaries) {
  const auto with_keys = [](const std::string& keys) {
    const std::string leaf = R"({\"type\": null, \"context\": null, \"children_spec\": []})";
    return ParseWith(R"("out_spec": "[1, )" + leaf,
                     R"("out_spec": "[1, {\"type\": \"builtins.dict\", \"context\": \")" + keys +
                         R"(\", \"children_spec\": [)" + leaf + "]}");
  };
  EXPECT_THAT(with_keys(R"([\\\"a\\\"])")->out_spec.keys, ElementsAre("a"));
  EXPECT_THAT(with_keys("[7]")->out_spec.keys, ElementsAre("7"));
  EXPECT_THAT(with_keys("[[1, [2]]]")->out_spec.keys, ElementsAre("[1,[2]]"));
  ExpectError(with_keys("[{}]").status(), absl::StatusCode::kInvalidArgument, "was expected as a key");
  ExpectError(with_keys(std::string(100000, '[') + std::string(100000, ']')).status(), absl::StatusCode::kUnimplemented,
              "keys nested deeper than 16");
}

TEST(ExportedProgramTest, ASizeWithinTheGraphMayBeAFunctionThatProgramsDoNotHave) {
  const std::string symbol = "Symbol('s0', positive=True, integer=True)";
  const std::string fraction = "TruncToInt(Mul(Float('0.5', precision=53), " + symbol + "))";
  ArchiveFiles files = SmallModel();
  const std::string relu = R"("relu": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": ")";
  Replace(files, "m/models/model.json", relu + symbol, relu + fraction);
  const auto program = ParseFiles(files);
  ASSERT_TRUE(program.ok()) << program.status();
  const SymInt& size = program->graph.tensor_values.at("relu").sizes[0];
  ASSERT_EQ(size.kind(), SymInt::Kind::kSymbol);
  EXPECT_EQ(program->symbols[static_cast<size_t>(size.symbol())].hint, 2);
  EXPECT_EQ(program->graph.tensor_values.at("x").sizes[0], SymInt::Symbol(0));

  const std::string x = R"("x": {"dtype": 7, "sizes": [{"as_expr": {"expr_str": ")";
  Replace(files, "m/models/model.json", x + symbol, x + fraction);
  ExpectError(ParseFiles(files).status(), absl::StatusCode::kUnimplemented, "a number that is not an integer");
}

TEST(ExportedProgramTest, RefusesInputsAndOutputsThatCannotBeCompiled) {
  ExpectError(ParseWith(R"({"user_input": {"arg": {"as_tensor": {"name": "x"}}}})",
                        R"({"custom_obj": {"arg": {"name": "x", "class_fqn": "C"}, "custom_obj_name": "o"}})")
                  .status(),
              absl::StatusCode::kUnimplemented, "an input of kind 'custom_obj'");
  ExpectError(ParseWith(R"({"user_output": {"arg": {"as_tensor": {"name": "relu"}}}})",
                        R"({"gradient_to_parameter": {"arg": {"name": "relu"}, "parameter_name": "fc.weight"}})")
                  .status(),
              absl::StatusCode::kUnimplemented, "already holds a backward pass");
}

TEST(ExportedProgramTest, ReadsTheConfigurationOfWeights) {
  const auto payloads = ParsePayloadConfig(SmallModel()[1].second, "weights.json");
  ASSERT_TRUE(payloads.ok()) << payloads.status();
  ASSERT_THAT(*payloads, SizeIs(1));
  EXPECT_EQ((*payloads)[0].name, "fc.weight");
  EXPECT_EQ((*payloads)[0].path_name, "weight_0");
  EXPECT_FALSE((*payloads)[0].use_pickle);
  EXPECT_EQ((*payloads)[0].tensor_meta->sizes, (SymIntVector{4, 3}));
  EXPECT_FALSE(ParsePayloadConfig("{}", "weights.json").ok());
}

}  // namespace
}  // namespace cotan::aot::pt2
