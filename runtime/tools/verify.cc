// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/verify.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "runtime/tools/one_rank.h"
#include "runtime/tools/references.h"
#include "serialization/schema/continuation.h"

namespace cotan::tools {
namespace {

using serialization::Method;
using serialization::Reference;
using serialization::ReferenceState;
using serialization::ReferenceTensor;

bool IsBackward(const Program& program, absl::string_view name) {
  for (const Method& method : program.artifact().methods()) {
    if (method.backward_method() == name) return true;
  }
  return false;
}

class Verifier {
 public:
  Verifier(std::shared_ptr<const Program> program, const SessionOptions& options, std::ostream& out)
      : program_(std::move(program)), options_(WithOneRank(*program_, options, rank_)), out_(out) {}

  absl::StatusOr<VerifyResult> Run() {
    if (program_->artifact().references_size() == 0) {
      return absl::FailedPreconditionError("the artifact records no runs: compile it with references");
    }
    for (const Reference& reference : program_->artifact().references()) COTAN_RETURN_IF_ERROR(Replay(reference));
    for (const Method& method : program_->artifact().methods()) {
      if (IsCallable(method)) ReportUnchecked(method);  // others run as parts of those
    }
    return result_;
  }

 private:
  absl::Status Replay(const Reference& reference) {
    // A backward continues from the states of its forward; all other methods start from the initial states.
    if (!session_.has_value() || !IsBackward(*program_, reference.method())) {
      session_.reset();
      COTAN_ASSIGN_OR_RETURN(session_, Session::Create(program_, options_));
      const absl::Status seeded = session_->SetRng({.seed = reference.rng_seed(), .offset = reference.rng_offset()});
      if (!seeded.ok() && seeded.code() != absl::StatusCode::kFailedPrecondition) return seeded;
    }
    Device& device = options_.device == nullptr ? HostDevice() : *options_.device;
    COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> arguments, LoadArguments(*program_, reference, device));
    COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> results, session_->Run(reference.method(), arguments));
    COTAN_ASSIGN_OR_RETURN(const int index, program_->FindMethod(reference.method()));
    for (int i = 0; i < reference.outputs_size(); ++i) {
      COTAN_ASSIGN_OR_RETURN(const Tensor actual, results[static_cast<size_t>(i)].ToHost());
      const std::string name = program_->OutputName(program_->method(index), i);
      COTAN_RETURN_IF_ERROR(Report(absl::StrCat(reference.method(), " result ", name), actual, reference.outputs(i)));
    }
    for (const ReferenceState& state : reference.states_after()) {
      COTAN_ASSIGN_OR_RETURN(const Tensor actual, session_->State(state.state()));
      COTAN_ASSIGN_OR_RETURN(const double noise, AllowedNoise(reference, state.state()));
      COTAN_RETURN_IF_ERROR(
          Report(absl::StrCat(reference.method(), " state ", state.state()), actual, state.tensor(), noise));
    }
    return absl::OkStatus();
  }

  // Returns the error that `state` may have however small its values are: for a running mean it follows from
  // the running variance of its layer.
  absl::StatusOr<double> AllowedNoise(const Reference& reference, const std::string& state) const {
    const std::string variance = RunningVarianceOf(state);
    for (const ReferenceState& other : reference.states_after()) {
      if (variance.empty() || other.state() != variance) continue;
      COTAN_ASSIGN_OR_RETURN(const Tensor values, LoadTensor(*program_, other.tensor()));
      COTAN_ASSIGN_OR_RETURN(const Difference difference, Compare(values, values));
      return other.tensor().tolerance() * RunningMeanScale(difference.largest_expected);
    }
    return 0.0;
  }

  // The error may be as large as `noise` even if the tolerance of the reference is smaller.
  absl::Status Report(const std::string& name, const Tensor& actual, const ReferenceTensor& reference,
                      double noise = 0) {
    COTAN_ASSIGN_OR_RETURN(const Tensor expected, LoadTensor(*program_, reference));
    if (actual.dtype() != expected.dtype() || actual.sizes() != expected.sizes()) {
      ++result_.failed;
      out_ << "FAIL " << name << ": " << actual.ToString() << ", expected " << expected.ToString() << "\n";
      return absl::OkStatus();
    }
    COTAN_ASSIGN_OR_RETURN(const Difference difference, Compare(actual, expected));
    const double allowed = std::max(reference.tolerance() * difference.largest_expected, noise);
    const bool passed = difference.largest_error <= allowed;
    ++(passed ? result_.passed : result_.failed);
    out_ << absl::StrFormat("%s %s %s: error %.3g, allowed %.3g\n", passed ? "ok  " : "FAIL", name, expected.ToString(),
                            difference.largest_error, allowed);
    return absl::OkStatus();
  }

  // Names what the recorded runs leave open of a method.
  void ReportUnchecked(const Method& method) {
    absl::flat_hash_set<absl::string_view> recorded;
    bool is_replayed = false;
    for (const Reference& reference : program_->artifact().references()) {
      if (reference.method() != method.name()) continue;
      is_replayed = true;
      for (const ReferenceState& state : reference.states_after()) recorded.insert(state.state());
    }
    if (!is_replayed) {
      ++result_.not_checked;
      out_ << "not checked: " << method.name() << ", of which no run is recorded\n";
      return;
    }
    std::vector<absl::string_view> states;
    for (const serialization::StateUpdate& update : method.state_updates()) {
      const absl::string_view name = program_->state(static_cast<int>(update.state())).name();
      if (!recorded.contains(name)) states.push_back(name);
    }
    if (states.empty()) return;
    result_.not_checked += static_cast<int>(states.size());
    out_ << "not checked: " << method.name() << " states " << absl::StrJoin(states, ", ")
         << ", which are not recorded\n";
  }

  const std::shared_ptr<const Program> program_;
  SingleRank rank_;  // outlives session_
  const SessionOptions options_;
  std::ostream& out_;
  std::optional<Session> session_;
  VerifyResult result_;
};

}  // namespace

absl::StatusOr<VerifyResult> Verify(std::shared_ptr<const Program> program, const SessionOptions& options,
                                    std::ostream& out) {
  return Verifier(std::move(program), options, out).Run();
}

}  // namespace cotan::tools
