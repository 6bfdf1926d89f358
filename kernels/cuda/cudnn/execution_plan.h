// SPDX-License-Identifier: Apache-2.0

// The choice of an engine of cuDNN for an operation graph, and its execution.
#ifndef COTAN_KERNELS_CUDA_CUDNN_EXECUTION_PLAN_H_
#define COTAN_KERNELS_CUDA_CUDNN_EXECUTION_PLAN_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/cuda/cudnn/cudnn.h"

namespace cotan::cuda {

// Which engines may compute an operation graph. Engines whose results differ from run to run never may, nor those that
// sum in less than f32, nor those that convert f32 operands to a dtype of 16 bits.
struct EnginePolicy {
  // f32 and f64 operands are not rounded: no tensor cores. False: tensor cores round f32 operands to TF32 (10 fraction
  // bits); f16 and bf16 operands are not rounded either way.
  bool keep_input_precision = true;
  size_t max_workspace_bytes = size_t{256} << 20;
};

// Returns whether an engine with these numerical notes may be used.
bool IsEngineAllowed(absl::Span<const cudnn::cudnnBackendNumericalNote_t> notes, const EnginePolicy& policy);

// An operation graph with a chosen engine. Its Cudnn outlives it.
class ExecutionPlan {
 public:
  // Makes a plan of `operations`, finalized operation descriptors that are one graph: of the engines that the
  // heuristics propose, best first, and of the fallback engines, the first that is allowed and supported.
  // Unimplemented: no engine supports the graph; the message has cuDNN's last reason.
  static absl::StatusOr<ExecutionPlan> Create(const Cudnn& cudnn, absl::Span<const CudnnDescriptor> operations,
                                              const EnginePolicy& policy);

  // Returns a plan with the engine of an earlier one for the same `key`, which names the operations, the layouts of
  // their operands and the policy, if that one is still in use. Otherwise returns what `make` does. cuDNN compiles some
  // plans at run time, so that each takes up to a second.
  static absl::StatusOr<ExecutionPlan> FindOrMake(Cudnn& cudnn, absl::string_view key,
                                                  absl::FunctionRef<absl::StatusOr<ExecutionPlan>()> make);

  size_t workspace_bytes() const { return plan_->workspace_bytes; }
  int64_t engine() const { return plan_->engine; }  // cuDNN's number of the engine
  const std::vector<cudnn::cudnnBackendNumericalNote_t>& notes() const { return plan_->notes; }

  // Queues the operations; pointers[i] is the device address of the tensor with the unique id ids[i], or the host's
  // address of one that is passed by value. The workspace of `cudnn` has workspace_bytes().
  // Internal: cuDNN failed; the message is its own.
  absl::Status Execute(const Cudnn& cudnn, absl::Span<const int64_t> ids, absl::Span<void* const> pointers);

 private:
  explicit ExecutionPlan(std::shared_ptr<const CudnnPlan> plan) : plan_(std::move(plan)) {}
  // Makes the plan of one engine, if the policy allows it.
  static absl::StatusOr<ExecutionPlan> OfConfig(const Cudnn& cudnn, const CudnnDescriptor& config,
                                                const EnginePolicy& policy);

  std::shared_ptr<const CudnnPlan> plan_;
  // The pointers of the last execution, which the next one has, too, in most cases.
  std::optional<CudnnDescriptor> pack_;
  std::vector<void*> pack_pointers_;
  void* pack_workspace_ = nullptr;
};

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CUDNN_EXECUTION_PLAN_H_
