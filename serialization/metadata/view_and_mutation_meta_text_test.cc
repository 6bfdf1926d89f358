// SPDX-License-Identifier: Apache-2.0

#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "serialization/metadata/view_and_mutation_meta.h"

namespace cotan {
namespace {

// Weight and bias of a linear layer, running mean and variance, a batch; the
// loss, a view of the batch and a count.
ViewAndMutationMetaFields Example() {
  ViewAndMutationMetaFields facts;
  facts.keep_input_mutations = true;
  facts.is_train = true;
  facts.deterministic = false;
  facts.input_info.resize(5);
  for (InputAliasInfo& info : facts.input_info) {
    info.is_leaf = true;
    info.keep_input_mutations = true;
  }
  facts.input_info[0].requires_grad = facts.input_info[1].requires_grad = true;
  for (size_t i : {2, 3}) facts.input_info[i].mutates_data = true;
  facts.static_input_indices = {0, 1, 2, 3};
  facts.output_info.resize(3);
  facts.output_info[0].requires_grad = facts.output_info[0].requires_grad_for_backward = true;
  facts.output_info[1].output_type = OutputType::kAliasOfInput;
  facts.output_info[1].base_index = 4;
  facts.output_info[1].view_steps = {view::Permute{{1, 0}}};
  facts.output_info[2].scalar = int64_t{32};
  facts.tangents = {{{ForwardTensor::Kind::kOutput, 0}, {DType::kFloat32, {}, {}, 0}}};
  facts.saved.emplace();
  facts.saved->num_tensors = 2;
  facts.saved->donated = {1};
  facts.tokens = {"ordered"};
  return facts;
}

TEST(ViewAndMutationMetaText, ShowsInputsOutputsAndWhatIsSaved) {
  const std::vector<std::string> inputs = {"fc.weight", "fc.bias", "bn.running_mean", "bn.running_var", "batch"};
  const std::vector<std::string> outputs = {"loss", "view"};
  EXPECT_EQ(ViewAndMutationMeta::Create(Example())->ToString(inputs, outputs, "  "),
            R"(  training; the program may write inputs itself; not deterministic
  inputs 0-1 "fc.weight" ... "fc.bias": leaf, requires grad, not mutated, static
  input 2 "bn.running_mean": leaf, mutates data, hidden from autograd, written by the program, static
  input 3 "bn.running_var": leaf, mutates data, hidden from autograd, written by the program, static
  input 4 "batch": leaf, not mutated
  output 0 "loss": non_alias, requires grad
  output 1 "view": alias_of_input 4 through permute(1, 0)
  output 2: the value 32
  tangent 0 of output 0: f32[]{}
  effects: ordered
  saved for the backward: 2 tensors (forward returns 3-4), donated: 1
)");
}

TEST(ViewAndMutationMetaText, WorksWithoutNames) {
  ViewAndMutationMetaFields facts;
  facts.input_info.resize(2);
  facts.grad_enabled_mutation = false;
  facts.output_info.resize(1);
  facts.output_info[0].output_type = OutputType::kAliasOfIntermediateSaveAsOutput;
  facts.output_info[0].base_index = 0;
  facts.num_intermediate_bases = 1;
  EXPECT_EQ(ViewAndMutationMeta::Create(facts)->ToString(),
            R"(inference; leaves gradients disabled
inputs 0-1: not mutated
output 0: alias_of_intermediate_save_as_output 0
intermediate bases returned: 1
)");
}

TEST(ViewAndMutationMetaText, ShowsHowWrappersAreMade) {
  ViewAndMutationMetaFields facts;
  facts.input_info.resize(1);
  WrapperMeta wrapper;
  wrapper.type_name = "low_rank";
  wrapper.flat_count = 2;
  wrapper.attributes = {{"left", PlainTensorMeta{0, {}}}, {"right", PlainTensorMeta{1, {}}}};
  facts.input_wrappers = {wrapper};
  ViewAndMutationMetaFields dense;
  dense.input_info.resize(2);
  facts.subclass_meta =
      SubclassMeta{std::make_shared<const ViewAndMutationMeta>(*ViewAndMutationMeta::Create(dense)), {wrapper}};
  EXPECT_EQ(ViewAndMutationMeta::Create(facts)->ToString(),
            R"(inference
input 0: not mutated
input 0 is low_rank{left: flat 0, right: flat 1}
gradient of input 0 is low_rank{left: flat 0, right: flat 1}
)");
}

}  // namespace
}  // namespace cotan
