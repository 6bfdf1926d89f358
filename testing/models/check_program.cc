// SPDX-License-Identifier: Apache-2.0

#include "testing/models/check_program.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/status_macros.h"
#include "runtime/session.h"
#include "runtime/tools/references.h"
#include "testing/cuda/open_backend.h"

namespace cotan::testing {
namespace {

using Clock = std::chrono::steady_clock;
using Tensors = std::vector<Tensor>;

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int kTimedSteps = 10;
// Minimum scale of a comparison, as a fraction of the largest value of all tensors of the same kind:
// errors of tensors with smaller values are relative to this.
constexpr double kSmall = 0.001;

double SecondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

// --- Values --------------------------------------------------------------------

template <typename T>
std::vector<double> Widened(const Tensor& tensor) {
  const T* values = static_cast<const T*>(tensor.address());
  return std::vector<double>(values, values + tensor.num_elements());
}

absl::StatusOr<std::vector<double>> ToDoubles(const Tensor& strided) {
  COTAN_ASSIGN_OR_RETURN(const Tensor tensor, strided.ToHost());
  switch (tensor.dtype()) {
    case DType::kBool:
      return Widened<bool>(tensor);
    case DType::kInt32:
      return Widened<int32_t>(tensor);
    case DType::kInt64:
      return Widened<int64_t>(tensor);
    case DType::kFloat32:
      return Widened<float>(tensor);
    case DType::kFloat64:
      return Widened<double>(tensor);
    default:
      return absl::UnimplementedError(absl::StrCat("cannot compare values of ", tensor.ToString()));
  }
}

double LargestOf(const std::vector<double>& values) {
  double largest = 0;
  for (const double value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

// max|a - b|; infinite if a NaN or infinity is not matched.
double LargestDifference(const std::vector<double>& a, const std::vector<double>& b) {
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i] == b[i]) continue;
    const double difference = std::abs(a[i] - b[i]);
    if (std::isnan(difference)) return kInfinity;
    largest = std::max(largest, difference);
  }
  return largest;
}

// --- The check -------------------------------------------------------------------

// Checks one model and fills its report.
class Checker {
 public:
  Checker(std::shared_ptr<const Program> program, const Golden& golden, const ProgramCheckOptions& options,
          ModelReport& report)
      : program_(std::move(program)), golden_(golden), options_(options), report_(report) {}

  absl::Status Run();

 private:
  absl::StatusOr<Session> NewSession(const SgdGolden* sgd) const;
  absl::Status CheckStep();
  absl::Status CheckBuffers(const Session& session);
  absl::Status CheckGradients(Session& session);
  absl::Status CheckSgd(const SgdGolden& sgd);
  absl::Status CheckRandom();
  absl::Status Measure();
  absl::StatusOr<std::vector<double>> Losses(Session& session, int steps) const;

  // `scale`: what the error is relative to, if it is larger than max|expected|.
  absl::Status Compare(const std::string& where, const Tensor& actual, const Tensor& expected, double tolerance,
                       double scale = 0);
  void Record(const std::string& where, double error);

