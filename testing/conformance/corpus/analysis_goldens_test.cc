// SPDX-License-Identifier: Apache-2.0

// Runs the analysis of aot/aotautograd over the AOTAutograd corpus and compares its results with
// the facts that PyTorch's AOTAutograd recorded, and the predicted outputs with eager's.
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/aotautograd/analyze_function.h"
#include "aot/aotautograd/describe_examples.h"
#include "aot/aotautograd/input_binding.h"
#include "gtest/gtest.h"
#include "serialization/metadata/view_and_mutation_meta.h"
#include "serialization/schema/program.pb.h"
#include "testing/conformance/fuzz/generate_program.h"
#include "testing/conformance/harness/call_facts.h"
#include "testing/conformance/harness/conf_case.h"
#include "testing/conformance/harness/difference.h"
#include "testing/conformance/harness/eager_run.h"
#include "testing/conformance/harness/golden.h"
#include "testing/conformance/harness/metadata_check.h"

namespace cotan::conformance {
namespace {

constexpr char kGoldens[] = "testing/conformance/corpus/aotautograd_goldens.json";

absl::StatusOr<serialization::ViewAndMutationMeta> ToProto(const ViewAndMutationMetaFields& facts) {
  const absl::StatusOr<ViewAndMutationMeta> meta = ViewAndMutationMeta::Create(facts);
  if (!meta.ok()) return meta.status();
  return meta->ToProto();
}

// Returns a method with only the fields that the analysis computes.
absl::StatusOr<serialization::Method> AnalyzedMethod(const ConfCase& c, bool keep_input_mutations) {
  const CaseInputs made = MakeInputs(c);
  aot::AnalyzeFunctionOptions options;
  options.keep_input_mutations = keep_input_mutations;
  options.grad_enabled = c.grad;
  const auto facts = aot::AnalyzeFunction(c.f, {}, made.inputs, options);
  if (!facts.ok()) return facts.status();
  const auto bound = aot::BindInputs(*facts, aot::DescribeExamples({}, made.inputs));
  if (!bound.ok()) return bound.status();
  const auto user = ToProto(*facts);
  if (!user.ok()) return user.status();
  const auto program = ToProto(bound->program_facts);
  if (!program.ok()) return program.status();
  serialization::Method method;
  *method.mutable_metadata() = *user;
  *method.mutable_program_metadata() = *program;
  *method.mutable_input_binding() = bound->binding.ToProto();
  return method;
}

std::vector<int64_t> Ints(const SymIntVector& values) {
  std::vector<int64_t> ints;
  for (const SymInt& value : values) ints.push_back(value.constant());
  return ints;
}

// Predicts from the facts the tensors of the caller after the call, under the names that goldens
// use. Storages and objects have such names, too.
class Prediction {
 public:
  Prediction(const ViewAndMutationMetaFields& facts, const std::vector<at::Tensor>& inputs)
      : facts_(facts), descriptions_(aot::DescribeExamples({}, inputs)) {}

  void Compare(const CallFacts& eager, Differences& d) const {
    for (size_t i = 0; i < descriptions_.size(); ++i) {
      const TensorGeometry geometry = InputGeometry(i);
      ComparePlace(absl::StrCat("in", i), geometry, eager.inputs_after[i], d);
      d.Expect(absl::StrCat("in", i, ".requires_grad"), facts_.input_info[i].requires_grad,
               eager.inputs_after[i].requires_grad);
    }
    for (size_t i = 0; i < facts_.output_info.size(); ++i) {
      const OutputAliasInfo& info = facts_.output_info[i];
      if (!info.is_tensor()) continue;
      const bool is_input = info.output_type == OutputType::kIsInput;
      ComparePlace(absl::StrCat("out", i),
                   is_input ? InputGeometry(static_cast<size_t>(*info.base_index)) : *info.geometry, eager.outputs[i],
                   d);
      d.Expect(absl::StrCat("out", i, ".requires_grad"), info.requires_grad, eager.outputs[i].requires_grad);
    }
    d.Expect("shared storage", Pairs(&Prediction::StorageOfInput, &Prediction::StorageOfOutput),
             Text(eager.storage_alias_pairs));
    d.Expect("same objects", Pairs(&Prediction::ObjectOfInput, &Prediction::ObjectOfOutput),
             Text(eager.same_object_pairs));
  }

 private:
  using NameOf = std::string (Prediction::*)(size_t) const;

  static void ComparePlace(const std::string& name, const TensorGeometry& geometry, const TensorFacts& eager,
                           Differences& d) {
    d.Expect(name + ".sizes", Ints(geometry.sizes), eager.sizes);
    d.Expect(name + ".strides", Ints(geometry.strides), eager.strides);
    d.Expect(name + ".offset", geometry.offset.constant(), eager.offset);
  }

  TensorGeometry InputGeometry(size_t i) const {
    if (facts_.input_info[i].geometry_after.has_value()) return *facts_.input_info[i].geometry_after;
    const StridedLayout& layout = descriptions_[i].layout;
    return {descriptions_[i].dtype, SymIntVector(layout.sizes.begin(), layout.sizes.end()),
            SymIntVector(layout.strides.begin(), layout.strides.end()), layout.offset};
  }

  std::string ObjectOfInput(size_t i) const { return absl::StrCat("object ", descriptions_[i].identity); }
  std::string StorageOfInput(size_t i) const { return absl::StrCat("storage ", descriptions_[i].storage); }

