// The GraphSignature of a traced model says what torch.export said of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "aot/frontend/module.h"
#include "aot/frontend/pt2/model.h"
#include "aot/trace/tracer.h"
#include "testing/models/check.h"

namespace cotan::testing {
namespace {

using aot::pt2::InputSpec;
using aot::pt2::OutputSpec;
using ::testing::ElementsAreArray;
using ::testing::UnorderedElementsAreArray;
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

class SignatureTest : public ::testing::TestWithParam<std::string> {};

TEST_P(SignatureTest, IsThatOfTheArchive) {
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
}

INSTANTIATE_TEST_SUITE_P(All, SignatureTest, ::testing::ValuesIn(FindModels("testing/models/data").value()),
                         [](const auto& info) { return std::filesystem::path(info.param).stem().string(); });

}  // namespace
}  // namespace cotan::testing
