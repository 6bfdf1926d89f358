// SPDX-License-Identifier: Apache-2.0

// Aliases and mutations of a method: the typed form of serialization::ViewAndMutationMeta.
//
//   COTAN_ASSIGN_OR_RETURN(auto meta, ViewAndMutationMeta::FromProto(method.metadata()));
//   for (int i : meta.derived().mutated_inp_runtime_indices) WriteBack(meta.input(i), ...);
#ifndef COTAN_SERIALIZATION_METADATA_VIEW_AND_MUTATION_META_H_
#define COTAN_SERIALIZATION_METADATA_VIEW_AND_MUTATION_META_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "serialization/metadata/derived_metadata.h"
#include "serialization/metadata/view_and_mutation_facts.h"
#include "serialization/schema/metadata.pb.h"

namespace cotan {

// Validated fields and the metadata derived from them. Immutable, hence thread-safe; copyable. It holds no
// tensors and does not refer to a program, so the reference's make_runtime_safe() has no counterpart.
class ViewAndMutationMeta {
 public:
  // Metadata of a function without inputs and outputs.
  ViewAndMutationMeta() = default;

  // Validates `facts`. InvalidArgument: ViewAndMutationMetaFields::Validate() fails.
  static absl::StatusOr<ViewAndMutationMeta> Create(ViewAndMutationMetaFields facts);

  // Converts and validates. InvalidArgument, with the field's path ("output_info[2].base_index: ..."):
  // Create() fails, or a number or text is malformed. Unimplemented: an enumerator or kind of a newer
  // version.
  static absl::StatusOr<ViewAndMutationMeta> FromProto(const serialization::ViewAndMutationMeta& proto);
  serialization::ViewAndMutationMeta ToProto() const;

  const ViewAndMutationMetaFields& facts() const { return facts_; }
  const DerivedMetadata& derived() const { return derived_; }

  int num_inputs() const { return static_cast<int>(facts_.input_info.size()); }
  int num_outputs() const { return derived_.num_outputs; }
  int num_tokens() const { return static_cast<int>(facts_.tokens.size()); }
  const InputAliasInfo& input(int i) const { return facts_.input_info[static_cast<size_t>(i)]; }
  const OutputAliasInfo& output(int i) const { return facts_.output_info[static_cast<size_t>(i)]; }

  // Returns InvalidArgument unless the function has these numbers of inputs and outputs.
  absl::Status Verify(int num_inputs, int num_outputs) const;

  // Returns a description of several lines, each starting with `indent`. Names are indexed by input and
  // output, and may be missing.
  //
  //   training; the program may write inputs itself
  //   inputs 0-3 "conv.weight" ... "bn.bias": leaf, requires grad, not mutated
  //   input 4 "bn.running_mean": leaf, mutates data, written by the program
  //   output 0 "loss": non_alias, requires grad
  //   saved for the backward: 5 tensors (forward returns 1-5), 2 donated
  std::string ToString(absl::Span<const std::string> input_names = {}, absl::Span<const std::string> output_names = {},
                       absl::string_view indent = "") const;

  // Compares all fields.
  friend bool operator==(const ViewAndMutationMeta& a, const ViewAndMutationMeta& b) { return a.facts_ == b.facts_; }

 private:
  explicit ViewAndMutationMeta(ViewAndMutationMetaFields facts)
      : facts_(std::move(facts)), derived_(DerivedMetadata::Of(facts_)) {}

  ViewAndMutationMetaFields facts_;
  DerivedMetadata derived_;
};

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_METADATA_VIEW_AND_MUTATION_META_H_
