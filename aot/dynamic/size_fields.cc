// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/size_fields.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "serialization/schema/op_kind.h"

namespace cotan::aot {
namespace {

using serialization::Expr;
using serialization::FlatMeta;
using serialization::Method;
using serialization::Op;
using serialization::OutputAliasInfo;
using serialization::TensorGeometry;
using serialization::ViewAndMutationMeta;
using serialization::ViewStep;
using serialization::WrapperMeta;

class Collector {
 public:
  std::vector<SizeField> Collect(Method& method) {
    for (int i = 0; i < method.values_size(); ++i) {
      serialization::Value& value = *method.mutable_values(i);
      where_ = absl::StrCat("value ", i, value.name().empty() ? "" : absl::StrCat(" '", value.name(), "'"));
      AddAll(value.mutable_type()->mutable_sizes());
    }
    for (int i = 0; i < method.ops_size(); ++i) {
      where_ = OpText(method, i);
      AddOp(*method.mutable_ops(i));
    }
    where_ = "its random numbers";
    if (!method.rng_blocks().empty()) Add(method.mutable_rng_blocks());
    if (method.has_metadata()) AddMetadata(*method.mutable_metadata());
    if (method.has_program_metadata()) AddMetadata(*method.mutable_program_metadata());
    if (method.has_input_binding()) AddBinding(*method.mutable_input_binding());
    return std::move(fields_);
  }

 private:
  using Texts = google::protobuf::RepeatedPtrField<std::string>;

  void Add(std::string* text) { fields_.push_back({text, where_}); }
  void AddAll(Texts* texts) {
    for (std::string& text : *texts) Add(&text);
  }

  void AddOp(Op& op) {
    if (op.has_expr()) AddExpr(*op.mutable_expr());
    if (op.has_matmul() && op.matmul().has_epilogue()) AddExpr(*op.mutable_matmul()->mutable_epilogue());
    if (op.has_call()) Add(op.mutable_call()->mutable_slice());
    if (op.has_checked_index()) Add(op.mutable_checked_index()->mutable_size());
    if (!op.has_view()) return;
    for (ViewStep& step : *op.mutable_view()->mutable_steps()) AddStep(step);
  }

  void AddExpr(Expr& expr) {
    AddAll(expr.mutable_domain_sizes());
    for (serialization::ExprInstruction& instruction : *expr.mutable_instructions()) {
      if (instruction.fn() == serialization::FN_SIZE) Add(instruction.mutable_size());
      if (instruction.fn() == serialization::FN_RANDOM_UNIFORM) Add(instruction.mutable_slice());
    }
  }

  void AddStep(ViewStep& step) {
    switch (step.kind_case()) {
      case ViewStep::kView:
        return AddAll(step.mutable_view()->mutable_sizes());
      case ViewStep::kExpand:
        return AddAll(step.mutable_expand()->mutable_sizes());
      case ViewStep::kSlice:
        Add(step.mutable_slice()->mutable_start());
        Add(step.mutable_slice()->mutable_end());
        return Add(step.mutable_slice()->mutable_step());
      case ViewStep::kSelect:
        return Add(step.mutable_select()->mutable_index());
      case ViewStep::kAsStrided:
        AddAll(step.mutable_as_strided()->mutable_sizes());
        AddAll(step.mutable_as_strided()->mutable_strides());
        return Add(step.mutable_as_strided()->mutable_offset());
      default:
        return;
    }
  }

  void AddGeometry(TensorGeometry& geometry) {
    AddAll(geometry.mutable_sizes());
    AddAll(geometry.mutable_strides());
    Add(geometry.mutable_offset());
  }

  void AddFlat(FlatMeta& flat) {
    if (flat.has_plain() && flat.plain().has_expected()) AddGeometry(*flat.mutable_plain()->mutable_expected());
    if (flat.has_wrapper()) AddWrapper(*flat.mutable_wrapper());
  }

