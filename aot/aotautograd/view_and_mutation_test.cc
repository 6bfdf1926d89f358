// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/view_and_mutation.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "aot/aotautograd/input_mutations.h"
#include "aot/aotautograd/shared_storage.h"
#include "aot/capture/inputs.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/recorder.h"
#include "aot/decompositions/trace_scope.h"

// Tests what only the tracer uses; analyze_function_test.cc tests the analysis.
namespace cotan::aot {
namespace {

using ::testing::ElementsAre;

class ViewAndMutationTest : public ::testing::Test {
 protected:
  at::Tensor Input(at::IntArrayRef sizes, bool requires_grad) {
    const at::Tensor real = [&] {
      const RealScope scope;
      return at::ones(sizes).requires_grad_(requires_grad);
    }();
    return AddInputLike(real, recorder_, 0, "input");
  }

 private:
  const TraceScope scope_{/*grad_enabled=*/true};
  Recorder recorder_;
  const RecordingScope recording_{recorder_};
};

TEST_F(ViewAndMutationTest, GivesTheIntermediateBases) {
  const std::vector<at::Tensor> inputs = {Input({2, 3}, true)};
  const std::vector<InputAtEntry> entry = DescribeInputs(inputs);
  const at::Tensor base = inputs[0] * 2;
  const auto analysis = Analyze(entry, inputs, {base.t(), base.view({6})}, {});
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  ASSERT_EQ(analysis->intermediate_bases.size(), 1u);
  EXPECT_TRUE(analysis->intermediate_bases[0].is_same(base));
}

TEST_F(ViewAndMutationTest, StaticInputsAreThoseOfTheOptions) {
  const std::vector<at::Tensor> inputs = {Input({2}, true), Input({2}, false)};
  AnalysisOptions options;
  options.static_inputs = {0};
  const auto analysis = Analyze(DescribeInputs(inputs), inputs, {}, options);
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  EXPECT_THAT(analysis->facts.static_input_indices, ElementsAre(0));
}

TEST_F(ViewAndMutationTest, SharedStorageFollowsTheTypesOfOutputs) {
  const std::vector<at::Tensor> inputs = {Input({2, 3}, true)};
  const at::Tensor base = inputs[0] * 2;
  const std::vector<at::Tensor> outputs = {base.t(), base.detach()};
  auto analysis = Analyze(DescribeInputs(inputs), inputs, outputs, {});
  ASSERT_TRUE(analysis.ok()) << analysis.status();
  ViewAndMutationMetaFields& facts = analysis->facts;
  EXPECT_EQ(facts.output_info[1].shared_storage, (SharedStorage{SharedStorage::Owner::kIntermediateBase, 0, false}));
  facts.output_info[0] = OutputAliasInfo();
  facts.output_info[0].output_type = OutputType::kUnsafeViewAlias;
  SetSharedStorage(outputs, {}, facts);
  EXPECT_EQ(facts.output_info[1].shared_storage, (SharedStorage{SharedStorage::Owner::kOutput, 0, false}));
}

TEST_F(ViewAndMutationTest, CountsMutationsOfTheBackward) {
  const std::vector<at::Tensor> inputs = {Input({2}, false), Input({2}, false)};
  inputs[0].mul_(2);
  const std::vector<uint64_t> before = MutationCounts(inputs);
  inputs[1].mul_(2);
  EXPECT_THAT(BackwardMutatedInputs(before, MutationCounts(inputs)), ElementsAre(1));
}

}  // namespace
}  // namespace cotan::aot
