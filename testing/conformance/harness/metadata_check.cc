// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/metadata_check.h"

#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string>
#include <vector>

#include "absl/algorithm/container.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/dtype.h"
#include "base/layout.h"
#include "serialization/metadata/view_and_mutation_meta.h"
#include "testing/conformance/harness/binding_check.h"
#include "testing/conformance/harness/partition_check.h"
#include "testing/conformance/harness/view_replay.h"

namespace cotan::conformance {
namespace {

// --- Texts of both sides ----------------------------------------------------

std::string RawTypeName(const OutputAliasInfo& output) {
  static constexpr const char* kNames[] = {"NoneType", "bool", "int", "float", "str", "SymInt"};
  return output.is_tensor() ? "FunctionalTensor" : kNames[output.scalar->index()];
}

std::string GoldenDTypeName(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "float32";
    case DType::kFloat64:
      return "float64";
    case DType::kComplex64:
      return "complex64";
    case DType::kBFloat16:
      return "bfloat16";
    case DType::kFloat16:
      return "float16";
    default:
      return std::string(DTypeName(dtype));
  }
}

// Returns the step's kind: "permute" of "permute(1, 0)".
std::string StepKind(const ViewStep& step) {
  const std::string text = ToString(step);
  return text.substr(0, text.find('('));
}

// As StepKind(), from the name of the op that the reference replays.
std::string GoldenStepKind(std::string name) {
  // "unsqueeze_", "transpose__int": in place.
  if (absl::EndsWith(name, "_")) name.pop_back();
  absl::StrReplaceAll({{"__", "_"}}, &name);
  if (name == "t" || name == "transpose_int" || name == "permute" || name == "numpy_T") return "permute";
  if (name == "slice_Tensor" || name == "split_Tensor" || name == "split_with_sizes" || name == "narrow") {
    return "slice";
  }
  if (name == "unbind_int" || name == "select_int") return "select";
  if (name == "view" || name == "reshape" || name == "_unsafe_view" || name == "_reshape_alias") return "view";
  if (name == "view_dtype") return "dtype_view";
  if (name == "_conj") return "conjugate";
  if (name == "_neg_view") return "negate";
  if (absl::StartsWith(name, "squeeze")) return "squeeze";
  if (name == "lift_fresh") return "alias";
  return name;
}

// `symbols`: values of the dynamic sizes.
std::vector<int64_t> IntsOf(const SymIntVector& values, absl::Span<const int64_t> symbols) {
  std::vector<int64_t> ints;
  for (const SymInt& value : values) ints.push_back(value.Evaluate(symbols).value_or(-1));
  return ints;
}

std::vector<int64_t> IntsOf(const Json& values) { return values.get<std::vector<int64_t>>(); }

std::string Text(const std::optional<int>& value) { return value.has_value() ? absl::StrCat(*value) : "null"; }
std::string Text(const std::optional<bool>& value) { return value.has_value() ? Describe(*value) : "null"; }

// --- Inputs and outputs -----------------------------------------------------------

void CompareInput(const InputAliasInfo& input, const Json& golden, const std::string& place, Differences& d) {
  const auto expect = [&](absl::string_view field, bool actual) {
    d.Expect(absl::StrCat(place, ".", field), actual, golden[std::string(field)].get<bool>());
  };
  expect("is_leaf", input.is_leaf);
  expect("requires_grad", input.requires_grad);
  expect("mutates_data", input.mutates_data);
  expect("mutates_metadata", input.mutates_metadata);
  expect("mutates_storage_metadata", input.mutates_storage_metadata);
  expect("mutation_inductor_storage_resize", input.mutation_inductor_storage_resize);
  expect("mutations_hidden_from_autograd", input.mutations_hidden_from_autograd);
  expect("mutations_under_no_grad_or_inference_mode", input.mutations_under_no_grad_or_inference_mode);
  expect("keep_input_mutations", input.keep_input_mutations);
  d.Expect(absl::StrCat(place, ".mutation_type"), MutationTypeName(MutationTypeOf(input)),
           golden["mutation_type"].get<std::string>());
}

// Returns the number of view steps before the base. The reference records steps from the root of the
// storage; if the base is a user output, the steps of that output come first.
size_t StepsToBase(const Json& golden, const Json& outputs) {
  if (golden["output_type"] != "alias_of_intermediate_base_is_user_output") return 0;
  const Json& base = outputs[golden["base_idx"].get<size_t>()]["view_meta_sequence"];
  return base.is_null() ? 0 : base.size();
}

void CompareOutput(const OutputAliasInfo& output, const Json& golden, const Json& outputs, const std::string& place,
                   Differences& d) {
  d.Expect(absl::StrCat(place, ".output_type"), OutputTypeName(output.output_type),
           golden["output_type"].get<std::string>());
  d.Expect(absl::StrCat(place, ".base_idx"), Text(output.base_index),
           golden["base_idx"].is_null() ? "null" : golden["base_idx"].dump());
  d.Expect(absl::StrCat(place, ".requires_grad"), output.requires_grad, golden["requires_grad"].get<bool>());
  d.Expect(absl::StrCat(place, ".raw_type"), RawTypeName(output), golden["raw_type"].get<std::string>());
  if (!golden["dynamic_dims"].is_null()) {
    d.Expect(absl::StrCat(place, ".dynamic_dims"), output.dynamic_dims, golden["dynamic_dims"].get<std::vector<int>>());
  }
  if (golden["view_meta_sequence"].is_null()) return;
  std::vector<std::string> actual;
  std::vector<std::string> expected;
  for (const ViewStep& step : output.view_steps) actual.push_back(StepKind(step));
  for (size_t i = StepsToBase(golden, outputs); i < golden["view_meta_sequence"].size(); ++i) {
    expected.push_back(GoldenStepKind(golden["view_meta_sequence"][i]));
  }
  d.Expect(absl::StrCat(place, ".view_steps"), actual, expected);
}

void CompareSignature(const ViewAndMutationMeta& meta, const Json& golden, Differences& d) {
  d.Expect("number of inputs", meta.num_inputs(), static_cast<int>(golden["input_info"].size()));
  d.Expect("number of outputs", meta.num_outputs(), static_cast<int>(golden["output_info"].size()));
  if (!d.none()) return;
  for (int i = 0; i < meta.num_inputs(); ++i) {
    CompareInput(meta.input(i), golden["input_info"][static_cast<size_t>(i)], absl::StrCat("input ", i), d);
  }
  for (int i = 0; i < meta.num_outputs(); ++i) {
    const Json& outputs = golden["output_info"];
    CompareOutput(meta.output(i), outputs[static_cast<size_t>(i)], outputs, absl::StrCat("output ", i), d);
  }
}

// --- Facts about the function and what follows from them ----------------------------

void CompareFunction(const ViewAndMutationMetaFields& facts, const Json& golden, Differences& d) {
  d.Expect("num_intermediate_bases", facts.num_intermediate_bases, golden["num_intermediate_bases"].get<int>());
  d.Expect("keep_input_mutations", facts.keep_input_mutations, golden["keep_input_mutations"].get<bool>());
  d.Expect("is_train", facts.is_train, golden["is_train"].get<bool>());
  d.Expect("grad_enabled_mutation", Text(facts.grad_enabled_mutation),
           golden["grad_enabled_mutation"].is_null() ? "null" : golden["grad_enabled_mutation"].dump());
  d.Expect("static_input_indices", facts.static_input_indices, golden["static_input_indices"].get<std::vector<int>>());
  d.Expect("num_backward_tokens", facts.num_backward_tokens, golden["num_backward_tokens"].get<int>());
  d.Expect("number of tokens", static_cast<int>(facts.tokens.size()), golden["tokens"].get<int>());
  // The reference sets it after the analysis: before that, the record has null.
  // The corpus was traced with deterministic algorithms disabled.
  d.Expect("deterministic", Text(facts.deterministic),
           golden["deterministic"].is_null() ? "false" : golden["deterministic"].dump());
}

void CompareDerived(const DerivedMetadata& derived, const Json& golden, Differences& d) {
  const auto expect = [&](const char* field, const auto& actual) {
    d.Expect(field, actual, golden[field].get<std::decay_t<decltype(actual)>>());
  };
  expect("mutated_inp_runtime_indices", derived.mutated_inp_runtime_indices);
  expect("num_mutated_inp_runtime_indices", derived.num_mutated_inp_runtime_indices());
  expect("mutated_graph_handled_indices", derived.mutated_graph_handled_indices);
  expect("num_mutated_graph_handled_indices", derived.num_mutated_graph_handled_indices());
  expect("mutated_graph_handled_indices_seen_by_autograd", derived.mutated_graph_handled_indices_seen_by_autograd);
  expect("num_mutated_graph_handled_indices_seen_by_autograd",
         derived.num_mutated_graph_handled_indices_seen_by_autograd());
  expect("aliased_out_indices", derived.aliased_out_indices);
  expect("unsafe_view_out_indices", derived.unsafe_view_out_indices);
  expect("num_unsafe_view_outputs", derived.num_unsafe_view_outputs());
  expect("num_outputs", derived.num_outputs);
  expect("num_outputs_non_aliased", derived.num_outputs_non_aliased);
  expect("num_outputs_aliased_to_inputs", derived.num_outputs_aliased_to_inputs);
  expect("num_outputs_aliased_to_intermediates", derived.num_outputs_aliased_to_intermediates);
  expect("num_outputs_aliased", derived.num_outputs_aliased);
  expect("dynamic_outputs", derived.dynamic_outputs);
  expect("num_forward_returns", derived.num_forward_returns);
}

// --- Tangents -----------------------------------------------------------------------

// "Tangent(output=InputMutation(mutated_input=Plain(idx=3)))". The index of a
// merged input or of an intermediate base counts something else: only Plain
// ones are returned.
std::optional<int> DescribedIndex(const std::string& description) {
  if (absl::StrContains(description, "Base(")) return std::nullopt;
  return std::atoi(description.c_str() + description.find("idx=") + 4);
}

ForwardTensor::Kind DescribedKind(const std::string& description) {
  if (absl::StrContains(description, "InputMutation")) return ForwardTensor::Kind::kMutatedInput;
  if (absl::StrContains(description, "IntermediateBase")) return ForwardTensor::Kind::kIntermediateBase;
  return ForwardTensor::Kind::kOutput;
}

// Maps the inputs of a signature to the user's arguments.
class UserInputs {
 public:
  explicit UserInputs(int num_inputs) : index_(static_cast<size_t>(num_inputs)) {
    std::iota(index_.begin(), index_.end(), 0);
  }
  UserInputs(const serialization::InputBinding& binding, int num_user_inputs, int num_inputs)
      : index_(static_cast<size_t>(num_inputs), -1) {
    std::vector<int> unique;
    for (int i = 0; i < num_user_inputs; ++i) {
      const bool is_duplicate = i < binding.add_dupe_map_size() && binding.add_dupe_map(i) < unique.size();
      if (!is_duplicate) unique.push_back(i);
    }
    const bool has_bases = binding.inner_inputs_size() > 0;
    for (int i = 0; i < static_cast<int>(unique.size()); ++i) {
      if (has_bases && binding.inner_inputs(i).has_base_view()) continue;
      index_[static_cast<size_t>(has_bases ? binding.inner_inputs(i).argument() : i)] = unique[static_cast<size_t>(i)];
    }
  }

