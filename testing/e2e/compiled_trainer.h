// SPDX-License-Identifier: Apache-2.0

// Trains a model that is compiled in this process, written to a file and loaded by the runtime.
#ifndef COTAN_TESTING_E2E_COMPILED_TRAINER_H_
#define COTAN_TESTING_E2E_COMPILED_TRAINER_H_

#include <torch/torch.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "aot/compile.h"
#include "aot/dynamic/dynamic_dim.h"
#include "aot/optimizer/optimizer.h"
#include "base/dtype.h"
#include "runtime/session.h"
#include "testing/models/models.h"

namespace cotan::testing {

struct CompiledTrainerOptions {
  uint64_t seed = 0;  // of the initial parameters
  aot::OptimizerConfig optimizer;
  DType autocast = DType::kUndefined;
  std::vector<aot::DynamicDim> dynamic_dims = {};
  bool accumulate = false;  // methods accumulate and apply_optimizer instead of train_step
  int threads = 1;
  bool flush_denormals = false;
  std::optional<aot::MemoryLimit> max_memory = {};
  std::optional<aot::MemoryTarget> memory_target = {};
  bool outline_repeats = true;
  aot::MethodOptions methods = {};  // `accumulate` replaces its field
  aot::PartitionOptions partition = {};
  aot::SavedTensorHooks saved_tensor_hooks = {};
};

// The counterpart of EagerTrainer. The session's generator starts at seed 0,
// offset 0. `model` outlives it.
class CompiledTrainer {
 public:
  // Compiles `model` for batches like `input` and `label`.
  static absl::StatusOr<std::unique_ptr<CompiledTrainer>> Create(const ModelCase& model, const torch::Tensor& input,
                                                                 const torch::Tensor& label,
                                                                 const CompiledTrainerOptions& options);

  // Runs the fused step; returns the loss.
  absl::StatusOr<double> Step(const torch::Tensor& input, const torch::Tensor& label);
  // Runs the method "accumulate"; requires that the model was compiled with it.
  absl::StatusOr<double> Accumulate(const torch::Tensor& input, const torch::Tensor& label);
  absl::Status Update();

  // Returns gradients by parameter, from the methods forward and backward, with the loss between
  // them computed by LibTorch.
  absl::StatusOr<std::map<std::string, torch::Tensor>> Gradients(const torch::Tensor& input,
                                                                 const torch::Tensor& label);
  // Returns the network's output in eval mode.
  absl::StatusOr<torch::Tensor> Predict(const torch::Tensor& input);

  // Returns copies of parameters, buffers and optimizer slots by name.
  absl::StatusOr<std::map<std::string, torch::Tensor>> States() const;

  Session& session() { return session_; }

 private:
  CompiledTrainer(const ModelCase& model, Session session) : model_(model), session_(std::move(session)) {}
  absl::StatusOr<std::vector<torch::Tensor>> Call(absl::string_view method, const std::vector<torch::Tensor>& inputs);

  const ModelCase& model_;
  Session session_;
};

// Copy between the two tensor types, row-major, for every dtype of Cotan.
absl::StatusOr<Tensor> ToCotan(const torch::Tensor& tensor);
absl::StatusOr<torch::Tensor> ToTorch(const Tensor& tensor);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_E2E_COMPILED_TRAINER_H_
