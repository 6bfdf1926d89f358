// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/view_replay.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::conformance {
namespace {

using ::testing::HasSubstr;

// An input of 2 x 3 elements, and the part of its second row from column 1 on.
const char kEager[] = R"({
  "inputs_after": [{"dtype": "float32", "size": [2, 3], "stride": [3, 1], "offset": 0}],
  "outputs": [{"dtype": "float32", "size": [2], "stride": [1], "offset": 4}]})";

ViewAndMutationMeta WithOutput(OutputAliasInfo output, bool moves_input = false) {
  InputAliasInfo input;
  input.mutates_metadata = moves_input;
  ViewAndMutationMetaFields facts;
  facts.input_info = {input};
  facts.output_info = {std::move(output)};
  return *ViewAndMutationMeta::Create(std::move(facts));
}

OutputAliasInfo ViewOfInput(std::vector<ViewStep> steps) {
  OutputAliasInfo output;
  output.output_type = OutputType::kAliasOfInput;
  output.base_index = 0;
  output.view_steps = std::move(steps);
  return output;
}

Differences Compared(const ViewAndMutationMeta& meta) {
  Differences differences;
  CompareViewArguments(meta, 0, Json::parse(kEager), {}, differences);
  return differences;
}

TEST(ViewReplayTest, StepsThatLeadToTheOutputAgree) {
  const Differences differences = Compared(WithOutput(ViewOfInput({view::Select{0, 1}, view::Slice{0, 1, 3, 1}})));
  EXPECT_TRUE(differences.none()) << differences.first();
  EXPECT_TRUE(differences.not_compared().empty());
}

TEST(ViewReplayTest, AnotherArgumentOfAStepIsADifference) {
  const Differences differences = Compared(WithOutput(ViewOfInput({view::Select{0, 0}, view::Slice{0, 1, 3, 1}})));
  EXPECT_THAT(differences.first(), HasSubstr("f32[2]{1}+1 instead of f32[2]{1}+4"));
}

TEST(ViewReplayTest, AnInvalidStepIsADifference) {
  EXPECT_THAT(Compared(WithOutput(ViewOfInput({view::Select{0, 7}}))).first(), HasSubstr("INVALID_ARGUMENT"));
}

TEST(ViewReplayTest, AMetadataMutatedInputIsNotCompared) {
  const Differences differences = Compared(WithOutput(ViewOfInput({view::Select{0, 0}}), /*moves_input=*/true));
  EXPECT_TRUE(differences.none());
  EXPECT_EQ(differences.not_compared().size(), 1u);
}

}  // namespace
}  // namespace cotan::conformance
