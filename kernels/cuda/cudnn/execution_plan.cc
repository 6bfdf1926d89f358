// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/cudnn/execution_plan.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::cuda {
namespace {

using namespace cudnn;  // NOLINT(google-build-using-namespace): the vendor's names

constexpr int64_t kMaxConfigs = 128;  // of one heuristic mode
constexpr int64_t kMaxNotes = 16;

// Returns the engine configurations that a heuristic proposes, best first.
absl::StatusOr<std::vector<CudnnDescriptor>> ProposedConfigs(const Cudnn& cudnn, const CudnnDescriptor& graph,
                                                             cudnnBackendHeurMode_t mode) {
  COTAN_ASSIGN_OR_RETURN(CudnnDescriptor heuristic,
                         CudnnDescriptor::Create(cudnn.table(), CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR));
  COTAN_RETURN_IF_ERROR(heuristic.Set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph));
  COTAN_RETURN_IF_ERROR(heuristic.Set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, 1, &mode));
  COTAN_RETURN_IF_ERROR(heuristic.Set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, cudnn.device_properties()));
  COTAN_RETURN_IF_ERROR(heuristic.Finalize());
  COTAN_ASSIGN_OR_RETURN(int64_t count,
                         heuristic.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, nullptr));
  count = std::min(count, kMaxConfigs);
  std::vector<CudnnDescriptor> configs;
  std::vector<cudnnBackendDescriptor_t> handles;
  for (int64_t i = 0; i < count; ++i) {
    COTAN_ASSIGN_OR_RETURN(CudnnDescriptor config,
                           CudnnDescriptor::Create(cudnn.table(), CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
    handles.push_back(config.get());
    configs.push_back(std::move(config));
  }
  if (count == 0) return configs;
  COTAN_ASSIGN_OR_RETURN(const int64_t found, heuristic.Get(CUDNN_ATTR_ENGINEHEUR_RESULTS,
                                                            CUDNN_TYPE_BACKEND_DESCRIPTOR, count, handles.data()));
  configs.erase(configs.begin() + std::min(found, count), configs.end());
  return configs;
}

}  // namespace

bool IsEngineAllowed(absl::Span<const cudnnBackendNumericalNote_t> notes, const EnginePolicy& policy) {
  return std::none_of(notes.begin(), notes.end(), [&](cudnnBackendNumericalNote_t note) {
    switch (note) {
      case CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC:
      case CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION:
      case CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_13x13:  // loses several digits
        return true;
      case CUDNN_NUMERICAL_NOTE_TENSOR_CORE:
        return policy.keep_input_precision;
      case CUDNN_NUMERICAL_NOTE_FFT:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_4x4:
      case CUDNN_NUMERICAL_NOTE_WINOGRAD_TILE_6x6:
        return !policy.keep_input_precision;  // transforms in f16 or bf16 lose digits; those in f32 do not matter
      default:
        return false;
    }
  });
}

