// SPDX-License-Identifier: Apache-2.0

// Fields of ViewAndMutationMeta as plain data that the compiler fills in step by step.
// ViewAndMutationMeta::Create() validates the complete fields.
#ifndef COTAN_SERIALIZATION_METADATA_VIEW_AND_MUTATION_FACTS_H_
#define COTAN_SERIALIZATION_METADATA_VIEW_AND_MUTATION_FACTS_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "serialization/metadata/input_alias_info.h"
#include "serialization/metadata/output_alias_info.h"
#include "serialization/metadata/saved_for_backward.h"
#include "serialization/metadata/tensor_geometry.h"
#include "serialization/metadata/wrapper_meta.h"

namespace cotan {

class ViewAndMutationMeta;

// A tensor that the forward returns to autograd.
struct ForwardTensor {
  enum class Kind : uint8_t { kMutatedInput, kOutput, kIntermediateBase };
  Kind kind = Kind::kOutput;
  int index = 0;  // of an input, output or intermediate base, by kind
  friend bool operator==(const ForwardTensor&, const ForwardTensor&) = default;
};

// Returns "output 2".
std::string ToString(const ForwardTensor& tensor);

// A gradient that enters the backward; documented at serialization::TangentMeta.
struct TangentMeta {
  ForwardTensor source;
  TensorGeometry expected;
  friend bool operator==(const TangentMeta&, const TangentMeta&) = default;
};

// Metadata of the program on flat values; documented at serialization::SubclassMeta.
struct SubclassMeta {
  std::shared_ptr<const ViewAndMutationMeta> fw_metadata;  // not null
  std::vector<FlatMeta> grad_inputs;
  friend bool operator==(const SubclassMeta& a, const SubclassMeta& b);
};

// Typed form of serialization::ViewAndMutationMeta, whose fields document the members.
struct ViewAndMutationMetaFields {
  std::vector<InputAliasInfo> input_info;
  std::vector<OutputAliasInfo> output_info;
  int num_intermediate_bases = 0;
  bool keep_input_mutations = false;
  bool is_train = false;
  std::optional<bool> grad_enabled_mutation;
  std::vector<int> static_input_indices;
  std::optional<bool> deterministic;
  std::vector<TangentMeta> tangents;
  std::vector<FlatMeta> input_wrappers;
  std::vector<FlatMeta> forward_return_wrappers;
  std::vector<FlatMeta> tangent_wrappers;
  std::optional<SavedForBackward> saved;
  std::vector<std::string> tokens;
  int num_backward_tokens = 0;
  std::vector<int> backward_mutated_inputs;
  std::vector<int> indices_of_inputs_to_detach;
  std::optional<SubclassMeta> subclass_meta;

  // Returns InvalidArgument, with the path of the member, for
  //   - errors of InputAliasInfo, OutputAliasInfo and SavedForBackward::Validate() and of ValidateFlatMetas();
  //   - an input whose keep_input_mutations differs from the function's;
  //   - a base_index that is out of the range of inputs, intermediate bases or outputs;
  //   - without wrapper types, intermediate bases that are not introduced one after another by outputs of type
  //     ALIAS_OF_INTERMEDIATE_SAVE_AS_OUTPUT;
  //   - a shared_storage whose owner is not an input, an intermediate base or an earlier NON_ALIAS output;
  //     - tangents that are not those of the inputs and outputs, in order, or that are not floating point;
  //   - lists of indexes that do not ascend or are out of range; lists whose length differs from the number of
  //     things that they describe;
  //   - saved values of a function that was not traced for training;
  //   - an input in indices_of_inputs_to_detach that is a leaf or does not require grad;
  //   - wrapper types without subclass_meta, subclass_meta without wrapper types, or a subclass_meta with another
  //     number of inputs or outputs.
  absl::Status Validate() const;

  friend bool operator==(const ViewAndMutationMetaFields&, const ViewAndMutationMetaFields&) = default;
};

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_VIEW_AND_MUTATION_FACTS_H_
