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
#include "testing/conformance/compiled_case.h"
#include "testing/conformance/compiled_run.h"
#include "testing/conformance/eager_run.h"
#include "testing/conformance/modes.h"
#include "testing/conformance/resized_case.h"

namespace cotan::conformance {
namespace {

constexpr int kCalls = 2;

struct Oracle {
  EagerRun run;
  GradFacts gradients;
};

Oracle AskEager(const ConfCase& c, const std::optional<PhiloxState>& rng) {
  Oracle oracle{RunEager(c, rng), {}};
  oracle.gradients = BackwardEager(c, oracle.run);
  return oracle;
}

// What eager says about `c`, or why it refuses.
absl::StatusOr<Oracle> TryEager(const ConfCase& c, const std::optional<PhiloxState>& rng) {
  try {
    return AskEager(c, rng);
  } catch (const std::exception& e) {
    return absl::FailedPreconditionError(e.what());
  }
}

// What is compared.
struct Aspects {
  bool calls = false;
  bool gradients = false;
};

// What eager says, but for versions where that is not binding: a write that
// leaves everything as it was (t_() twice) may go uncounted, and where the
// reference's compiled function differs (running statistics), so may Cotan's.
CallFacts Expected(const EagerRun& eager, const CallFacts& actual, const Json& reference_bumps) {
  CallFacts expected = eager.facts;
  for (size_t i = 0; i < expected.version_bumped.size(); ++i) {
    const bool as_reference = i < reference_bumps.size() && (reference_bumps[i] != 0) == actual.version_bumped[i];
    if (as_reference || !eager.input_changed[i]) expected.version_bumped[i] = actual.version_bumped[i];
  }
  return expected;
}

// Calls of one artifact. Eager does not refuse the case. `reference_bumps`: by
// how much versions grew in the reference's compiled function; [] = not known.
absl::Status Compare(const ConfCase& c, CompiledCase& compiled, Aspects aspects, const std::string& place,
                     const Json& reference_bumps, Differences& differences) {
  for (int call = 1; call <= kCalls; ++call) {
    const std::optional<PhiloxState> rng = compiled.rng();
    const Oracle oracle = AskEager(c, rng);
    differences.set_prefix(absl::StrCat(place, call > 1 ? absl::StrCat("call ", call, ", ") : ""));
    absl::StatusOr<CompiledRun> run = compiled.Run(c);
    if (!run.ok()) return run.status();
    if (aspects.calls) {
      CompareCalls(run->facts, Expected(oracle.run, run->facts, reference_bumps), differences);
    }
    if (!aspects.gradients) continue;
    const absl::StatusOr<GradFacts> gradients = compiled.Backward(c, *run, oracle.run, oracle.gradients.loss_terms);
    if (!gradients.ok()) return gradients.status();
    CompareGradients(*gradients, oracle.gradients, differences);
  }
  return absl::OkStatus();
}

// By how much versions grew in the reference's compiled function; [] = not known.
Json VersionBumps(const Json& analyses, const std::string& mode) {
  return analyses.contains(mode) ? analyses[mode].value("version_bumps", Json::array()) : Json::array();
}

// As Compare(), from the beginning.
absl::Status CompileAndCompare(const ConfCase& c, bool keep_input_mutations, Aspects aspects, const Json& analyses,
                               Differences& differences) {
  const std::string mode = keep_input_mutations ? "keep_true" : "keep_false";
  const std::string place = mode + ", ";
  differences.set_prefix(place);
  absl::StatusOr<std::string> artifact = CompileCase(c, keep_input_mutations);
  if (!artifact.ok()) return artifact.status();
  absl::StatusOr<CompiledCase> compiled = CompiledCase::Load(*std::move(artifact));
  if (!compiled.ok()) return compiled.status();
  return Compare(c, *compiled, aspects, place, VersionBumps(analyses, mode), differences);
}

// Somewhere between compiling and the end of the backward.
bool Refuses(const ConfCase& c, bool keep_input_mutations) {
  const absl::StatusOr<std::string> artifact = CompileCase(c, keep_input_mutations);
  if (!artifact.ok()) return true;
  absl::StatusOr<CompiledCase> compiled = CompiledCase::Load(*artifact);
  if (!compiled.ok()) return true;
  const absl::StatusOr<CompiledRun> run = compiled->Run(c);
  if (!run.ok()) return true;
  const EagerRun eager = RunEager(c, compiled->rng());
  return !compiled->Backward(c, *run, eager, LossTerms(c, eager)).ok();
}

// `analyses`: the golden's "aot", or {}.
void CompareBothWays(const ConfCase& c, Aspects aspects, const Json& analyses, Differences& differences) {
  for (const bool keep : {false, true}) {
    const absl::Status status = CompileAndCompare(c, keep, aspects, analyses, differences);
    if (!status.ok()) differences.Add(status.ToString());
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
                            Differences& differences) {
  absl::StatusOr<CompiledCase> compiled = CompiledCase::Load(artifact);
  if (!compiled.ok()) return compiled.status();
  const Aspects aspects{.calls = true, .gradients = true};
  const absl::Status status = Compare(c, *compiled, aspects, "dynamic, ", reference_bumps, differences);
  if (!status.ok()) return status;
  const std::optional<ConfCase> larger = LargerCase(c, /*more=*/2);
  if (!larger.has_value() || !TryEager(*larger, std::nullopt).ok()) return absl::OkStatus();
  return Compare(*larger, *compiled, aspects, "dynamic and larger, ", reference_bumps, differences);
}

// `eager`: why eager refuses the case.
void ExpectRefusal(const ConfCase& c, const absl::Status& eager, Differences& differences) {
  for (const bool keep : {false, true}) {
    if (!Refuses(c, keep)) differences.Add(absl::StrCat("only eager refuses: ", eager.message()));
  }
}

void CheckCase(const ConfCase& c, const Json& facts, Aspects aspects, Differences& differences) {
  const absl::StatusOr<Oracle> oracle = TryEager(c, std::nullopt);
  if (oracle.ok()) {
    CompareWithGolden(*oracle, facts["eager"], aspects, differences);
    CompareBothWays(c, aspects, facts["aot"], differences);
    return;
  }
  if (!facts.contains("eager_error")) differences.Add(absl::StrCat("eager refuses: ", oracle.status().message()));
  ExpectRefusal(c, oracle.status(), differences);
}

}  // namespace

void CheckEager(const ConfCase& c, const Json& facts, Differences& differences) {
  CheckCase(c, facts, {.calls = true}, differences);
}

void CheckGradients(const ConfCase& c, const Json& facts, Differences& differences) {
  CheckCase(c, facts, {.gradients = true}, differences);
}

void CheckDynamic(const ConfCase& c, const Json& facts, Differences& differences) {
  if (!TryEager(c, std::nullopt).ok()) return;
  differences.set_prefix("dynamic, ");
  const Json analyses = facts.value("aot", Json::object());
  const absl::StatusOr<std::string> artifact = CompileDynamic(c);
  if (!artifact.ok()) return differences.Add(artifact.status().ToString());
  if (analyses.contains("dynamic_keep_false")) CheckDynamicMetadata(*artifact, facts, differences);
  const absl::Status status = CompareDynamic(c, *artifact, VersionBumps(analyses, "keep_false"), differences);
  if (!status.ok()) differences.Add(status.ToString());
}

void CheckProgram(const ConfCase& c, Differences& differences) {
  const absl::StatusOr<Oracle> oracle = TryEager(c, std::nullopt);
  if (!oracle.ok()) return ExpectRefusal(c, oracle.status(), differences);
  CompareBothWays(c, {.calls = true, .gradients = true}, Json::object(), differences);
}

}  // namespace cotan::conformance
