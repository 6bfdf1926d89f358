// SPDX-License-Identifier: Apache-2.0

#include "testing/cuda/step_bench.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <random>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "runtime/execution/program.h"
#include "runtime/session.h"
#include "runtime/tools/references.h"

namespace cotan::testing {
namespace {

using Clock = std::chrono::steady_clock;

double MicrosecondsSince(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

absl::StatusOr<Tensor> RandomArgument(const serialization::TensorType& type, int64_t max_index,
                                      std::mt19937_64& random) {
  std::vector<int64_t> sizes;
  for (const std::string& text : type.sizes()) {
    if (!absl::SimpleAtoi(text, &sizes.emplace_back())) {
      return absl::UnimplementedError(
          absl::StrCat("the artifact has no recorded run, and an argument has the dynamic size ", text));
    }
  }
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Zeros(static_cast<DType>(type.dtype()), sizes));
  std::normal_distribution<float> normal;
  if (float* const values = tensor.data<float>()) {
    std::generate_n(values, tensor.num_elements(), [&] { return normal(random); });
  } else if (int64_t* const numbers = tensor.data<int64_t>()) {
    std::generate_n(numbers, tensor.num_elements(),
                    [&] { return static_cast<int64_t>(random() % static_cast<uint64_t>(max_index)); });
  } else if (tensor.num_elements() > 0) {
    return absl::UnimplementedError(absl::StrCat("no random arguments like ", tensor.ToString()));
  }
  return tensor;
}

// Returns arguments on the host.
absl::StatusOr<std::vector<Tensor>> Arguments(const Program& program, const StepBenchOptions& options) {
  if (const auto reference = tools::FindReference(program, options.method); reference.ok()) {
    return tools::LoadArguments(program, **reference, HostDevice());
  }
  COTAN_ASSIGN_OR_RETURN(const int index, program.FindMethod(options.method));
  std::mt19937_64 random(1);
  std::vector<Tensor> arguments;
  for (const uint32_t value : program.method(index).inputs()) {
    COTAN_ASSIGN_OR_RETURN(
        arguments.emplace_back(),
        RandomArgument(program.method(index).values(static_cast<int>(value)).type(), options.max_index, random));
  }
  return arguments;
}

// A session with the arguments and results of one method.
class Steps {
 public:
  static absl::StatusOr<Steps> Create(const ToolDevice& device, const StepBenchOptions& options) {
    COTAN_ASSIGN_OR_RETURN(std::shared_ptr<const Program> program, Program::Load(options.artifact, RecordedRuns::kMap));
    COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, {.kernels = &device.kernels(),
                                                                      .device = &device.device(),
                                                                      .communicator = options.communicator}));
    Steps steps(std::move(session));
    COTAN_ASSIGN_OR_RETURN(steps.method_, steps.session_.FindMethod(options.method));
    COTAN_ASSIGN_OR_RETURN(steps.batches_.emplace_back(), Arguments(*program, options));
    if (options.host_arguments) {
      // Two batches in turns: nothing of the one before can be reused.
      std::vector<Tensor> other;
      for (const Tensor& tensor : steps.batches_[0]) {
        COTAN_ASSIGN_OR_RETURN(other.emplace_back(), tensor.Clone());
      }
      steps.batches_.push_back(std::move(other));
    } else {
      for (Tensor& tensor : steps.batches_[0]) {
        COTAN_ASSIGN_OR_RETURN(tensor, tensor.ToDevice(device.device()));
      }
    }
    steps.results_.resize(static_cast<size_t>(steps.session_.NumResults(steps.method_)));
    return steps;
  }

  absl::Status Run() { return session_.Run(method_, batches_[count_++ % batches_.size()], absl::MakeSpan(results_)); }

  // Waits, and copies the last result to the host if it is a loss. Returns no value if it is none.
  absl::StatusOr<std::optional<float>> ReadLoss() {
    COTAN_RETURN_IF_ERROR(session_.Synchronize());
    if (results_.empty() || results_.back().dtype() != DType::kFloat32 || results_.back().num_elements() != 1) {
      return std::nullopt;
    }
    COTAN_ASSIGN_OR_RETURN(const float loss, results_.back().Item<float>());
    return loss;
  }

  const Session& session() const { return session_; }
  MethodHandle method() const { return method_; }

 private:
  explicit Steps(Session session) : session_(std::move(session)) {}

  Session session_;
  MethodHandle method_;
  std::vector<std::vector<Tensor>> batches_;
  std::vector<Tensor> results_;
  size_t count_ = 0;
};