  // Returns -1 for a synthetic base.
  int IndexOf(int input) const { return index_[static_cast<size_t>(input)]; }
  bool Has(int user_input) const { return absl::c_linear_search(index_, user_input); }

 private:
  std::vector<int> index_;
};

// Returns whether the reference has two tangents for one tensor that is two arguments, and lost the
// tangent of an output instead, because it does not count mutated inputs without a tangent. Its
// tangents are then not compared.
bool HasTangentTwice(const Json& descriptions, const UserInputs& user_inputs) {
  return absl::c_any_of(descriptions, [&](const std::string& description) {
    const std::optional<int> index = DescribedIndex(description);
    return DescribedKind(description) == ForwardTensor::Kind::kMutatedInput && index.has_value() &&
           !user_inputs.Has(*index);
  });
}

// Returns the strides that PyTorch 2.15 expects: those of the eager tensor if it is known and does
// not overlap itself; otherwise the recorded ones.
std::vector<int64_t> ExpectedStrides(const Json& tangent, const std::string& description, const Json& eager) {
  const std::vector<int64_t> recorded = IntsOf(tangent["stride"]);
  const std::optional<int> index = DescribedIndex(description);
  if (!index.has_value() || !eager.contains("outputs")) return recorded;
  const bool is_input = DescribedKind(description) == ForwardTensor::Kind::kMutatedInput;
  const Json& tensor = eager[is_input ? "inputs_after" : "outputs"][static_cast<size_t>(*index)];
  if (tensor["size"] != tangent["size"]) return recorded;
  for (size_t i = 0; i < recorded.size(); ++i) {
    if (tensor["stride"][i] == 0 && tensor["size"][i] > 1) return recorded;
  }
  return IntsOf(tensor["stride"]);
}

// Strides of dimensions of size 1 have no meaning.
std::vector<int64_t> Normalized(std::vector<int64_t> strides, const std::vector<int64_t>& sizes) {
  for (size_t i = 0; i < strides.size() && i < sizes.size(); ++i) {
    if (sizes[i] == 1) strides[i] = 1;
  }
  return strides;
}

void CompareTangents(const ViewAndMutationMeta& meta, const Json& golden, const Json& eager,
                     const UserInputs& user_inputs, absl::Span<const int64_t> symbols, Differences& d) {
  const std::vector<TangentMeta>& tangents = meta.facts().tangents;
  const Json& descriptions = golden["traced_tangents_descs"];
  if (HasTangentTwice(descriptions, user_inputs)) {
    return d.NotCompared("tangents of a signature, as the reference has one of them twice and lacks another");
  }
  d.Expect("number of tangents", tangents.size(), descriptions.size());
  if (tangents.size() != descriptions.size()) return;
  for (size_t i = 0; i < tangents.size(); ++i) {
    const std::string description = descriptions[i];
    const std::string place = absl::StrCat("tangent ", i);
    const TangentMeta& tangent = tangents[i];
    ForwardTensor actual = tangent.source;
    if (actual.kind == ForwardTensor::Kind::kMutatedInput) actual.index = user_inputs.IndexOf(actual.index);
    ForwardTensor source = actual;
    source.kind = DescribedKind(description);
    if (const std::optional<int> index = DescribedIndex(description); index.has_value()) {
      source.index = *index;
    } else {
      d.Adapted("the index of a tangent's source, which the reference counts otherwise, is Cotan's own");
    }
    d.Expect(absl::StrCat(place, ".source"), ToString(actual), ToString(source));
    const Json& expected = golden["traced_tangents"][i];
    const std::vector<int64_t> sizes = IntsOf(expected["size"]);
    d.Expect(absl::StrCat(place, ".sizes"), IntsOf(tangent.expected.sizes, symbols), sizes);
    d.Expect(absl::StrCat(place, ".dtype"), GoldenDTypeName(tangent.expected.dtype),
             expected["dtype"].get<std::string>());
    const std::vector<int64_t> strides = Normalized(ExpectedStrides(expected, description, eager), sizes);
    if (strides != Normalized(IntsOf(expected["stride"]), sizes)) {
      d.Adapted("strides of a tangent are those of the tensor in eager, as of PyTorch 2.15");
    }
    d.Expect(absl::StrCat(place, ".strides"), Normalized(IntsOf(tangent.expected.strides, symbols), sizes), strides);
  }
}

// --- Where Cotan follows later versions of the reference -----------------------------

// Returns whether the output is a no-op view of another output and neither requires grad: NON_ALIAS
// in PyTorch up to 2.14, an alias of that output since 2.15.
bool IsViewOfOutputSince215(const OutputAliasInfo& output, const Json& golden) {
  return output.output_type == OutputType::kAliasOfIntermediateBaseIsUserOutput && !output.requires_grad &&
         golden["output_type"] == "non_alias" && golden["requires_grad"] == false;
}

// Returns `golden` with the output types of PyTorch 2.15; their bases are those of Cotan.
Json Since215(const ViewAndMutationMeta& meta, Json golden, Differences& d) {
  const size_t num_outputs = golden["output_info"].size();
  if (static_cast<size_t>(meta.num_outputs()) != num_outputs) return golden;
  int changed = 0;
  for (size_t i = 0; i < num_outputs; ++i) {
    const OutputAliasInfo& output = meta.output(static_cast<int>(i));
    Json& expected = golden["output_info"][i];
    if (!IsViewOfOutputSince215(output, expected)) continue;
    expected["output_type"] = OutputTypeName(output.output_type);
    expected["base_idx"] = *output.base_index;
    golden["aliased_out_indices"].push_back(i);
    d.Adapted("an output is a view of another, as of PyTorch 2.15; of which one is Cotan's own");
    ++changed;
  }
  absl::c_sort(golden["aliased_out_indices"]);
  golden["num_outputs_non_aliased"] = golden["num_outputs_non_aliased"].get<int>() - changed;
  for (const char* field : {"num_outputs_aliased", "num_outputs_aliased_to_intermediates"}) {
    golden[field] = golden[field].get<int>() + changed;
  }
  return golden;
}

// --- The whole of one signature -------------------------------------------------------

void CompareMeta(const serialization::ViewAndMutationMeta& proto, const Json& recorded, const Json& eager,
                 const UserInputs& user_inputs, absl::Span<const int64_t> symbols, Differences& d) {
  const absl::StatusOr<ViewAndMutationMeta> meta = ViewAndMutationMeta::FromProto(proto);
  if (!meta.ok()) {
    d.Add(meta.status().message());
    return;
  }
  const Json golden = Since215(*meta, recorded, d);
  CompareSignature(*meta, golden, d);
  if (!d.none()) return;
  CompareFunction(meta->facts(), golden, d);
  CompareDerived(meta->derived(), golden, d);
  CompareTangents(*meta, golden, eager, user_inputs, symbols, d);
}

void CompareViews(const serialization::ViewAndMutationMeta& proto, const Json& eager, absl::Span<const int64_t> symbols,
                  Differences& d) {
  const absl::StatusOr<ViewAndMutationMeta> meta = ViewAndMutationMeta::FromProto(proto);
  for (int i = 0; meta.ok() && d.none() && i < meta->num_outputs(); ++i) {
    CompareViewArguments(*meta, i, eager, symbols, d);
  }
}

// --- The program ---------------------------------------------------------------------

const serialization::ViewAndMutationMeta& ProgramMetadata(const serialization::Method& method) {
  return method.has_program_metadata() ? method.program_metadata() : method.metadata();
}

}  // namespace

