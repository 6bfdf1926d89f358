// SPDX-License-Identifier: Apache-2.0

// Modes "eager" and "grad": calls through an artifact against LibTorch eager.
#include <algorithm>
#include <exception>
#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "testing/conformance/harness/compiled_case.h"
#include "testing/conformance/harness/compiled_run.h"
#include "testing/conformance/harness/eager_run.h"
#include "testing/conformance/harness/modes.h"
#include "testing/conformance/harness/refusal_stage.h"
#include "testing/conformance/harness/resized_case.h"

namespace cotan::conformance {
namespace {

constexpr int kCalls = 2;

struct Oracle {
  EagerRun run;
  GradFacts gradients;
};

Oracle RunOracle(const ConfCase& c, const std::optional<PhiloxState>& rng) {
  Oracle oracle{RunEager(c, rng), {}};
  oracle.gradients = BackwardEager(c, oracle.run);
  return oracle;
}

// Eager's results for a case, or its refusal.
struct EagerAnswer {
  std::optional<Oracle> oracle;
  std::optional<Refusal> refusal;
};

EagerAnswer TryEager(const ConfCase& c) {
  EagerAnswer answer;
  Stage stage = Stage::kCall;
  try {
    Oracle oracle{RunEager(c, std::nullopt), {}};
    stage = Stage::kBackward;
    oracle.gradients = BackwardEager(c, oracle.run);
    answer.oracle = std::move(oracle);
  } catch (const std::exception& e) {
    answer.refusal = Refusal{stage, absl::FailedPreconditionError(e.what())};
  }
  return answer;
}

// Parts of a case that are compared.
struct Aspects {
  bool calls = false;
  bool gradients = false;
};

// Returns eager's facts, with versions adapted where they are not binding: a write without effect
// (t_() twice) may be uncounted, and where the version of the reference's compiled function differs
// from eager's (running statistics), Cotan's may too.
CallFacts Expected(const EagerRun& eager, const CallFacts& actual, const Json& reference_bumps,
                   Differences& differences) {
  CallFacts expected = eager.facts;
  for (size_t i = 0; i < std::min(expected.version_bumped.size(), actual.version_bumped.size()); ++i) {
    if (expected.version_bumped[i] == actual.version_bumped[i]) continue;
    const bool as_reference = i < reference_bumps.size() && (reference_bumps[i] != 0) == actual.version_bumped[i];
    if (!as_reference && eager.input_changed[i]) continue;
    expected.version_bumped[i] = actual.version_bumped[i];
    differences.Adapted(as_reference ? "an input's version grows as the reference's compiled function has it"
                                     : "an input's version, where the call left the input as it was, is Cotan's own");
  }
  return expected;
}

// Calls of one artifact. Eager does not refuse the case. `reference_bumps`: increases of the versions
// in the reference's compiled function; [] if unknown.
absl::Status Compare(const ConfCase& c, CompiledCase& compiled, Aspects aspects, const std::string& place,
                     const Json& reference_bumps, Differences& differences) {
  for (int call = 1; call <= kCalls; ++call) {
    const std::optional<PhiloxState> rng = compiled.rng();
    const Oracle oracle = RunOracle(c, rng);
    differences.set_prefix(absl::StrCat(place, call > 1 ? absl::StrCat("call ", call, ", ") : ""));
    absl::StatusOr<CompiledRun> run = compiled.Run(c);
    if (!run.ok()) return run.status();
    if (aspects.calls) {
      CompareCalls(run->facts, Expected(oracle.run, run->facts, reference_bumps, differences), differences);
    }
    if (!aspects.gradients) continue;
    const absl::StatusOr<GradFacts> gradients = compiled.Backward(c, *run, oracle.run, oracle.gradients.loss_terms);
    if (!gradients.ok()) return gradients.status();
    CompareGradients(*gradients, oracle.gradients, differences);
  }
  return absl::OkStatus();
}

// Returns the increases of the versions in the reference's compiled function; [] if unknown.
Json VersionBumps(const Json& analyses, const std::string& mode) {
  return analyses.contains(mode) ? analyses[mode].value("version_bumps", Json::array()) : Json::array();
}

// Compiles the case, then compares as Compare().
absl::Status CompileAndCompare(const ConfCase& c, bool keep_input_mutations, Aspects aspects, const Json& analyses,
                               const SessionOptions& options, Differences& differences) {
  const std::string mode = keep_input_mutations ? "keep_true" : "keep_false";
  const std::string place = mode + ", ";
  differences.set_prefix(place);
  absl::StatusOr<std::string> artifact = CompileCase(c, keep_input_mutations);
  if (!artifact.ok()) return artifact.status();
  absl::StatusOr<CompiledCase> compiled = CompiledCase::Load(*std::move(artifact), options);
  if (!compiled.ok()) return compiled.status();
  return Compare(c, *compiled, aspects, place, VersionBumps(analyses, mode), differences);
}

// Returns the first stage that fails, from compiling to the backward. The backward of a call that eager refuses is not
// run.
std::optional<Refusal> RefusalOf(const ConfCase& c, bool keep_input_mutations, const SessionOptions& options) {
  const absl::StatusOr<std::string> artifact = CompileCase(c, keep_input_mutations);
  if (!artifact.ok()) return Refusal{Stage::kCompile, artifact.status()};
  absl::StatusOr<CompiledCase> compiled = CompiledCase::Load(*artifact, options);
  if (!compiled.ok()) return Refusal{Stage::kLoad, compiled.status()};
  const absl::StatusOr<CompiledRun> run = compiled->Run(c);
  if (!run.ok()) return Refusal{Stage::kCall, run.status()};
  std::optional<EagerRun> eager;
  try {
    eager = RunEager(c, compiled->rng());
  } catch (const std::exception&) {
    return std::nullopt;
  }
  const absl::StatusOr<GradFacts> gradients = compiled->Backward(c, *run, *eager, LossTerms(c, *eager));
  if (!gradients.ok()) return Refusal{Stage::kBackward, gradients.status()};
  return std::nullopt;
}

// `analyses`: the golden's "aot", or {}.
void CompareBothWays(const ConfCase& c, Aspects aspects, const Json& analyses, const SessionOptions& options,
                     Differences& differences) {
  for (const bool keep : {false, true}) {
    const absl::Status status = CompileAndCompare(c, keep, aspects, analyses, options, differences);
    if (!status.ok()) differences.AddRefusal(status);
  }
}

// Roots that were found by searching may come in another order.
void SortGradients(std::vector<std::optional<GradFacts::Gradient>>& gradients) {
  std::vector<GradFacts::Gradient> defined;
  for (std::optional<GradFacts::Gradient>& gradient : gradients) {
    if (gradient.has_value()) defined.push_back(*std::move(gradient));
  }
  std::sort(defined.begin(), defined.end(),
            [](const auto& a, const auto& b) { return std::tie(a.sizes, a.values) < std::tie(b.sizes, b.values); });
  gradients.assign(defined.begin(), defined.end());
}

void CompareWithGolden(const Oracle& oracle, const Json& eager, Aspects aspects, Differences& differences) {
  differences.set_prefix("eager here, against the golden: ");
  if (aspects.calls) CompareCalls(oracle.run.facts, ParseCallFacts(eager), differences);
  if (!aspects.gradients) return;
  GradFacts actual = oracle.gradients;
  GradFacts expected = ParseGradFacts(eager);
  if (!oracle.run.in.roots_are_in_order) {
    SortGradients(actual.root_grads);
    SortGradients(expected.root_grads);
  }
  CompareGradients(actual, expected, differences);
}

// Calls of an artifact with dynamic sizes, at the sizes of the case and at larger ones.
absl::Status CompareDynamic(const ConfCase& c, const std::string& artifact, const Json& reference_bumps,
                            const SessionOptions& options, Differences& differences) {
  absl::StatusOr<CompiledCase> compiled = CompiledCase::Load(artifact, options);
  if (!compiled.ok()) return compiled.status();
  const Aspects aspects{.calls = true, .gradients = true};
  const absl::Status status = Compare(c, *compiled, aspects, "dynamic, ", reference_bumps, differences);
  if (!status.ok()) return status;
  const std::optional<ConfCase> larger = LargerCase(c, /*more=*/2);
  if (!larger.has_value()) {
    differences.NotCompared("a call at larger sizes: an input is a view, is computed, or shares memory");
    return absl::OkStatus();
  }
  if (TryEager(*larger).refusal.has_value()) {
    differences.NotCompared("a call at larger sizes: eager refuses it");
    return absl::OkStatus();
  }
  return Compare(*larger, *compiled, aspects, "dynamic and larger, ", reference_bumps, differences);
}

void ExpectRefusal(const ConfCase& c, const Refusal& eager, const SessionOptions& options, Differences& differences) {
  for (const bool keep : {false, true}) {
    differences.set_prefix(keep ? "keep_true, " : "keep_false, ");
    CompareRefusals(RefusalOf(c, keep, options), eager, differences);
  }
}

void CheckCase(const ConfCase& c, const Json& facts, Aspects aspects, const SessionOptions& options,
               Differences& differences) {
  const EagerAnswer eager = TryEager(c);
  if (eager.oracle.has_value()) {
    CompareWithGolden(*eager.oracle, facts["eager"], aspects, differences);
    CompareBothWays(c, aspects, facts["aot"], options, differences);
    return;
  }
  if (!facts.contains("eager_error")) differences.Add(absl::StrCat("eager refuses: ", eager.refusal->status.message()));
  ExpectRefusal(c, *eager.refusal, options, differences);
}

// Notes the sizes that stay fixed in a case that is compiled with dynamic sizes.
void NoteFixedSizes(const ConfCase& c, Differences& differences) {
  g_roots.clear();
  const std::vector<at::Tensor> inputs = c.inputs();
  const int fixed = NumFixedSizes(inputs);
  for (int i = 0; i < fixed; ++i) differences.NotCompared("a dynamic size of an input that shares memory: it is fixed");
  if (!DynamicDimsOf(inputs).empty()) return;
  differences.NothingCompared(fixed > 0 ? "no size is dynamic: the inputs share memory"
                                        : "no size is dynamic: no input has one larger than 1");
}

}  // namespace

void CheckEager(const ConfCase& c, const Json& facts, Differences& differences, const SessionOptions& options) {
  CheckCase(c, facts, {.calls = true}, options, differences);
}

void CheckGradients(const ConfCase& c, const Json& facts, Differences& differences, const SessionOptions& options) {
  CheckCase(c, facts, {.gradients = true}, options, differences);
}

void CheckDynamic(const ConfCase& c, const Json& facts, Differences& differences, const SessionOptions& options) {
  if (TryEager(c).refusal.has_value()) return differences.NothingCompared("eager refuses it");
  NoteFixedSizes(c, differences);
  differences.set_prefix("dynamic, ");
  const Json analyses = facts.value("aot", Json::object());
  const absl::StatusOr<std::string> artifact = CompileDynamic(c);
  if (!artifact.ok()) return differences.AddRefusal(artifact.status());
  if (analyses.contains("dynamic_keep_false")) CheckDynamicMetadata(*artifact, facts, differences);
  const absl::Status status = CompareDynamic(c, *artifact, VersionBumps(analyses, "keep_false"), options, differences);
  if (!status.ok()) differences.AddRefusal(status);
}

void CheckProgram(const ConfCase& c, Differences& differences, const SessionOptions& options) {
  const EagerAnswer eager = TryEager(c);
  if (eager.refusal.has_value()) return ExpectRefusal(c, *eager.refusal, options, differences);
  CompareBothWays(c, {.calls = true, .gradients = true}, Json::object(), options, differences);
}

}  // namespace cotan::conformance