absl::StatusOr<ExecutionPlan> ExecutionPlan::OfConfig(const Cudnn& cudnn, const CudnnDescriptor& config,
                                                      const EnginePolicy& policy) {
  COTAN_ASSIGN_OR_RETURN(const CudnnDescriptor engine,
                         CudnnDescriptor::Create(cudnn.table(), CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  cudnnBackendDescriptor_t handle = engine.get();
  COTAN_RETURN_IF_ERROR(config.Get(CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &handle).status());
  std::vector<cudnnBackendNumericalNote_t> notes(kMaxNotes);
  COTAN_ASSIGN_OR_RETURN(const int64_t num_notes, engine.Get(CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
                                                             CUDNN_TYPE_NUMERICAL_NOTE, kMaxNotes, notes.data()));
  notes.resize(static_cast<size_t>(std::min(num_notes, kMaxNotes)));
  int64_t number = -1;
  COTAN_RETURN_IF_ERROR(engine.Get(CUDNN_ATTR_ENGINE_GLOBAL_INDEX, CUDNN_TYPE_INT64, 1, &number).status());
  if (!IsEngineAllowed(notes, policy)) {
    return absl::UnimplementedError(absl::StrCat("engine ", number, " is not deterministic or not precise enough"));
  }
  COTAN_ASSIGN_OR_RETURN(CudnnDescriptor descriptor,
                         CudnnDescriptor::Create(cudnn.table(), CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
  COTAN_RETURN_IF_ERROR(descriptor.Set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config));
  COTAN_RETURN_IF_ERROR(descriptor.Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, cudnn.device_properties()));
  COTAN_RETURN_IF_ERROR(descriptor.Finalize());
  int64_t workspace_bytes = 0;
  COTAN_RETURN_IF_ERROR(
      descriptor.Get(CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, 1, &workspace_bytes).status());
  if (static_cast<size_t>(workspace_bytes) > policy.max_workspace_bytes) {
    return absl::UnimplementedError(absl::StrCat("engine ", number, " needs a workspace of ", workspace_bytes,
                                                 " bytes, allowed are ", policy.max_workspace_bytes));
  }
  return ExecutionPlan(std::make_shared<const CudnnPlan>(
      CudnnPlan{std::move(descriptor), static_cast<size_t>(workspace_bytes), number, std::move(notes)}));
}

absl::StatusOr<ExecutionPlan> ExecutionPlan::FindOrMake(Cudnn& cudnn, absl::string_view key,
                                                        absl::FunctionRef<absl::StatusOr<ExecutionPlan>()> make) {
  if (std::shared_ptr<const CudnnPlan> plan = cudnn.FindPlan(key); plan != nullptr) {
    return ExecutionPlan(std::move(plan));
  }
  absl::StatusOr<ExecutionPlan> made = make();
  if (made.ok()) cudnn.StorePlan(key, made->plan_);
  return made;
}

absl::StatusOr<ExecutionPlan> ExecutionPlan::Create(const Cudnn& cudnn, absl::Span<const CudnnDescriptor> operations,
                                                    const EnginePolicy& policy) {
  std::vector<cudnnBackendDescriptor_t> handles;
  for (const CudnnDescriptor& operation : operations) handles.push_back(operation.get());
  COTAN_ASSIGN_OR_RETURN(CudnnDescriptor graph,
                         CudnnDescriptor::Create(cudnn.table(), CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR));
  COTAN_RETURN_IF_ERROR(graph.Set(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                  static_cast<int64_t>(handles.size()), handles.data()));
  COTAN_RETURN_IF_ERROR(graph.Finalize());
  absl::Status reason = absl::UnimplementedError("the heuristics propose no engine");
  for (const cudnnBackendHeurMode_t mode : {CUDNN_HEUR_MODE_A, CUDNN_HEUR_MODE_FALLBACK}) {
    const absl::StatusOr<std::vector<CudnnDescriptor>> configs = ProposedConfigs(cudnn, graph, mode);
    if (!configs.ok()) {
      reason = configs.status();
      continue;
    }
    for (const CudnnDescriptor& config : *configs) {
      absl::StatusOr<ExecutionPlan> plan = OfConfig(cudnn, config, policy);
      if (plan.ok()) return plan;
      reason = plan.status();
    }
  }
  return absl::UnimplementedError(absl::StrCat("no engine of cuDNN supports the operation: ", reason.message()));
}

absl::Status ExecutionPlan::Execute(const Cudnn& cudnn, absl::Span<const int64_t> ids,
                                    absl::Span<void* const> pointers) {
  void* workspace = plan_->workspace_bytes == 0 ? nullptr : cudnn.workspace();
  const bool is_same = pack_.has_value() && workspace == pack_workspace_ &&
                       std::equal(pointers.begin(), pointers.end(), pack_pointers_.begin(), pack_pointers_.end());
  if (!is_same) {
    pack_.reset();
    COTAN_ASSIGN_OR_RETURN(CudnnDescriptor pack,
                           CudnnDescriptor::Create(cudnn.table(), CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR));
    COTAN_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, ids));
    COTAN_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR,
                                   static_cast<int64_t>(pointers.size()), pointers.data()));
    COTAN_RETURN_IF_ERROR(pack.Set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &workspace));
    COTAN_RETURN_IF_ERROR(pack.Finalize());
    pack_ = std::move(pack);
    pack_pointers_.assign(pointers.begin(), pointers.end());
    pack_workspace_ = workspace;
  }
  const absl::Status status = cudnn.table().ToStatus(
      cudnn.table().cudnnBackendExecute(cudnn.handle(), plan_->descriptor.get(), pack_->get()), "cudnnBackendExecute");
  return status.ok() ? status : absl::InternalError(status.message());
}

}  // namespace cotan::cuda