// Runs a step, waits for it, and notes its loss.
absl::Status RunAndWait(Steps& steps, StepBenchResult& result) {
  COTAN_RETURN_IF_ERROR(steps.Run());
  COTAN_ASSIGN_OR_RETURN(const std::optional<float> loss, steps.ReadLoss());
  if (loss.has_value()) result.losses.push_back(*loss);
  return absl::OkStatus();
}

absl::Status Measure(Steps& steps, const StepBenchOptions& options, StepBenchResult& result) {
  std::vector<double> block_us, host_us;
  while (result.steps < options.steps) {
    const int count = std::min(options.block, options.steps - result.steps);
    const Clock::time_point start = Clock::now();
    for (int i = 0; i < count; ++i) {
      const Clock::time_point call = Clock::now();
      COTAN_RETURN_IF_ERROR(steps.Run());
      host_us.push_back(MicrosecondsSince(call));
    }
    COTAN_RETURN_IF_ERROR(steps.ReadLoss().status());
    block_us.push_back(MicrosecondsSince(start) / count);
    result.steps += count;
  }
  result.median_us = Median(block_us);
  result.min_us = *std::min_element(block_us.begin(), block_us.end());
  result.host_us = Median(host_us);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<StepBenchResult> BenchSteps(const ToolDevice& device, const StepBenchOptions& options) {
  if (options.steps < 1 || options.block < 1 || options.warmup < 0 || options.max_index < 1) {
    return absl::InvalidArgumentError("steps, block and max_index are at least 1, warmup at least 0");
  }
  StepBenchResult result;
  const std::optional<int64_t> used_before = device.UsedGpuBytes();
  const Clock::time_point start = Clock::now();
  COTAN_ASSIGN_OR_RETURN(Steps steps, Steps::Create(device, options));
  COTAN_RETURN_IF_ERROR(RunAndWait(steps, result));
  result.first_step_ms = MicrosecondsSince(start) / 1000;
  for (int i = 1; i < options.warmup; ++i) COTAN_RETURN_IF_ERROR(RunAndWait(steps, result));
  if (device.simulated() != nullptr) device.simulated()->gpu().ResetStatistics();
  COTAN_RETURN_IF_ERROR(Measure(steps, options, result));
  if (device.simulated() != nullptr) {
    const cuda::sim::Statistics counts = device.simulated()->gpu().statistics();
    result.graph_nodes = counts.graph_launches == 0 ? 0 : counts.graph_nodes / counts.graph_launches;
  }
  if (used_before.has_value()) result.gpu_bytes = device.UsedGpuBytes().value_or(0) - *used_before;
  COTAN_ASSIGN_OR_RETURN(const PlanSummary plan, steps.session().Summary(steps.method()));
  result.arena_bytes = plan.arena_bytes;
  result.plan_steps = plan.num_steps;
  result.state_bytes = steps.session().state_bytes();
  return result;
}

std::string ToJson(const StepBenchOptions& options, const StepBenchResult& result,
                   const std::vector<std::pair<std::string, std::string>>& labels) {
  const auto optional = [](const std::optional<int64_t>& value) {
    return value.has_value() ? absl::StrCat(*value) : std::string("null");
  };
  std::string json = "{";
  for (const auto& [key, value] : labels) absl::StrAppendFormat(&json, "\"%s\": \"%s\", ", key, value);
  absl::StrAppendFormat(&json, "\"method\": \"%s\", \"inputs\": \"%s\", \"steps\": %d, \"block\": %d, ", options.method,
                        options.host_arguments ? "host" : "resident", result.steps, options.block);
  absl::StrAppendFormat(&json, "\"median_us\": %.2f, \"min_us\": %.2f, \"host_us\": %.2f, \"first_step_ms\": %.1f, ",
                        result.median_us, result.min_us, result.host_us, result.first_step_ms);
  absl::StrAppend(&json, "\"arena_bytes\": ", result.arena_bytes, ", \"state_bytes\": ", result.state_bytes,
                  ", \"plan_steps\": ", result.plan_steps, ", \"gpu_bytes\": ", optional(result.gpu_bytes),
                  ", \"graph_nodes\": ", optional(result.graph_nodes), ", \"losses\": [");
  absl::StrAppend(&json, absl::StrJoin(result.losses, ", ", [](std::string* out, float loss) {
    absl::StrAppendFormat(out, loss == loss ? "%.9g" : "null", loss);
  }));
  return json + "]}";
}

}  // namespace cotan::testing