  void AddWrapper(WrapperMeta& wrapper) {
    AddAll(wrapper.mutable_outer_sizes());
    AddAll(wrapper.mutable_outer_strides());
    for (WrapperMeta::Attribute& attribute : *wrapper.mutable_attributes()) {
      if (attribute.has_plain() && attribute.plain().has_expected()) {
        AddGeometry(*attribute.mutable_plain()->mutable_expected());
      }
      if (attribute.has_wrapper()) AddWrapper(*attribute.mutable_wrapper());
    }
  }

  void AddMetadata(ViewAndMutationMeta& metadata) {
    for (int i = 0; i < metadata.input_info_size(); ++i) {
      where_ = absl::StrCat("input ", i);
      if (metadata.input_info(i).has_geometry_after()) {
        AddGeometry(*metadata.mutable_input_info(i)->mutable_geometry_after());
      }
      if (metadata.input_info(i).has_geometry_at_entry()) {
        AddGeometry(*metadata.mutable_input_info(i)->mutable_geometry_at_entry());
      }
      for (ViewStep& step : *metadata.mutable_input_info(i)->mutable_view_steps_after()) AddStep(step);
      if (metadata.input_info(i).new_storage().has_geometry()) {
        AddGeometry(*metadata.mutable_input_info(i)->mutable_new_storage()->mutable_geometry());
      }
      if (metadata.input_info(i).has_gradient_sizes()) {
        AddAll(metadata.mutable_input_info(i)->mutable_gradient_sizes()->mutable_sizes());
      }
    }
    for (int i = 0; i < metadata.output_info_size(); ++i) {
      where_ = absl::StrCat("output ", i);
      OutputAliasInfo& info = *metadata.mutable_output_info(i);
      for (ViewStep& step : *info.mutable_view_steps()) AddStep(step);
      if (info.has_geometry()) AddGeometry(*info.mutable_geometry());
      if (info.non_alias_view().has_hidden_geometry()) {
        AddGeometry(*info.mutable_non_alias_view()->mutable_hidden_geometry());
      }
    }
    for (int i = 0; i < metadata.tangents_size(); ++i) {
      where_ = absl::StrCat("tangent ", i);
      if (metadata.tangents(i).has_expected()) AddGeometry(*metadata.mutable_tangents(i)->mutable_expected());
    }
    where_ = "wrapper tensors";
    for (FlatMeta& flat : *metadata.mutable_input_wrappers()) AddFlat(flat);
    for (FlatMeta& flat : *metadata.mutable_forward_return_wrappers()) AddFlat(flat);
    for (FlatMeta& flat : *metadata.mutable_tangent_wrappers()) AddFlat(flat);
    if (!metadata.has_subclass_meta()) return;
    for (FlatMeta& flat : *metadata.mutable_subclass_meta()->mutable_grad_inputs()) AddFlat(flat);
    AddMetadata(*metadata.mutable_subclass_meta()->mutable_fw_metadata());
  }

  void AddBinding(serialization::InputBinding& binding) {
    where_ = "inputs that share memory";
    for (serialization::InputBinding::InnerInput& inner : *binding.mutable_inner_inputs()) {
      if (inner.has_base_view()) AddGeometry(*inner.mutable_base_view()->mutable_geometry());
    }
    for (serialization::InputBinding::Base& base : *binding.mutable_bases()) AddGeometry(*base.mutable_geometry());
  }

  std::string where_;
  std::vector<SizeField> fields_;
};

}  // namespace

std::vector<SizeField> SizeFieldsOf(Method& method) { return Collector().Collect(method); }

std::string OpText(const Method& method, int op) {
  const Op& message = method.ops(op);
  return absl::StrCat("op ", op, " (", OpKindName(message.kind_case()), ")",
                      message.source().empty() ? "" : absl::StrCat(" from ", message.source()));
}

}  // namespace cotan::aot
