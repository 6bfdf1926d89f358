// SPDX-License-Identifier: Apache-2.0

// Compares the metadata that ViewAndMutationMeta derives from facts with the metadata that PyTorch's
// AOTAutograd derived from the same facts (aotautograd_goldens.json).
#include <cstdint>
#include <fstream>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "serialization/metadata/view_and_mutation_meta.h"
#include "testing/conformance/harness/metadata_check.h"

namespace cotan {
namespace {

using Json = nlohmann::json;

constexpr char kGoldens[] = "testing/conformance/corpus/aotautograd_goldens.json";

OutputType OutputTypeNamed(const std::string& name) {
  for (int i = 1; i <= 8; ++i) {
    if (OutputTypeName(static_cast<OutputType>(i)) == name) return static_cast<OutputType>(i);
  }
  ADD_FAILURE() << "no output type is called " << name;
  return OutputType::kNonAlias;
}

InputAliasInfo InputOf(const Json& golden) {
  InputAliasInfo info;
  info.is_leaf = golden["is_leaf"];
  info.mutates_data = golden["mutates_data"];
  info.mutates_metadata = golden["mutates_metadata"];
  info.mutations_hidden_from_autograd = golden["mutations_hidden_from_autograd"];
  info.mutations_under_no_grad_or_inference_mode = golden["mutations_under_no_grad_or_inference_mode"];
  info.mutation_inductor_storage_resize = golden["mutation_inductor_storage_resize"];
  info.mutates_storage_metadata = golden["mutates_storage_metadata"];
  info.requires_grad = golden["requires_grad"];
  info.keep_input_mutations = golden["keep_input_mutations"];
  return info;
}

// The goldens record the kind of a value, not the value.
ScalarOutput ScalarOf(const std::string& raw_type) {
  if (raw_type == "NoneType") return NoneValue();
  if (raw_type == "int") return int64_t{0};
  if (raw_type == "float") return 0.0;
  if (raw_type == "SymInt") return SymInt::Symbol(0);
  ADD_FAILURE() << "raw type " << raw_type;
  return NoneValue();
}

OutputAliasInfo OutputOf(const Json& golden) {
  OutputAliasInfo info;
  info.output_type = OutputTypeNamed(golden["output_type"]);
  info.requires_grad = golden["requires_grad"];
  info.requires_grad_for_backward = info.requires_grad;
  if (!golden["base_idx"].is_null()) info.base_index = golden["base_idx"].get<int>();
  if (!golden["dynamic_dims"].is_null()) {
    info.dynamic_dims = golden["dynamic_dims"].get<std::vector<int>>();
  }
  if (golden["raw_type"] != "FunctionalTensor") info.scalar = ScalarOf(golden["raw_type"]);
  return info;
}

// "Tangent(output=InputMutation(mutated_input=Plain(idx=3)))". The index of a
// merged input or of an intermediate base counts something else: only Plain
// ones are returned.
std::optional<int> DescribedIndex(const std::string& description) {
  if (description.find("Base(") != std::string::npos) return std::nullopt;
  return std::stoi(description.substr(description.find("idx=") + 4));
}

ForwardTensor::Kind DescribedKind(const std::string& description) {
  if (description.find("InputMutation") != std::string::npos) {
    return ForwardTensor::Kind::kMutatedInput;
  }
  if (description.find("IntermediateBase") != std::string::npos) {
    return ForwardTensor::Kind::kIntermediateBase;
  }
  return ForwardTensor::Kind::kOutput;
}

SymIntVector SizesOf(const Json& golden) {
  SymIntVector sizes;
  for (const Json& size : golden) {
    sizes.push_back(size.is_number() ? SymInt(size.get<int64_t>()) : SymInt::Symbol(0));
  }
  return sizes;
}

DType DTypeOf(const std::string& name) {
  if (name == "float32") return DType::kFloat32;
  if (name == "float64") return DType::kFloat64;
  if (name == "complex64") return DType::kComplex64;
  ADD_FAILURE() << "dtype " << name;
  return DType::kUndefined;
}

ViewAndMutationMetaFields FactsOf(const Json& record) {
  const Json& golden = record["metadata"];
  ViewAndMutationMetaFields facts;
  for (const Json& input : golden["input_info"]) facts.input_info.push_back(InputOf(input));
  for (const Json& output : golden["output_info"]) facts.output_info.push_back(OutputOf(output));
  facts.num_intermediate_bases = golden["num_intermediate_bases"];
  facts.keep_input_mutations = golden["keep_input_mutations"];
  facts.is_train = golden["is_train"];
  facts.num_backward_tokens = golden["num_backward_tokens"];
  facts.backward_mutated_inputs =
      golden["indices_of_inputs_that_requires_grad_with_mutations_in_bw"].get<std::vector<int>>();
  if (!golden["grad_enabled_mutation"].is_null()) {
    facts.grad_enabled_mutation = golden["grad_enabled_mutation"].get<bool>();
  }
  if (!golden["deterministic"].is_null()) facts.deterministic = golden["deterministic"].get<bool>();
  return facts;
}

SavedForBackward SavedOf(const Json& golden, int num_forward) {
  SavedForBackward saved;
  saved.num_tensors_without_version_check = golden["num_tensors_saved_with_no_vc_check"];
  // Symints are symbols of the call here, and graphs have no opaque objects.
  saved.num_tensors = golden["num_forward_outputs"].get<int>() - num_forward -
                      golden["num_symints_saved_for_bw"].get<int>() -
                      golden["num_opaque_objects_saved_for_bw"].get<int>();
  if (!golden["bw_donated_idxs"].is_null()) {
    saved.donated = golden["bw_donated_idxs"].get<std::vector<int>>();
  }
  if (golden.contains("dynamic_saved_tensors_idxs")) {
    for (const auto& [tensor, dims] : golden["dynamic_saved_tensors_idxs"].items()) {
      saved.dynamic_tensors.push_back({std::stoi(tensor), dims.get<std::vector<int>>()});
    }
  }
  return saved;
}

// Returns the positions that a Python slice [start, stop] selects of `length`.
SavedSlice Resolve(const Json& slice, int length) {
  const auto place = [length](const Json& bound, int open) {
    if (bound.is_null()) return open;
    const int value = bound.get<int>();
    return value < 0 ? value + length : value;
  };
  return {place(slice[0], 0), place(slice[1], length)};
}

void ExpectSameRange(SavedSlice actual, SavedSlice expected) {
  EXPECT_EQ(actual.size(), expected.size());
  if (expected.size() > 0) {
    EXPECT_EQ(actual, expected);
  }
}

void ExpectDerived(const DerivedMetadata& derived, const Json& golden) {
  EXPECT_EQ(Json(derived.mutated_inp_runtime_indices), golden["mutated_inp_runtime_indices"]);
  EXPECT_EQ(derived.num_mutated_inp_runtime_indices(), golden["num_mutated_inp_runtime_indices"]);
  EXPECT_EQ(Json(derived.mutated_graph_handled_indices), golden["mutated_graph_handled_indices"]);
  EXPECT_EQ(derived.num_mutated_graph_handled_indices(), golden["num_mutated_graph_handled_indices"]);
  EXPECT_EQ(Json(derived.mutated_graph_handled_indices_seen_by_autograd),
            golden["mutated_graph_handled_indices_seen_by_autograd"]);
  EXPECT_EQ(derived.num_mutated_graph_handled_indices_seen_by_autograd(),
            golden["num_mutated_graph_handled_indices_seen_by_autograd"]);
  EXPECT_EQ(Json(derived.aliased_out_indices), golden["aliased_out_indices"]);
  EXPECT_EQ(Json(derived.unsafe_view_out_indices), golden["unsafe_view_out_indices"]);
  EXPECT_EQ(derived.num_unsafe_view_outputs(), golden["num_unsafe_view_outputs"]);
  EXPECT_EQ(derived.num_outputs, golden["num_outputs"]);
  EXPECT_EQ(derived.num_outputs_non_aliased, golden["num_outputs_non_aliased"]);
  EXPECT_EQ(derived.num_outputs_aliased_to_inputs, golden["num_outputs_aliased_to_inputs"]);
  EXPECT_EQ(derived.num_outputs_aliased_to_intermediates, golden["num_outputs_aliased_to_intermediates"]);
  EXPECT_EQ(derived.num_outputs_aliased, golden["num_outputs_aliased"]);
  EXPECT_EQ(derived.dynamic_outputs, golden["dynamic_outputs"]);
  EXPECT_EQ(golden["num_outputs_rng_offset"], 0);
  EXPECT_EQ(derived.num_forward_returns, golden["num_forward_returns"]);
  EXPECT_EQ(derived.num_forward_returns, golden["num_forward"]);
}

void ExpectTangentSources(const DerivedMetadata& derived, const Json& golden) {
  const Json& descriptions = golden["traced_tangents_descs"];
  ASSERT_EQ(derived.tangent_sources.size(), descriptions.size());
  for (size_t i = 0; i < descriptions.size(); ++i) {
    const std::string description = descriptions[i];
    EXPECT_EQ(derived.tangent_sources[i].kind, DescribedKind(description)) << description;
    if (std::optional<int> index = DescribedIndex(description)) {
      EXPECT_EQ(derived.tangent_sources[i].index, *index) << description;
    }
  }
}

// Returns the metadata records of one analysis of a case: of the user's signature, and of the program's
// signature with the values saved for the backward.
std::vector<Json> RecordsOf(const Json& analysis) {
  std::vector<Json> records;
  const Json& user = analysis["metadata_user"];
  const bool wrapped = analysis.contains("metadata_after_wrappers") && !analysis["metadata_after_wrappers"].is_null();
  if (wrapped) records.push_back({{"metadata", user}});
  records.push_back({{"metadata", wrapped ? analysis["metadata_after_wrappers"] : user}});
  if (analysis.contains("num_fw_outs_saved_for_bw") && !analysis["metadata_final_diff"].is_null()) {
    Json saved = analysis["metadata_final_diff"];
    saved["num_forward_outputs"] = analysis["fw_graph"]["num_outputs"];
    saved["indices_of_inps_to_detach"] = analysis["indices_of_inps_to_detach"];
    records.back()["saved"] = saved;
  }
  return records;
}

class MetadataGoldens : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::ifstream stream(kGoldens);
    ASSERT_TRUE(stream.is_open()) << kGoldens;
    const Json file = Json::parse(stream);
    std::set<Json> seen;  // each distinct record is tested once
    for (const auto& [name, facts] : file["cases"].items()) {
      for (const auto& [mode, analysis] : facts["aot"].items()) {
        for (const Json& record : RecordsOf(analysis)) {
          if (seen.insert(record).second) goldens_[name + "/" + mode + "/" + std::to_string(seen.size())] = record;
        }
      }
    }
    ASSERT_GT(goldens_.size(), 300u);
  }

