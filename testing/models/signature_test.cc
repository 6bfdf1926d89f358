// SPDX-License-Identifier: Apache-2.0

// The GraphSignature of a compiled model agrees with that of torch.export in its archive, and with what PyTorch
// recorded beside the archive: gradients by parameter, and NAME.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "aot/compile.h"
#include "aot/frontend/pt2/model.h"
#include "nlohmann/json.hpp"
#include "serialization/container/container.h"
#include "serialization/metadata/graph_signature.h"
#include "testing/models/check.h"
#include "testing/models/golden.h"

namespace cotan::testing {
namespace {

using aot::pt2::InputSpec;
using aot::pt2::OutputSpec;
using ::testing::UnorderedElementsAreArray;
using Json = nlohmann::json;
using Names = std::vector<std::string>;

Names InputsOf(const aot::pt2::ExportedProgram& program, InputSpec::Kind kind) {
  Names names;
  for (const InputSpec& input : program.inputs) {
    if (input.kind == kind) names.push_back(input.name);
  }
  return names;
}

Names TargetsOf(const aot::pt2::ExportedProgram& program, OutputSpec::Kind kind) {
  Names names;
  for (const OutputSpec& output : program.outputs) {
    if (output.kind == kind) names.push_back(output.target);
  }
  return names;
}

Names TargetsOf(const std::vector<NamedTarget>& pairs) {
  Names names;
  for (const NamedTarget& pair : pairs) names.push_back(pair.target);
  return names;
}

// "data/net" of "data/net.pt2" and of "data/net_func.pt2", its functional form.
std::string RecordOf(const std::string& archive) {
  std::string path = archive.substr(0, archive.size() - std::string(".pt2").size());
  if (absl::EndsWith(path, "_func")) path.resize(path.size() - std::string("_func").size());
  return path;
}

// Expects a gradient for every parameter and, if PyTorch recorded values, mutations of exactly the
// recorded buffers.
void ExpectAsRecorded(const GraphSignature& signature, const Names& mutated, const std::string& record) {
  const Json manifest = Json::parse(std::ifstream(record + ".json"));
  const Json& exported = manifest["export"]["signature"];
  EXPECT_EQ(static_cast<int>(signature.parameters.size()), exported["parameters"].get<int>());
  EXPECT_EQ(static_cast<int>(signature.buffers.size()), exported["buffers"].get<int>());
  EXPECT_EQ(static_cast<int>(signature.user_inputs.size()), exported["user_inputs"].get<int>());
  EXPECT_EQ(static_cast<int>(signature.user_inputs.size()), static_cast<int>(manifest["inputs"].size()));
  const auto golden = LoadGolden(record + ".safetensors", record + ".json");
  ASSERT_TRUE(golden.ok()) << golden.status();
  if (!golden->has_values) return;
  EXPECT_EQ(static_cast<int>(signature.user_outputs.size()), static_cast<int>(manifest["outputs"].size()));
  Names with_gradient = manifest["without_gradient"].get<Names>();
  for (const auto& [parameter, gradient] : golden->gradients) with_gradient.push_back(parameter);
  EXPECT_THAT(signature.parameters, UnorderedElementsAreArray(with_gradient));
  EXPECT_THAT(mutated, UnorderedElementsAreArray(manifest["mutated_buffers"].get<Names>()));
}

class SignatureTest : public ::testing::TestWithParam<std::string> {};

TEST_P(SignatureTest, AgreesWithTorchExport) {
  const auto model = aot::pt2::Model::Load(GetParam());
  ASSERT_TRUE(model.ok()) << model.status();
  const aot::pt2::ExportedProgram& program = model->program();
  const auto examples = model->ExampleInputs();
  ASSERT_TRUE(examples.ok()) << examples.status();
  aot::CompileOptions options;
  options.debug.store_references = false;
  const auto compiled = aot::CompilePt2(*model, *examples, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto file = ArtifactFile::Parse(compiled->bytes());
  ASSERT_TRUE(file.ok()) << file.status();
  const auto signature = GraphSignature::FromProto(file->artifact().methods(0).signature());
  ASSERT_TRUE(signature.ok()) << signature.status();

  EXPECT_EQ(signature->parameters, InputsOf(program, InputSpec::Kind::kParameter));
  EXPECT_EQ(signature->buffers, InputsOf(program, InputSpec::Kind::kBuffer));
  EXPECT_EQ(TargetsOf(signature->inputs_to_parameters), signature->parameters);
  EXPECT_EQ(TargetsOf(signature->inputs_to_buffers), signature->buffers);
  EXPECT_EQ(signature->user_inputs.size(), InputsOf(program, InputSpec::Kind::kUserInput).size());
  EXPECT_EQ(signature->user_outputs.size(), TargetsOf(program, OutputSpec::Kind::kUserOutput).size() +
                                                TargetsOf(program, OutputSpec::Kind::kLoss).size());
  // All arguments and results of these models are tensors.
  EXPECT_EQ(signature->in_spec, program.in_spec);
  EXPECT_EQ(signature->out_spec, program.out_spec);
  // Before run_decompositions() a batch norm is one op, and the archive does not
  // say what it writes.
  const Names expected = TargetsOf(program, OutputSpec::Kind::kBufferMutation);
  if (!expected.empty()) {
    EXPECT_THAT(TargetsOf(signature->buffers_to_mutate), UnorderedElementsAreArray(expected));
  }
  EXPECT_EQ(signature->user_inputs_to_mutate.size(), TargetsOf(program, OutputSpec::Kind::kUserInputMutation).size());
  ExpectAsRecorded(*signature, TargetsOf(signature->buffers_to_mutate), RecordOf(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(All, SignatureTest, ::testing::ValuesIn(FindModels("testing/models/data").value()),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

}  // namespace
}  // namespace cotan::testing
