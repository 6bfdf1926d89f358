// SPDX-License-Identifier: Apache-2.0

// Graphs and executable graphs.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/sim/sim_driver.h"

namespace cotan::cuda::sim {

using namespace driver;  // The names of the vendor's API. NOLINT(google-build-using-namespace)

namespace {

CUgraphNodeType TypeOf(const Work& work) {
  if (std::holds_alternative<MemoryCopy>(work)) return CU_GRAPH_NODE_TYPE_MEMCPY;
  if (std::holds_alternative<MemoryFill>(work)) return CU_GRAPH_NODE_TYPE_MEMSET;
  if (std::holds_alternative<OrderOnly>(work)) return CU_GRAPH_NODE_TYPE_EMPTY;
  return CU_GRAPH_NODE_TYPE_KERNEL;
}

// Returns whether `copy` is one-dimensional and between memory of the host and the device.
bool IsPlain(const CUDA_MEMCPY3D_v2& copy) {
  const auto known = [](CUmemorytype type) { return type == CU_MEMORYTYPE_HOST || type == CU_MEMORYTYPE_DEVICE; };
  return copy.Height == 1 && copy.Depth == 1 && copy.srcY == 0 && copy.srcZ == 0 && copy.srcLOD == 0 &&
         copy.dstY == 0 && copy.dstZ == 0 && copy.dstLOD == 0 && known(copy.srcMemoryType) &&
         known(copy.dstMemoryType) &&
         !(copy.srcMemoryType == CU_MEMORYTYPE_HOST && copy.dstMemoryType == CU_MEMORYTYPE_HOST);
}

MemoryCopy FromParameters(const CUDA_MEMCPY3D_v2& copy) {
  const bool from_host = copy.srcMemoryType == CU_MEMORYTYPE_HOST, to_host = copy.dstMemoryType == CU_MEMORYTYPE_HOST;
  MemoryCopy result{
      .kind = from_host ? CopyKind::kToDevice
              : to_host ? CopyKind::kToHost
                        : CopyKind::kOnDevice,
      .bytes = copy.WidthInBytes,
  };
  if (from_host) result.host_from = static_cast<const char*>(copy.srcHost) + copy.srcXInBytes;
  if (!from_host) result.device_from = copy.srcDevice + copy.srcXInBytes;
  if (to_host) result.host_to = static_cast<char*>(copy.dstHost) + copy.dstXInBytes;
  if (!to_host) result.device_to = copy.dstDevice + copy.dstXInBytes;
  return result;
}

}  // namespace

CUresult SimDriver::GraphGetNodes(CUgraph graph, CUgraphNode* nodes, size_t* count) {
  const Graph* found = graphs_.Find(graph);
  if (found == nullptr) return InvalidHandle("graph");
  if (count == nullptr) return InvalidValue("cuGraphGetNodes: null");
  const size_t length = found->nodes().size();
  if (nodes != nullptr) {
    for (size_t i = 0; i < *count; ++i) nodes[i] = i < length ? found->nodes()[i].handle : nullptr;
  }
  *count = nodes == nullptr ? length : std::min(length, *count);
  return CUDA_SUCCESS;
}

CUresult SimDriver::GraphNodeGetType(CUgraphNode node, CUgraphNodeType* type) {
  if (type == nullptr) return InvalidValue("cuGraphNodeGetType: null");
  for (const auto& [handle, graph] : graphs_.objects()) {
    for (const GraphNode& candidate : graph->nodes()) {
      if (candidate.handle != node) continue;
      *type = TypeOf(candidate.work);
      return CUDA_SUCCESS;
    }
  }
  return InvalidHandle("graph node");
}

CUresult SimDriver::GraphInstantiate(CUgraphExec* exec, CUgraph graph, unsigned long long flags) {
  const Graph* found = graphs_.Find(graph);
  if (found == nullptr) return InvalidHandle("graph");
  if (exec == nullptr || flags != 0) {
    return InvalidValue("cuGraphInstantiateWithFlags: null, or flags, of which the simulated GPU has none");
  }
  auto executable = std::make_unique<ExecutableGraph>(graph, *found, memory_, queue_);
  for (const Work* work : executable->Works()) {
    const auto* call = std::get_if<KernelCall>(work);
    if (call != nullptr && call->kernel->unloaded) {
      return InvalidValue(absl::StrCat("cuGraphInstantiateWithFlags: ", NameOf(*work), " is of an unloaded module"));
    }
  }
  *exec = executables_.Add(std::move(executable));
  return CUDA_SUCCESS;
}

CUresult SimDriver::FindNode(CUgraphExec exec, CUgraphNode node, ExecutableGraph*& graph, int& index) {
  graph = executables_.Find(exec);
  if (graph == nullptr) return InvalidHandle("executable graph");
  if (graphs_.Find(graph->source()) == nullptr) return InvalidHandle("graph of the executable graph");
  index = graph->Find(node);
  return index < 0 ? InvalidHandle("node in the graph of the executable graph") : CUDA_SUCCESS;
}

CUresult SimDriver::GraphExecKernelNodeSetParams(CUgraphExec exec, CUgraphNode node,
                                                 const CUDA_KERNEL_NODE_PARAMS_v2* parameters) {
  ExecutableGraph* graph = nullptr;
  int index = 0;
  if (const CUresult result = FindNode(exec, node, graph, index); result != CUDA_SUCCESS) return result;
  if (parameters == nullptr || parameters->func == nullptr || parameters->kern != nullptr) {
    return InvalidValue(
        "cuGraphExecKernelNodeSetParams_v2: null, or a CUkernel, which the simulated GPU does not have");
  }
  const auto* before = std::get_if<KernelCall>(&graph->work(index));
  if (before == nullptr) {
    return Fail(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                absl::StrCat("cuGraphExecKernelNodeSetParams_v2: the node is a ", NameOf(graph->work(index)),
                             ", not a kernel of a module"));
  }
  KernelCall call;
  if (const CUresult result = MakeCall(*parameters, call); result != CUDA_SUCCESS) return result;
  call.launch.begins_early = before->launch.begins_early;  // The edges of the graph stay.
  graph->SetWork(index, std::move(call), memory_);
  return CUDA_SUCCESS;
}

CUresult SimDriver::GraphExecMemcpyNodeSetParams(CUgraphExec exec, CUgraphNode node, const CUDA_MEMCPY3D_v2* copy,
                                                 CUcontext context) {
  ExecutableGraph* graph = nullptr;
  int index = 0;
  if (const CUresult result = FindNode(exec, node, graph, index); result != CUDA_SUCCESS) return result;
  if (copy == nullptr || context != context_ || !IsPlain(*copy) || copy->WidthInBytes == 0) {
    return InvalidValue(
        "cuGraphExecMemcpyNodeSetParams: null, another context, or no one-dimensional copy with the device");
  }
  const MemoryCopy changed = FromParameters(*copy);
  const auto* before = std::get_if<MemoryCopy>(&graph->work(index));
  if (before == nullptr || before->kind != changed.kind) {
    return Fail(CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE,
                absl::StrCat("cuGraphExecMemcpyNodeSetParams: the node is a ", NameOf(graph->work(index)),
                             ", not one like the ", NameOf(changed)));
  }
  if (const CUresult result = CheckCopy(changed, false); result != CUDA_SUCCESS) return result;
  graph->SetWork(index, changed, memory_);
  return CUDA_SUCCESS;
}

CUresult SimDriver::GraphLaunch(CUgraphExec exec, CUstream handle) {
  ExecutableGraph* graph = executables_.Find(exec);
  Stream* stream = FindStream(handle);
  if (graph == nullptr) return InvalidHandle("executable graph");
  if (stream == nullptr) return InvalidHandle("stream");
  if (const CUresult result = CheckNotCapturing(*stream, "cuGraphLaunch"); result != CUDA_SUCCESS) return result;
  if (stream == &legacy_) {
    if (const CUresult result = CheckLegacyAllowed(); result != CUDA_SUCCESS) return result;
  }
  if (const absl::Status status = graph->CheckAlive(memory_); !status.ok()) return InvalidValue(status.message());
  std::vector<Work> works;
  for (const Work* work : graph->Works()) works.push_back(*work);
  if (const absl::Status status = PrepareHostMemory(works); !status.ok()) return InvalidValue(status.message());
  ++statistics_.graph_launches;
  statistics_.graph_nodes += static_cast<int64_t>(works.size());
  stream->last = graph->Queue(queue_, stream->lane, ImplicitOrder(*stream), std::move(works));
  return CUDA_SUCCESS;
}

CUresult SimDriver::GraphExecDestroy(CUgraphExec exec) {
  if (executables_.Find(exec) == nullptr) return InvalidHandle("executable graph");
  executables_.Remove(exec);
  return CUDA_SUCCESS;
}

CUresult SimDriver::GraphDestroy(CUgraph graph) {
  if (graphs_.Find(graph) == nullptr) return InvalidHandle("graph");
  graphs_.Remove(graph);
  return CUDA_SUCCESS;
}

}  // namespace cotan::cuda::sim