  static Json goldens_;
};

Json MetadataGoldens::goldens_;

TEST_F(MetadataGoldens, MutationTypesEqualTheReference) {
  for (const auto& [name, record] : goldens_.items()) {
    SCOPED_TRACE(name);
    for (const Json& input : record["metadata"]["input_info"]) {
      EXPECT_EQ(conformance::MutationTypeName(MutationTypeOf(InputOf(input))),
                input["mutation_type"].get<std::string>())
          << input.dump();
    }
  }
}

TEST_F(MetadataGoldens, DerivedPropertiesEqualTheReference) {
  for (const auto& [name, record] : goldens_.items()) {
    SCOPED_TRACE(name);
    absl::StatusOr<ViewAndMutationMeta> meta = ViewAndMutationMeta::Create(FactsOf(record));
    ASSERT_TRUE(meta.ok()) << meta.status();
    ExpectDerived(meta->derived(), record["metadata"]);
    EXPECT_EQ(meta->num_tokens(), record["metadata"]["tokens"]);
  }
}

TEST_F(MetadataGoldens, TangentSourcesEqualTheReference) {
  for (const auto& [name, record] : goldens_.items()) {
    SCOPED_TRACE(name);
    ViewAndMutationMetaFields facts = FactsOf(record);
    const DerivedMetadata derived = DerivedMetadata::Of(facts);
    ExpectTangentSources(derived, record["metadata"]);
    for (const Json& tangent : record["metadata"]["traced_tangents"]) {
      TensorGeometry expected;
      expected.dtype = DTypeOf(tangent["dtype"]);
      expected.sizes = SizesOf(tangent["size"]);
      expected.strides = SizesOf(tangent["stride"]);
      facts.tangents.push_back({derived.tangent_sources[facts.tangents.size()], expected});
    }
    EXPECT_TRUE(facts.Validate().ok()) << facts.Validate();
  }
}

