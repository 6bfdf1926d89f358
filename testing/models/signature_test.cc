// The GraphSignature of a traced model says what torch.export said of it. The
// archive gives the order of names; that it was read well is shown by what
// PyTorch recorded beside it: gradients by parameter, and NAME.json.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "aot/frontend/module.h"
#include "aot/frontend/pt2/model.h"
#include "aot/trace/tracer.h"
#include "nlohmann/json.hpp"
#include "testing/models/check.h"
#include "testing/models/golden.h"

namespace cotan::testing {
namespace {

using aot::pt2::InputSpec;
using aot::pt2::OutputSpec;
using ::testing::ElementsAreArray;
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

// "data/net" of "data/net.pt2" and of "data/net_func.pt2", its functional form.
std::string RecordOf(const std::string& archive) {
  std::string path = archive.substr(0, archive.size() - std::string(".pt2").size());
  if (absl::EndsWith(path, "_func")) path.resize(path.size() - std::string("_func").size());
  return path;
}

// PyTorch computed a gradient of every parameter and, where it recorded values
// at all, changed exactly the buffers that it names.
void ExpectAsRecorded(const serialization::GraphSignature& signature, const Names& mutated, const std::string& record) {
  const Json manifest = Json::parse(std::ifstream(record + ".json"));
  const Json& exported = manifest["export"]["signature"];
  EXPECT_EQ(signature.parameters_size(), exported["parameters"].get<int>());
  EXPECT_EQ(signature.buffers_size(), exported["buffers"].get<int>());
  EXPECT_EQ(signature.user_inputs_size(), exported["user_inputs"].get<int>());
  EXPECT_EQ(signature.user_inputs_size(), static_cast<int>(manifest["inputs"].size()));
  const auto golden = LoadGolden(record + ".safetensors", record + ".json");
  ASSERT_TRUE(golden.ok()) << golden.status();
  if (!golden->has_values) return;
  EXPECT_EQ(signature.user_outputs_size(), static_cast<int>(manifest["outputs"].size()));
  Names with_gradient = manifest["without_gradient"].get<Names>();
  for (const auto& [parameter, gradient] : golden->gradients) with_gradient.push_back(parameter);
  EXPECT_THAT(Names(signature.parameters().begin(), signature.parameters().end()),
              UnorderedElementsAreArray(with_gradient));
  EXPECT_THAT(mutated, UnorderedElementsAreArray(manifest["mutated_buffers"].get<Names>()));
}

class SignatureTest : public ::testing::TestWithParam<std::string> {};

TEST_P(SignatureTest, IsWhatTorchExportRecorded) {
  const auto model = aot::pt2::Model::Load(GetParam());
  ASSERT_TRUE(model.ok()) << model.status();
  const aot::pt2::ExportedProgram& program = model->program();
  auto module = aot::TraceableModule::FromFunction(model->function(), model->states(), {});
  ASSERT_TRUE(module.ok()) << module.status();
  const auto examples = model->ExampleInputs();
  ASSERT_TRUE(examples.ok()) << examples.status();
  const auto traced = aot::Trace(module->forward(), module->states(), *examples, {});
  ASSERT_TRUE(traced.ok()) << traced.status();

  const serialization::GraphSignature& signature = traced->signature;
  EXPECT_THAT(signature.parameters(), ElementsAreArray(InputsOf(program, InputSpec::Kind::kParameter)));
  EXPECT_THAT(signature.buffers(), ElementsAreArray(InputsOf(program, InputSpec::Kind::kBuffer)));
  EXPECT_EQ(signature.user_inputs_size(), InputsOf(program, InputSpec::Kind::kUserInput).size());
  EXPECT_EQ(signature.user_outputs_size(), TargetsOf(program, OutputSpec::Kind::kUserOutput).size() +
                                               TargetsOf(program, OutputSpec::Kind::kLoss).size());
  Names mutated;
  for (const auto& mutation : signature.buffers_to_mutate()) mutated.push_back(mutation.target());
  // Before run_decompositions() a batch norm is one op, and the archive does not
  // tell what it writes.
  const Names told = TargetsOf(program, OutputSpec::Kind::kBufferMutation);
  if (!told.empty()) {
    EXPECT_THAT(mutated, UnorderedElementsAreArray(told));
  }
  EXPECT_EQ(signature.user_inputs_to_mutate_size(), TargetsOf(program, OutputSpec::Kind::kUserInputMutation).size());
  ExpectAsRecorded(signature, mutated, RecordOf(GetParam()));
}

INSTANTIATE_TEST_SUITE_P(All, SignatureTest, ::testing::ValuesIn(FindModels("testing/models/data").value()),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

}  // namespace
}  // namespace cotan::testing