  const std::shared_ptr<const Program> program_;
  const Golden& golden_;
  const ProgramCheckOptions& options_;
  ModelReport& report_;
  int wrong_ = 0;
};

void Checker::Record(const std::string& where, double error) {
  ++report_.values;
  if (!(error <= 1)) ++wrong_;
  if (error > report_.worst || report_.worst_where.empty() || std::isnan(error)) {
    report_.worst = std::isnan(error) ? kInfinity : error;
    report_.worst_where = where;
  }
}

absl::Status Checker::Compare(const std::string& where, const Tensor& actual, const Tensor& expected, double tolerance,
                              double scale) {
  if (actual.sizes() != expected.sizes()) {
    return absl::InvalidArgumentError(absl::StrCat(where, " is ", actual.ToString(), ", not ", expected.ToString()));
  }
  COTAN_ASSIGN_OR_RETURN(const std::vector<double> a, ToDoubles(actual));
  COTAN_ASSIGN_OR_RETURN(const std::vector<double> e, ToDoubles(expected));
  const double difference = LargestDifference(a, e);
  const double base = std::max(LargestOf(e), scale);
  Record(where, difference == 0 ? 0 : difference / (base * tolerance));
  return absl::OkStatus();
}

absl::StatusOr<Session> Checker::NewSession(const SgdGolden* sgd) const {
  COTAN_ASSIGN_OR_RETURN(const Backend backend, OpenBackend(options_.device));
  COTAN_ASSIGN_OR_RETURN(
      Session session,
      Session::Create(program_, {.kernels = backend.kernels, .device = backend.device, .threads = options_.threads}));
  if (sgd != nullptr) COTAN_RETURN_IF_ERROR(session.SetHyperparameter("lr", sgd->lr));
  return session;
}

// Runs and compares one forward and backward, from the initial state.
absl::Status Checker::CheckStep() {
  COTAN_ASSIGN_OR_RETURN(Session session, NewSession(nullptr));
  COTAN_ASSIGN_OR_RETURN(const Tensors results, session.Run("forward", golden_.inputs));
  if (results.size() < golden_.outputs.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", results.size(), " outputs, not ", golden_.outputs.size()));
  }
  for (size_t i = 0; i < golden_.outputs.size(); ++i) {
    const std::string name = absl::StrCat("output.", i);
    const auto expected = golden_.outputs.find(name);
    if (expected == golden_.outputs.end()) continue;
    COTAN_RETURN_IF_ERROR(Compare(name, results[i], expected->second, golden_.output_tolerance));
  }
  COTAN_RETURN_IF_ERROR(CheckBuffers(session));
  return CheckGradients(session);
}

absl::Status Checker::CheckBuffers(const Session& session) {
  for (const auto& [name, expected] : golden_.buffers) {
    COTAN_ASSIGN_OR_RETURN(const Tensor actual, session.State(name));
    const double tolerance = IsFloatingPoint(expected.dtype()) ? golden_.output_tolerance : 0;
    double scale = 0;
    if (const auto variance = golden_.buffers.find(tools::RunningVarianceOf(name)); variance != golden_.buffers.end()) {
      COTAN_ASSIGN_OR_RETURN(const std::vector<double> variances, ToDoubles(variance->second));
      scale = tools::RunningMeanScale(LargestOf(variances));
    }
    COTAN_RETURN_IF_ERROR(Compare(absl::StrCat("buffer ", name), actual, expected, tolerance, scale));
  }
  return absl::OkStatus();
}

absl::Status Checker::CheckGradients(Session& session) {
  COTAN_ASSIGN_OR_RETURN(const int forward, program_->FindMethod("forward"));
  Tensors tangents;
  for (const serialization::TangentMeta& meta : program_->method(forward).metadata().tangents()) {
    const auto expected = golden_.outputs.find(absl::StrCat("output.", meta.output()));
    if (expected == golden_.outputs.end()) return absl::InvalidArgumentError("an output without a golden value");
    COTAN_ASSIGN_OR_RETURN(Tensor tangent, Tensor::Zeros(DType::kFloat32, expected->second.sizes()));
    if (meta.output() == 0) *tangent.data<float>() = 1;
    tangents.push_back(std::move(tangent));
  }
  COTAN_RETURN_IF_ERROR(session.Run("backward", tangents).status());
  double largest = 0;
  for (const auto& [name, expected] : golden_.gradients) {
    COTAN_ASSIGN_OR_RETURN(const std::vector<double> values, ToDoubles(expected));
    largest = std::max(largest, LargestOf(values));
  }
  for (const auto& [name, expected] : golden_.gradients) {
    COTAN_ASSIGN_OR_RETURN(const int state, program_->FindState(name));
    COTAN_ASSIGN_OR_RETURN(const Tensor actual, session.Gradient(program_->state(state).name()));
    COTAN_RETURN_IF_ERROR(
        Compare(absl::StrCat("gradient of ", name), actual, expected, golden_.gradient_tolerance, kSmall * largest));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<double>> Checker::Losses(Session& session, int steps) const {
  std::vector<double> losses;
  for (int i = 0; i < steps; ++i) {
    COTAN_ASSIGN_OR_RETURN(const Tensors results, session.Run("train_step", golden_.inputs));
    COTAN_ASSIGN_OR_RETURN(const std::vector<double> loss, ToDoubles(results[0]));
    if (!std::isfinite(loss[0])) {
      return absl::InvalidArgumentError(absl::StrCat("the loss of step ", i, " is not finite"));
    }
    losses.push_back(loss[0]);
  }
  return losses;
}

absl::Status Checker::CheckSgd(const SgdGolden& sgd) {
  COTAN_ASSIGN_OR_RETURN(Session session, NewSession(&sgd));
  COTAN_ASSIGN_OR_RETURN(const std::vector<double> losses, Losses(session, static_cast<int>(sgd.losses.size()) + 1));
  for (int i = 0; i < sgd.num_compared; ++i) {
    const auto step = static_cast<size_t>(i);
    const double error = std::abs(losses[step + 1] - sgd.losses[step]) / std::abs(sgd.losses[step]);
    Record(absl::StrCat("loss after ", i + 1, " steps at lr ", sgd.lr), error / sgd.tolerance);
  }
  return absl::OkStatus();
}

// Nothing is known about the values of a model that draws random numbers.
absl::Status Checker::CheckRandom() {
  constexpr int kSteps = 6;
  std::vector<std::vector<double>> losses;
  for (const int64_t seed : {1, 1, 2}) {
    COTAN_ASSIGN_OR_RETURN(Session session, NewSession(nullptr));
    COTAN_RETURN_IF_ERROR(session.SetRng({.seed = seed}));
    COTAN_ASSIGN_OR_RETURN(losses.emplace_back(), Losses(session, kSteps));
  }
  Record("losses of two runs with one seed", losses[0] == losses[1] ? 0 : kInfinity);
  Record("losses of two runs with two seeds", losses[0] != losses[2] ? 0 : kInfinity);
  return absl::OkStatus();
}

absl::Status Checker::Measure() {
  COTAN_ASSIGN_OR_RETURN(Session session, NewSession(nullptr));
  COTAN_ASSIGN_OR_RETURN(const MethodHandle step, session.FindMethod("train_step"));
  Tensors results(static_cast<size_t>(session.NumResults(step)));
  report_.step_seconds = kInfinity;
  for (int i = 0; i < kTimedSteps; ++i) {
    const Clock::time_point start = Clock::now();
    COTAN_RETURN_IF_ERROR(session.Run(step, golden_.inputs, absl::MakeSpan(results)));
    report_.step_seconds = std::min(report_.step_seconds, SecondsSince(start));
  }
  COTAN_ASSIGN_OR_RETURN(const PlanSummary plan, session.Summary(step));
  report_.peak_bytes = session.state_bytes() + plan.peak_bytes;
  report_.step_ops = plan.num_steps;
  return absl::OkStatus();
}

absl::Status Checker::Run() {
  if (golden_.has_values) {
    COTAN_RETURN_IF_ERROR(CheckStep());
    for (const SgdGolden& sgd : golden_.sgd) COTAN_RETURN_IF_ERROR(CheckSgd(sgd));
  } else {
    COTAN_RETURN_IF_ERROR(CheckRandom());
  }
  COTAN_RETURN_IF_ERROR(Measure());
  if (wrong_ == 0) return absl::OkStatus();
  return absl::DataLossError(absl::StrFormat("%d of %d values are beyond their tolerance; %s is %.3g tolerances off",
                                             wrong_, report_.values, report_.worst_where, report_.worst));
}

std::string OneLine(absl::string_view text) { return absl::StrReplaceAll(text, {{"\n", " "}}); }

}  // namespace

absl::Status CheckProgram(std::shared_ptr<const Program> program, const Golden& golden,
                          const ProgramCheckOptions& options, ModelReport& report) {
  return Checker(std::move(program), golden, options, report).Run();
}

std::string ToLine(const ModelReport& report) {
  std::string line = absl::StrFormat("%-24s %s", report.name, report.status.ok() ? "ok    " : "FAILED");
  if (report.values > 0) absl::StrAppendFormat(&line, "  worst %7.3f (%s)", report.worst, report.worst_where);
  if (report.step_seconds > 0) {
    absl::StrAppendFormat(&line, "  compile %.1f s  step %.3f ms  %d ops  peak %.2f MB", report.compile_seconds,
                          report.step_seconds * 1e3, report.step_ops, static_cast<double>(report.peak_bytes) * 1e-6);
  }
  if (!report.status.ok()) absl::StrAppend(&line, "  ", OneLine(report.status.message()));
  return line;
}

std::string ToJson(const std::vector<ModelReport>& reports) {
  nlohmann::json models = nlohmann::json::array();
  int passed = 0;
  for (const ModelReport& report : reports) {
    if (report.status.ok()) ++passed;
    nlohmann::json& model = models.emplace_back();
    model["name"] = report.name;
    model["ok"] = report.status.ok();
    model["message"] = std::string(report.status.message());
    model["values"] = report.values;
    // JSON has no infinity.
    model["worst"] = std::isfinite(report.worst) ? nlohmann::json(report.worst) : nlohmann::json(nullptr);
    model["worst_where"] = report.worst_where;
    model["compile_seconds"] = report.compile_seconds;
    model["step_seconds"] = report.step_seconds;
    model["step_ops"] = report.step_ops;
    model["peak_bytes"] = report.peak_bytes;
    model["artifact_bytes"] = report.artifact_bytes;
  }
  const nlohmann::json all = {
      {"models", models}, {"passed", passed}, {"failed", static_cast<int>(reports.size()) - passed}};
  return all.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace cotan::testing