absl::string_view MutationTypeName(MutationType type) {
  switch (type) {
    case MutationType::kNotMutated:
      return "NOT_MUTATED";
    case MutationType::kMutatedInGraph:
      return "MUTATED_IN_GRAPH";
    case MutationType::kMutatedOutGraph:
      return "MUTATED_OUT_GRAPH";
  }
  return "";
}

void CompareAnalysis(const serialization::Method& method, const Json& facts, const std::string& mode, Differences& d,
                     absl::Span<const int64_t> symbols) {
  const Json& analysis = facts["aot"][mode];
  const Json& eager = facts.contains("eager") ? facts["eager"] : Json::object();
  d.set_prefix(mode + ", ");
  const int num_inputs = method.metadata().input_info_size();
  CompareMeta(method.metadata(), analysis["metadata_user"], eager, UserInputs(num_inputs), symbols, d);
  CompareViews(method.metadata(), eager, symbols, d);
  if (!analysis.contains("metadata_after_wrappers")) {
    return d.NotCompared("metadata after wrappers: the reference failed before");
  }

  CompareDuplicates(method.input_binding(), analysis["dedupe"], num_inputs, d);
  CompareSyntheticBases(method.input_binding(), analysis["synthetic_base"], d);
  const bool wrapped = !analysis["metadata_after_wrappers"].is_null();
  d.set_prefix(mode + ", after wrappers: ");
  const serialization::ViewAndMutationMeta& program = ProgramMetadata(method);
  const UserInputs user_inputs(method.input_binding(), num_inputs, program.input_info_size());
  CompareMeta(program, analysis[wrapped ? "metadata_after_wrappers" : "metadata_user"], eager, user_inputs, symbols, d);
}

