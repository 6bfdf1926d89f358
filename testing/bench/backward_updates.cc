// SPDX-License-Identifier: Apache-2.0

#include "testing/bench/backward_updates.h"

#include <ATen/ATen.h>
#include <malloc.h>

#include <cstddef>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "aot/compile.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"

namespace cotan::testing {
namespace {

constexpr int kSteps = 3;
constexpr float kLearningRate = 1e-3F;

// Returns a field of /proc/self/status, in bytes.
absl::StatusOr<int64_t> StatusField(absl::string_view name) {
  std::ifstream status("/proc/self/status");
  std::string line;
  while (std::getline(status, line)) {
    const std::vector<absl::string_view> words = absl::StrSplit(line, absl::ByAnyChar(": \t"), absl::SkipEmpty());
    int64_t kibibytes = 0;
    if (words.size() < 2 || words[0] != name || !absl::SimpleAtoi(words[1], &kibibytes)) continue;
    return kibibytes << 10;
  }
  return absl::UnimplementedError(absl::StrCat("/proc/self/status has no ", name, "; measure on Linux"));
}

// Returns unused heap memory to the system, and restarts the measurement of the peak at the present size.
absl::Status RestartPeak() {
  malloc_trim(0);
  std::ofstream clear("/proc/self/clear_refs");
  clear << "5" << std::flush;
  if (clear.good()) return absl::OkStatus();
  return absl::UnimplementedError("/proc/self/clear_refs cannot be written; measure on Linux");
}

absl::StatusOr<std::shared_ptr<const Program>> CompileLayer(const UpdatedNetwork& network) {
  const auto layer = [](const std::vector<at::Tensor>& in) -> std::vector<at::Tensor> {
    return {at::relu(at::linear(in[0], in[1]))};
  };
  const std::vector<at::Tensor> examples = {at::randn({network.batch, network.width}).set_requires_grad(true),
                                            at::randn({network.width, network.width}).set_requires_grad(true)};
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel model, aot::CompileFunction(layer, examples, {}));
  return Program::LoadBytes(model.bytes());
}

absl::StatusOr<Tensor> RandomTensor(int64_t rows, int64_t columns) {
  const at::Tensor values = at::randn({rows, columns}) * 0.05;
  const absl::Span<const float> elements(values.const_data_ptr<float>(), static_cast<size_t>(values.numel()));
  return Tensor::From<float>(elements, {rows, columns});
}

// SGD: w -= rate * gradient, which is freed.
absl::Status Update(Variable& parameter) {
  float* const data = parameter.tensor().data<float>();
  const float* const gradient = parameter.grad().tensor().data<float>();
  for (int64_t i = 0; i < parameter.tensor().num_elements(); ++i) data[i] -= kLearningRate * gradient[i];
  parameter.BumpVersion();
  parameter.ClearGrad();
  return absl::OkStatus();
}

class Trainer {
 public:
  static absl::StatusOr<Trainer> Create(const UpdatedNetwork& network, std::shared_ptr<const Program> program,
                                        bool in_backward) {
    COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, {.kernels = &CpuKernels(), .threads = 1}));
    COTAN_ASSIGN_OR_RETURN(Function function, Function::Create(session, "forward"));
    Trainer trainer(std::move(session), std::move(function));
    COTAN_ASSIGN_OR_RETURN(Tensor input, RandomTensor(network.batch, network.width));
    COTAN_ASSIGN_OR_RETURN(trainer.input_, Variable::Leaf(std::move(input)));
    for (int i = 0; i < network.layers; ++i) {
      COTAN_ASSIGN_OR_RETURN(Tensor values, RandomTensor(network.width, network.width));
      COTAN_ASSIGN_OR_RETURN(Variable weight, Variable::Leaf(std::move(values)));
      if (in_backward) COTAN_RETURN_IF_ERROR(weight.AddPostAccumulateHook(Update).status());
      trainer.weights_.push_back(std::move(weight));
    }
    COTAN_ASSIGN_OR_RETURN(trainer.tangent_, RandomTensor(network.batch, network.width));
    return trainer;
  }

  absl::Status Step() {
    Variable x = input_;
    for (Variable& weight : weights_) {
      COTAN_RETURN_IF_ERROR(function_.Call({x, weight}, results_));
      x = std::get<Variable>(results_[0]);
      results_.clear();
    }
    COTAN_RETURN_IF_ERROR(autograd::Backward({x}, {tangent_}, session_.ops()));
    for (Variable& weight : weights_) {
      if (weight.grad().defined()) COTAN_RETURN_IF_ERROR(Update(weight));
    }
    input_.ClearGrad();
    return absl::OkStatus();
  }

 private:
  Trainer(Session session, Function function) : session_(std::move(session)), function_(std::move(function)) {}

  Session session_;
  Function function_;
  std::vector<FunctionResult> results_;
  Variable input_;
  std::vector<Variable> weights_;
  Tensor tangent_;
};

}  // namespace

absl::StatusOr<int64_t> PeakOfTraining(const UpdatedNetwork& network, bool in_backward, bool captured) {
  COTAN_ASSIGN_OR_RETURN(const auto program, CompileLayer(network));
  COTAN_RETURN_IF_ERROR(RestartPeak());
  COTAN_ASSIGN_OR_RETURN(const int64_t before, StatusField("VmRSS"));
  {
    COTAN_ASSIGN_OR_RETURN(Trainer trainer, Trainer::Create(network, program, in_backward));
    for (int i = 0; i < kSteps; ++i) {
      std::optional<CompiledAutograd> scope;
      if (captured) scope.emplace();
      COTAN_RETURN_IF_ERROR(trainer.Step());
    }
  }
  COTAN_ASSIGN_OR_RETURN(const int64_t peak, StatusField("VmHWM"));
  COTAN_RETURN_IF_ERROR(CompiledAutograd::Reset());
  return peak - before;
}

absl::Status PrintUpdatesInBackward(const UpdatedNetwork& network) {
  // Tensors are returned to the system when they are freed, so that resident memory is what is alive.
  mallopt(M_MMAP_THRESHOLD, 1 << 16);
  const double parameters = static_cast<double>(network.layers * network.width * network.width * 4) / (1 << 20);
  absl::PrintF("\nOptimizer in the backward: %d programs, %.1f MiB of parameters\n\n", network.layers, parameters);
  absl::PrintF("| backward | updates after it: peak MiB | updates in it | saved |\n|---|---|---|---|\n");
  for (const bool captured : {false, true}) {
    COTAN_ASSIGN_OR_RETURN(const int64_t after, PeakOfTraining(network, /*in_backward=*/false, captured));
    COTAN_ASSIGN_OR_RETURN(const int64_t inside, PeakOfTraining(network, /*in_backward=*/true, captured));
    const auto mebibytes = [](int64_t bytes) { return static_cast<double>(bytes) / (1 << 20); };
    absl::PrintF("| %-8s | %9.1f | %9.1f | %9.1f |\n", captured ? "captured" : "walked", mebibytes(after),
                 mebibytes(inside), mebibytes(after - inside));
  }
  return absl::OkStatus();
}

}  // namespace cotan::testing
