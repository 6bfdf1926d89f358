// Runs the analysis of aot/metadata over the visible table and compares all that
// it finds with what PyTorch's AOTAutograd recorded.
#include <string>

#include "absl/status/statusor.h"
#include "aot/metadata/analyze_function.h"
#include "aot/metadata/describe_examples.h"
#include "aot/metadata/input_binding.h"
#include "gtest/gtest.h"
#include "serialization/program.pb.h"
#include "serialization/view_and_mutation_meta.h"
#include "testing/conformance/conf_case.h"
#include "testing/conformance/difference.h"
#include "testing/conformance/eager_run.h"
#include "testing/conformance/golden.h"
#include "testing/conformance/metadata_check.h"

namespace cotan::conformance {
namespace {

constexpr char kGoldens[] = "testing/conformance/visible_goldens.json";

absl::StatusOr<serialization::ViewAndMutationMeta> ToProto(const ViewAndMutationFacts& facts) {
  const absl::StatusOr<ViewAndMutationMeta> meta = ViewAndMutationMeta::Create(facts);
  if (!meta.ok()) return meta.status();
  return meta->ToProto();
}

// The parts of a method that the analysis alone fills in.
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

// "" if the analysis agrees with the reference, where that is right.
std::string FirstDifference(const ConfCase& c, const Json& facts, const std::string& mode) {
  const absl::StatusOr<serialization::Method> method = AnalyzedMethod(c, mode == "keep_true");
  if (!method.ok()) return facts.contains("eager_error") ? "" : method.status().ToString();
  if (facts["status"][mode] != "ok") return "";
  Differences differences;
  CompareAnalysis(*method, facts, mode, differences);
  return differences.first();
}

TEST(AnalysisGoldensTest, FindsWhatTheReferenceFinds) {
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

}  // namespace
}  // namespace cotan::conformance