void CompareMetadata(const serialization::Method& method, const Json& facts, const std::string& mode, Differences& d) {
  CompareAnalysis(method, facts, mode, d);
  const Json& analysis = facts["aot"][mode];
  if (!analysis.contains("metadata_after_wrappers")) return;
  const bool wrapped = !analysis["metadata_after_wrappers"].is_null();
  CompareBackwardMutations(ProgramMetadata(method), analysis[wrapped ? "metadata_after_wrappers" : "metadata_user"], d);
  if (const auto meta = ViewAndMutationMeta::FromProto(ProgramMetadata(method)); meta.ok()) {
    CompareSaved(*meta, analysis, d);
  }
}

void CompareDynamicMetadata(const serialization::Method& method, const Json& facts, absl::Span<const int64_t> symbols,
                            Differences& d) {
  Json at_sizes_of_case = facts;
  Json& analyses = at_sizes_of_case["aot"];
  for (const char* signature : {"metadata_user", "metadata_after_wrappers"}) {
    Json& dynamic = analyses["dynamic_keep_false"][signature];
    const Json& fixed = analyses["keep_false"][signature];
    if (!dynamic.is_object() || !fixed.is_object() || dynamic["traced_tangents"].empty()) continue;
    dynamic["traced_tangents"] = fixed["traced_tangents"];
    d.Adapted("tangents with dynamic sizes have the sizes of those that the reference traced at fixed ones");
  }
  CompareAnalysis(method, at_sizes_of_case, "dynamic_keep_false", d, symbols);
  const Json& analysis = analyses["dynamic_keep_false"];
  const auto meta = ViewAndMutationMeta::FromProto(ProgramMetadata(method));
  if (analysis.contains("metadata_final_diff") && meta.ok()) CompareSaved(*meta, analysis, d);
}

}  // namespace cotan::conformance