  std::string ObjectOfOutput(size_t i) const {
    const OutputAliasInfo& info = facts_.output_info[i];
    if (info.output_type == OutputType::kIsInput) return ObjectOfInput(static_cast<size_t>(*info.base_index));
    if (!info.shared_storage.has_value() || !info.shared_storage->is_same_tensor) return absl::StrCat("out", i);
    return ObjectOfOutput(static_cast<size_t>(info.shared_storage->index));
  }

  std::string StorageOfOutput(size_t i) const {
    const OutputAliasInfo& info = facts_.output_info[i];
    const size_t base = static_cast<size_t>(info.base_index.value_or(0));
    if (info.shared_storage.has_value()) {
      const size_t index = static_cast<size_t>(info.shared_storage->index);
      switch (info.shared_storage->owner) {
        case SharedStorage::Owner::kInput:
          return StorageOfInput(index);
        case SharedStorage::Owner::kOutput:
          return StorageOfOutput(index);
        case SharedStorage::Owner::kIntermediateBase:
          return absl::StrCat("base", index);
      }
    }
    if (IsAliasOfInput(info.output_type)) return StorageOfInput(base);
    if (IsFreshMemory(info.output_type)) return absl::StrCat("out", i);
    if (info.output_type == OutputType::kAliasOfIntermediateBaseIsUserOutput) return StorageOfOutput(base);
    return absl::StrCat("base", base);
  }

  std::string Pairs(NameOf of_input, NameOf of_output) const {
    std::vector<std::pair<std::string, std::string>> named;
    for (size_t i = 0; i < descriptions_.size(); ++i) named.emplace_back(absl::StrCat("in", i), (this->*of_input)(i));
    for (size_t i = 0; i < facts_.output_info.size(); ++i) {
      if (facts_.output_info[i].is_tensor()) named.emplace_back(absl::StrCat("out", i), (this->*of_output)(i));
    }
    NamePairs pairs;
    for (size_t a = 0; a < named.size(); ++a) {
      for (size_t b = a + 1; b < named.size(); ++b) {
        if (named[a].second == named[b].second) pairs.emplace_back(named[a].first, named[b].first);
      }
    }
    return Text(pairs);
  }

  static std::string Text(const NamePairs& pairs) { return absl::StrJoin(pairs, " ", absl::PairFormatter("=")); }

  const ViewAndMutationMetaFields& facts_;
  std::vector<aot::InputDescription> descriptions_;
};

std::string FirstWrongPrediction(const ConfCase& c, const CallFacts& eager) {
  const CaseInputs made = MakeInputs(c);
  aot::AnalyzeFunctionOptions options;
  options.grad_enabled = c.grad;
  const auto found = aot::AnalyzeFunction(c.f, {}, made.inputs, options);
  if (!found.ok()) return found.status().ToString();
  const auto bound = aot::BindInputs(*found, aot::DescribeExamples({}, made.inputs));
  if (!bound.ok()) return bound.status().ToString();
  Differences differences;
  Prediction(*found, made.inputs).Compare(eager, differences);
  return differences.first();
}

// "" if the analysis agrees with the reference, where that is right.
std::string FirstDifference(const ConfCase& c, const Json& facts, const std::string& mode) {
  const absl::StatusOr<serialization::Method> method = AnalyzedMethod(c, mode == "keep_true");
  if (!method.ok()) return facts.contains("eager_error") ? "" : method.status().ToString();
  if (facts["status"][mode] != "ok") return "";
  Differences differences;
  CompareAnalysis(*method, facts, mode, differences);
  return differences.first();
}

TEST(AnalysisGoldensTest, AgreesWithTheReference) {
  const auto golden = Golden::Load(kGoldens);
  ASSERT_TRUE(golden.ok()) << golden.status();
  for (const ConfCase& c : build_table()) {
    const Json* facts = golden->Find(c.name);
    ASSERT_NE(facts, nullptr) << c.name;
    for (const char* mode : {"keep_false", "keep_true"}) {
      EXPECT_EQ(FirstDifference(c, *facts, mode), "") << c.name << ", " << mode;
    }
  }
}

TEST(AnalysisGoldensTest, PredictsTheResultsOfEager) {
  const auto golden = Golden::Load(kGoldens);
  ASSERT_TRUE(golden.ok()) << golden.status();
  for (const ConfCase& c : build_table()) {
    const Json* facts = golden->Find(c.name);
    ASSERT_NE(facts, nullptr) << c.name;
    if (!facts->contains("eager_error")) {
      EXPECT_EQ(FirstWrongPrediction(c, ParseCallFacts((*facts)["eager"])), "") << c.name;
    }
  }
}

TEST(AnalysisTest, PredictsTheResultsOfEagerForRandomPrograms) {
  constexpr uint64_t kPrograms = 300;
  int compared = 0;
  for (uint64_t seed = 1; seed <= kPrograms; ++seed) {
    const RandomProgram program = GenerateProgram(seed, ProgramRange::kWide);
    const ConfCase c = CaseOf(program);
    if (c.rng) continue;  // LibTorch's random ops have other grad_fns
    const std::string wrong = FirstWrongPrediction(c, RunEager(c, std::nullopt).facts);
    if (absl::StartsWith(wrong, "INVALID_ARGUMENT")) continue;  // refused; `random_programs` checks refusals
    ++compared;
    EXPECT_EQ(wrong, "") << "seed " << seed << "\n" << ToText(program);
  }
  EXPECT_GT(compared, 200);
}

}  // namespace
}  // namespace cotan::conformance