TEST_F(MetadataGoldens, SavedSlicesEqualTheReference) {
  int num_compared = 0;
  for (const auto& [name, record] : goldens_.items()) {
    if (!record.contains("saved")) continue;
    SCOPED_TRACE(name);
    const Json& golden = record["saved"];
    ViewAndMutationMetaFields facts = FactsOf(record);
    facts.saved = SavedOf(golden, record["metadata"]["num_forward"]);
    facts.indices_of_inputs_to_detach = golden["indices_of_inps_to_detach"].get<std::vector<int>>();
    absl::StatusOr<ViewAndMutationMeta> meta = ViewAndMutationMeta::Create(facts);
    ASSERT_TRUE(meta.ok()) << meta.status();
    const int num_outputs = golden["num_forward_outputs"];
    const DerivedMetadata& derived = meta->derived();
    ExpectSameRange(derived.tensors_saved_for_backwards,
                    Resolve(golden["tensors_saved_for_backwards_slice"], num_outputs));
    ++num_compared;
  }
  EXPECT_GT(num_compared, 100);
}

TEST_F(MetadataGoldens, SurviveTheRoundTripThroughTheFileFormat) {
  for (const auto& [name, record] : goldens_.items()) {
    SCOPED_TRACE(name);
    absl::StatusOr<ViewAndMutationMeta> meta = ViewAndMutationMeta::Create(FactsOf(record));
    ASSERT_TRUE(meta.ok()) << meta.status();
    absl::StatusOr<ViewAndMutationMeta> again = ViewAndMutationMeta::FromProto(meta->ToProto());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, *meta);
    EXPECT_EQ(again->derived(), meta->derived());
  }
}

}  // namespace
}  // namespace cotan
