// SPDX-License-Identifier: Apache-2.0

#include "serialization/metadata/view_and_mutation_meta.h"

#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/schema/field.h"

namespace cotan {
namespace {

using ProtoMeta = serialization::ViewAndMutationMeta;

absl::StatusOr<ForwardTensor> ParseSource(const serialization::TangentMeta& proto, const std::string& field) {
  using serialization::TangentMeta;
  ForwardTensor source;
  uint32_t index = 0;
  switch (proto.source_case()) {
    case TangentMeta::kMutatedInput:
      source.kind = ForwardTensor::Kind::kMutatedInput;
      index = proto.mutated_input();
      break;
    case TangentMeta::kOutput:
      source.kind = ForwardTensor::Kind::kOutput;
      index = proto.output();
      break;
    case TangentMeta::kIntermediateBase:
      source.kind = ForwardTensor::Kind::kIntermediateBase;
      index = proto.intermediate_base();
      break;
    case TangentMeta::SOURCE_NOT_SET:
      return InvalidField(field, "is not set");
  }
  COTAN_ASSIGN_OR_RETURN(source.index, ParseCount(field, index));
  return source;
}

absl::StatusOr<TangentMeta> ParseTangent(const serialization::TangentMeta& proto, const std::string& field) {
  TangentMeta tangent;
  COTAN_ASSIGN_OR_RETURN(tangent.source, ParseSource(proto, absl::StrCat(field, ".source")));
  COTAN_ASSIGN_OR_RETURN(tangent.expected,
                         TensorGeometry::FromProto(proto.expected(), absl::StrCat(field, ".expected")));
  return tangent;
}

serialization::TangentMeta TangentToProto(const TangentMeta& tangent) {
  serialization::TangentMeta proto;
  const uint32_t index = static_cast<uint32_t>(tangent.source.index);
  switch (tangent.source.kind) {
    case ForwardTensor::Kind::kMutatedInput:
      proto.set_mutated_input(index);
      break;
    case ForwardTensor::Kind::kOutput:
      proto.set_output(index);
      break;
    case ForwardTensor::Kind::kIntermediateBase:
      proto.set_intermediate_base(index);
      break;
  }
  *proto.mutable_expected() = tangent.expected.ToProto();
  return proto;
}

absl::Status ParseInputsAndOutputs(const ProtoMeta& proto, ViewAndMutationMetaFields& facts) {
  for (int i = 0; i < proto.input_info_size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(InputAliasInfo info,
                           InputAliasInfo::FromProto(proto.input_info(i), Element("input_info", i)));
    facts.input_info.push_back(info);
  }
  for (int i = 0; i < proto.output_info_size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(OutputAliasInfo info,
                           OutputAliasInfo::FromProto(proto.output_info(i), Element("output_info", i)));
    facts.output_info.push_back(std::move(info));
  }
  for (int i = 0; i < proto.tangents_size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(TangentMeta tangent, ParseTangent(proto.tangents(i), Element("tangents", i)));
    facts.tangents.push_back(std::move(tangent));
  }
  return absl::OkStatus();
}

absl::Status ParseWrappers(const ProtoMeta& proto, ViewAndMutationMetaFields& facts) {
  COTAN_ASSIGN_OR_RETURN(facts.input_wrappers, ParseFlatMetas(proto.input_wrappers(), "input_wrappers"));
  COTAN_ASSIGN_OR_RETURN(facts.forward_return_wrappers,
                         ParseFlatMetas(proto.forward_return_wrappers(), "forward_return_wrappers"));
  COTAN_ASSIGN_OR_RETURN(facts.tangent_wrappers, ParseFlatMetas(proto.tangent_wrappers(), "tangent_wrappers"));
  if (!proto.has_subclass_meta()) return absl::OkStatus();

  const ProtoMeta& dense = proto.subclass_meta().fw_metadata();
  // Checked before the recursion, whose depth a malicious file could otherwise control.
  if (dense.has_subclass_meta()) {
    return InvalidField("subclass_meta.fw_metadata.subclass_meta", "must not be set: flat values cannot be wrappers");
  }
  absl::StatusOr<ViewAndMutationMeta> fw_metadata = ViewAndMutationMeta::FromProto(dense);
  if (!fw_metadata.ok()) {
    return absl::Status(fw_metadata.status().code(),
                        absl::StrCat("subclass_meta.fw_metadata.", fw_metadata.status().message()));
  }
  SubclassMeta meta;
  meta.fw_metadata = std::make_shared<const ViewAndMutationMeta>(*std::move(fw_metadata));
  COTAN_ASSIGN_OR_RETURN(meta.grad_inputs,
                         ParseFlatMetas(proto.subclass_meta().grad_inputs(), "subclass_meta.grad_inputs"));
  facts.subclass_meta = std::move(meta);
  return absl::OkStatus();
}

absl::Status ParseIndexLists(const ProtoMeta& proto, ViewAndMutationMetaFields& facts) {
  COTAN_ASSIGN_OR_RETURN(facts.static_input_indices,
                         ParseIndexes("static_input_indices", proto.static_input_indices()));
  COTAN_ASSIGN_OR_RETURN(facts.backward_mutated_inputs,
                         ParseIndexes("backward_mutated_inputs", proto.backward_mutated_inputs()));
  COTAN_ASSIGN_OR_RETURN(facts.indices_of_inputs_to_detach,
                         ParseIndexes("indices_of_inputs_to_detach", proto.indices_of_inputs_to_detach()));
  return absl::OkStatus();
}

void WrappersToProto(const ViewAndMutationMetaFields& facts, ProtoMeta& proto) {
  for (const FlatMeta& meta : facts.input_wrappers) {
    *proto.add_input_wrappers() = cotan::ToProto(meta);
  }
  for (const FlatMeta& meta : facts.forward_return_wrappers) {
    *proto.add_forward_return_wrappers() = cotan::ToProto(meta);
  }
  for (const FlatMeta& meta : facts.tangent_wrappers) {
    *proto.add_tangent_wrappers() = cotan::ToProto(meta);
  }
  if (!facts.subclass_meta.has_value()) return;
  *proto.mutable_subclass_meta()->mutable_fw_metadata() = facts.subclass_meta->fw_metadata->ToProto();
  for (const FlatMeta& meta : facts.subclass_meta->grad_inputs) {
    *proto.mutable_subclass_meta()->add_grad_inputs() = cotan::ToProto(meta);
  }
}

}  // namespace

absl::StatusOr<ViewAndMutationMeta> ViewAndMutationMeta::Create(ViewAndMutationMetaFields facts) {
  COTAN_RETURN_IF_ERROR(facts.Validate());
  return ViewAndMutationMeta(std::move(facts));
}

absl::StatusOr<ViewAndMutationMeta> ViewAndMutationMeta::FromProto(const ProtoMeta& proto) {
  ViewAndMutationMetaFields facts;
  COTAN_RETURN_IF_ERROR(ParseInputsAndOutputs(proto, facts));
  COTAN_RETURN_IF_ERROR(ParseWrappers(proto, facts));
  COTAN_RETURN_IF_ERROR(ParseIndexLists(proto, facts));
  COTAN_ASSIGN_OR_RETURN(facts.num_intermediate_bases,
                         ParseCount("num_intermediate_bases", proto.num_intermediate_bases()));
  COTAN_ASSIGN_OR_RETURN(facts.num_backward_tokens, ParseCount("num_backward_tokens", proto.num_backward_tokens()));
  facts.keep_input_mutations = proto.keep_input_mutations();
  facts.is_train = proto.is_train();
  if (proto.has_grad_enabled_mutation()) {
    facts.grad_enabled_mutation = proto.grad_enabled_mutation();
  }
  if (proto.has_deterministic()) facts.deterministic = proto.deterministic();
  if (proto.has_saved()) {
    COTAN_ASSIGN_OR_RETURN(facts.saved, SavedForBackward::FromProto(proto.saved(), "saved"));
  }
  facts.tokens.assign(proto.tokens().begin(), proto.tokens().end());
  return Create(std::move(facts));
}

serialization::ViewAndMutationMeta ViewAndMutationMeta::ToProto() const {
  ProtoMeta proto;
  for (const InputAliasInfo& info : facts_.input_info) *proto.add_input_info() = info.ToProto();
  for (const OutputAliasInfo& info : facts_.output_info) *proto.add_output_info() = info.ToProto();
  for (const TangentMeta& tangent : facts_.tangents) *proto.add_tangents() = TangentToProto(tangent);
  WrappersToProto(facts_, proto);
  AddIndexes(facts_.static_input_indices, proto.mutable_static_input_indices());
  AddIndexes(facts_.backward_mutated_inputs, proto.mutable_backward_mutated_inputs());
  AddIndexes(facts_.indices_of_inputs_to_detach, proto.mutable_indices_of_inputs_to_detach());
  proto.set_num_intermediate_bases(static_cast<uint32_t>(facts_.num_intermediate_bases));
  proto.set_num_backward_tokens(static_cast<uint32_t>(facts_.num_backward_tokens));
  proto.set_keep_input_mutations(facts_.keep_input_mutations);
  proto.set_is_train(facts_.is_train);
  if (facts_.grad_enabled_mutation.has_value()) {
    proto.set_grad_enabled_mutation(*facts_.grad_enabled_mutation);
  }
  if (facts_.deterministic.has_value()) proto.set_deterministic(*facts_.deterministic);
  if (facts_.saved.has_value()) *proto.mutable_saved() = facts_.saved->ToProto();
  for (const std::string& token : facts_.tokens) proto.add_tokens(token);
  return proto;
}

absl::Status ViewAndMutationMeta::Verify(int num_inputs, int num_outputs) const {
  if (num_inputs != this->num_inputs()) {
    return InvalidField("input_info", this->num_inputs(), " entries, but the function has ", num_inputs, " inputs");
  }
  if (num_outputs != this->num_outputs()) {
    return InvalidField("output_info", this->num_outputs(), " entries, but the function has ", num_outputs, " outputs");
  }
  return absl::OkStatus();
}

}  // namespace cotan
