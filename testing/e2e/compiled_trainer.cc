// SPDX-License-Identifier: Apache-2.0

#include "testing/e2e/compiled_trainer.h"

#include <gtest/gtest.h>

#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "aot/capture/tensor_data.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/execution/program.h"
#include "serialization/schema/program.pb.h"

namespace cotan::testing {
namespace {

using TensorMap = std::map<std::string, torch::Tensor>;

absl::StatusOr<std::string> Compile(const ModelCase& model, const torch::Tensor& input, const torch::Tensor& label,
                                    const CompiledTrainerOptions& options) {
  aot::CompileOptions compile;
  compile.loss.function = [&model](const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& targets) {
    return model.loss(outputs[0], targets[0]);
  };
  compile.loss.targets = {label};
  compile.optimizer = options.optimizer;
  compile.dynamic_dims = options.dynamic_dims;
  compile.partitioner = options.partition.partitioner;
  compile.activation_memory_budget = options.partition.activation_memory_budget;
  compile.save_policy = options.partition.save_policy;
  compile.methods = options.methods;
  compile.methods.accumulate = options.accumulate;
  compile.tracing.autocast = options.autocast;
  compile.module.seed = options.seed;
  compile.debug.store_references = false;
  compile.max_memory = options.max_memory;
  compile.memory_target = options.memory_target;
  compile.outline_repeats = options.outline_repeats;
  compile.saved_tensor_hooks = options.saved_tensor_hooks;
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel compiled, aot::CompileModule(model.make_network, {input}, compile));
  // Each trainer has its own file, which the runtime maps.
  static int num_files = 0;
  const std::string path = absl::StrCat(::testing::TempDir(), "/", model.name, num_files++, ".cotan");
  COTAN_RETURN_IF_ERROR(compiled.Save(path));
  return path;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CompiledTrainer>> CompiledTrainer::Create(const ModelCase& model,
                                                                         const torch::Tensor& input,
                                                                         const torch::Tensor& label,
                                                                         const CompiledTrainerOptions& options) {
  COTAN_ASSIGN_OR_RETURN(const std::string path, Compile(model, input, label, options));
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::Load(path));
  const SessionOptions session_options = {
      .kernels = &CpuKernels(), .threads = options.threads, .flush_denormals = options.flush_denormals};
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, session_options));
  std::unique_ptr<CompiledTrainer> trainer(new CompiledTrainer(model, std::move(session)));
  if (trainer->session().Rng().ok()) {
    COTAN_RETURN_IF_ERROR(trainer->session().SetRng(RngState{}));
  }
  return trainer;
}

absl::StatusOr<std::vector<torch::Tensor>> CompiledTrainer::Call(absl::string_view method,
                                                                 const std::vector<torch::Tensor>& inputs) {
  std::vector<Tensor> arguments;
  for (const torch::Tensor& input : inputs) {
    COTAN_ASSIGN_OR_RETURN(arguments.emplace_back(), ToCotan(input));
  }
  COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> results, session_.Run(method, arguments));
  std::vector<torch::Tensor> outputs;
  for (const Tensor& result : results) {
    COTAN_ASSIGN_OR_RETURN(outputs.emplace_back(), ToTorch(result));
  }
  return outputs;
}

absl::StatusOr<double> CompiledTrainer::Step(const torch::Tensor& input, const torch::Tensor& label) {
  COTAN_ASSIGN_OR_RETURN(const auto outputs, Call("train_step", {input, label}));
  return outputs.back().item<double>();
}

absl::StatusOr<double> CompiledTrainer::Accumulate(const torch::Tensor& input, const torch::Tensor& label) {
  COTAN_ASSIGN_OR_RETURN(const auto outputs, Call("accumulate", {input, label}));
  return outputs.back().item<double>();
}

absl::Status CompiledTrainer::Update() { return Call("apply_optimizer", {}).status(); }

absl::StatusOr<TensorMap> CompiledTrainer::Gradients(const torch::Tensor& input, const torch::Tensor& label) {
  COTAN_ASSIGN_OR_RETURN(const auto outputs, Call("forward", {input}));
  // The caller computes the loss and its gradient; here LibTorch does, in f32, because some losses accept
  // only f32.
  const torch::Tensor output = outputs[0].detach().requires_grad_();
  model_.loss(output.to(torch::kFloat), label).backward();
  COTAN_RETURN_IF_ERROR(Call("backward", {output.grad()}).status());
  TensorMap gradients;
  for (const serialization::State& state : session_.program().artifact().states()) {
    if (state.role() != serialization::State::PARAMETER || !state.requires_grad()) continue;
    COTAN_ASSIGN_OR_RETURN(const Tensor gradient, session_.Gradient(state.name()));
    COTAN_ASSIGN_OR_RETURN(gradients[state.name()], ToTorch(gradient));
  }
  return gradients;
}

absl::StatusOr<torch::Tensor> CompiledTrainer::Predict(const torch::Tensor& input) {
  COTAN_ASSIGN_OR_RETURN(const auto outputs, Call("eval", {input}));
  return outputs[0];
}

absl::StatusOr<TensorMap> CompiledTrainer::States() const {
  using State = serialization::State;
  TensorMap states;
  for (const State& state : session_.program().artifact().states()) {
    const bool compared =
        state.role() == State::PARAMETER || state.role() == State::BUFFER || state.role() == State::OPTIMIZER_SLOT;
    if (!compared) continue;
    COTAN_ASSIGN_OR_RETURN(const Tensor value, session_.State(state.name()));
    COTAN_ASSIGN_OR_RETURN(states[state.name()], ToTorch(value));
  }
  return states;
}

absl::StatusOr<Tensor> ToCotan(const torch::Tensor& tensor) {
  const torch::Tensor dense = tensor.detach().contiguous();
  COTAN_ASSIGN_OR_RETURN(Tensor copy, Tensor::Empty(aot::ToDType(dense.scalar_type()), dense.sizes()));
  if (dense.nbytes() > 0) std::memcpy(copy.address(), dense.const_data_ptr(), dense.nbytes());
  return copy;
}

absl::StatusOr<torch::Tensor> ToTorch(const Tensor& tensor) {
  COTAN_ASSIGN_OR_RETURN(const Tensor dense, tensor.Contiguous());
  torch::Tensor copy =
      torch::empty(std::vector<int64_t>(dense.sizes().begin(), dense.sizes().end()), aot::ToScalarType(dense.dtype()));
  if (copy.nbytes() > 0) std::memcpy(copy.mutable_data_ptr(), dense.address(), copy.nbytes());
  return copy;
}

}  // namespace cotan::testing
