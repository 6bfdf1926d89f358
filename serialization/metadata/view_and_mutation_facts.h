// What AOTAutograd's analysis records about a traced function, as plain data
// that the compiler fills in step by step. ViewAndMutationMeta is made of it
// when it is complete.
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

// A tensor that the forward gives to autograd.
struct ForwardTensor {
  enum class Kind : uint8_t { kMutatedInput, kOutput, kIntermediateBase };
  Kind kind = Kind::kOutput;
  int index = 0;  // of an input, output or intermediate base, by kind
  friend bool operator==(const ForwardTensor&, const ForwardTensor&) = default;
};

// "output 2".
std::string ToString(const ForwardTensor& tensor);

// A gradient that enters the backward; see serialization::TangentMeta.
struct TangentMeta {
  ForwardTensor source;
  TensorGeometry expected;
  std::string origin;
  friend bool operator==(const TangentMeta&, const TangentMeta&) = default;
};

// The program on flat values; see serialization::SubclassMeta.
struct SubclassMeta {
  std::shared_ptr<const ViewAndMutationMeta> fw_metadata;  // not null
  std::vector<FlatMeta> grad_inputs;
  friend bool operator==(const SubclassMeta& a, const SubclassMeta& b);
};

// A value type; the members are explained at the fields of
// serialization::ViewAndMutationMeta.
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
  bool is_rng_op_functionalized = false;
  std::vector<int> indices_of_inputs_to_detach;
  std::optional<SubclassMeta> subclass_meta;

  // InvalidArgument, naming the field, for facts that contradict each other:
  //   - what InputAliasInfo, OutputAliasInfo, SavedForBackward and
  //     ValidateFlatMetas() refuse of their parts;
  //   - an input whose keep_input_mutations differs from the function's;
  //   - a base_index that is no input, intermediate base or other output;
  //     without wrapper types, intermediate bases that are not introduced one
  //     after another by outputs of type ALIAS_OF_INTERMEDIATE_SAVE_AS_OUTPUT;
  //   - a shared storage of no input, intermediate base or earlier output in
  //     fresh memory;
  //   - tangents that are not those of the inputs and outputs, in order, or
  //     that are not floating point;
  //   - lists of indexes that do not ascend or leave their index space; lists
  //     that have another length than what they describe;
  //   - saved values of a function that was not traced for training;
  //   - a detached input that is a leaf or requires no grad;
  //   - wrapper types without the program on flat values, or the reverse, or
  //     one of another number of inputs or outputs.
  absl::Status Validate() const;

  friend bool operator==(const ViewAndMutationMetaFields&, const ViewAndMutationMetaFields&) = default;
};

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_VIEW_AND_MUTATION_FACTS_H_
