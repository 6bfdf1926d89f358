// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/cudnn/graph_call.h"

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::cuda::sim {
namespace {

using namespace cudnn;  // NOLINT(google-build-using-namespace): the vendor's names

constexpr std::byte kRubbish{0xa5};

bool Overlap(uint64_t a, int64_t a_bytes, uint64_t b, int64_t b_bytes) {
  return a < b + static_cast<uint64_t>(b_bytes) && b < a + static_cast<uint64_t>(a_bytes);
}

}  // namespace

absl::StatusOr<std::shared_ptr<GraphCall>> GraphCall::Create(const LoggedDescriptor& plan, int64_t workspace_bytes) {
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const LoggedDescriptor> config,
                         plan.Descriptor(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG));
  if (config == nullptr || config->proposed_by == nullptr) {
    return absl::FailedPreconditionError("the engine configuration of a plan does not come from a heuristic");
  }
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const LoggedDescriptor> graph,
                         config->proposed_by->Descriptor(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
  COTAN_ASSIGN_OR_RETURN(const LoggedDescriptor::Attribute* operations, graph->Find(CUDNN_ATTR_OPERATIONGRAPH_OPS));
  auto call = std::make_shared<GraphCall>();
  call->workspace_bytes_ = workspace_bytes;
  call->rounds_to_tf32_ = std::find(plan.engine_notes.begin(), plan.engine_notes.end(),
                                    CUDNN_NUMERICAL_NOTE_TENSOR_CORE) != plan.engine_notes.end();
  for (const std::shared_ptr<const LoggedDescriptor>& operation : operations->descriptors) {
    COTAN_RETURN_IF_ERROR(call->AddOperation(*operation));
  }
  call->label_ = absl::StrCat("cudnn ", call->operations_[0]->label());
  if (call->operations_.size() > 1) absl::StrAppend(&call->label_, " and ", call->operations_.size() - 1, " more");
  return call;
}

absl::Status GraphCall::AddOperation(const LoggedDescriptor& descriptor) {
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<GraphOperation> operation, ReadOperation(descriptor));
  for (const TensorInfo& input : operation->inputs()) COTAN_RETURN_IF_ERROR(AddInput(input));
  const TensorInfo& output = operation->output();
  if (output.is_by_value || !known_.emplace(output.id, output).second) {
    return absl::FailedPreconditionError(absl::StrCat("tensor ", output.id, " of a graph is computed twice, after it ",
                                                      "was read, or although it is passed by value"));
  }
  if (!output.is_virtual) results_.push_back(output);
  operations_.push_back(std::move(operation));
  return absl::OkStatus();
}

absl::Status GraphCall::AddInput(const TensorInfo& tensor) {
  if (!known_.contains(tensor.id)) {
    if (tensor.is_virtual) {
      return absl::FailedPreconditionError(
          absl::StrCat("the virtual tensor ", tensor.id, " of a graph is read before it is computed"));
    }
    (tensor.is_by_value ? values_ : inputs_).push_back(tensor);
  }
  const TensorInfo& known = known_.emplace(tensor.id, tensor).first->second;
  if (known.layout == tensor.layout && known.dtype == tensor.dtype) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("two tensors of a graph have the id ", tensor.id));
}

absl::StatusOr<GraphAddresses> GraphCall::Addresses(const LoggedDescriptor& pack) const {
  COTAN_ASSIGN_OR_RETURN(const auto ids, pack.Values<int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS));
  COTAN_ASSIGN_OR_RETURN(const auto pointers, pack.Values<uint64_t>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS));
  if (ids.size() != pointers.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a variant pack has ", ids.size(), " ids and ", pointers.size(), " pointers"));
  }
  for (size_t i = 0; i < ids.size(); ++i) {
    const auto found = known_.find(ids[i]);
    if (found == known_.end() || found->second.is_virtual) {
      return absl::InvalidArgumentError(absl::StrCat("the variant pack has a pointer of tensor ", ids[i],
                                                     ", which the graph does not have in memory"));
    }
    if (std::find(ids.begin(), ids.begin() + static_cast<ptrdiff_t>(i), ids[i]) !=
        ids.begin() + static_cast<ptrdiff_t>(i)) {
      return absl::InvalidArgumentError(absl::StrCat("the variant pack has two pointers of tensor ", ids[i]));
    }
  }
  const auto find = [&](const TensorInfo& tensor) -> absl::StatusOr<uint64_t> {
    const auto found = std::find(ids.begin(), ids.end(), tensor.id);
    if (found == ids.end()) {
      return absl::InvalidArgumentError(absl::StrCat("the variant pack has no pointer of tensor ", tensor.id));
    }
    const uint64_t address = pointers[static_cast<size_t>(found - ids.begin())];
    const uint64_t alignment = tensor.is_by_value ? 1 : static_cast<uint64_t>(tensor.alignment);
    if (address == 0 || address % alignment != 0) {
      return absl::InvalidArgumentError(absl::StrCat("the address ", absl::Hex(address), " of tensor ", tensor.id,
                                                     " is not aligned to ", alignment,
                                                     " bytes, as its descriptor promises"));
    }
    return address;
  };
  GraphAddresses addresses;
  for (const TensorInfo& input : inputs_) {
    COTAN_ASSIGN_OR_RETURN(const uint64_t address, find(input));
    addresses.inputs.push_back(address);
  }
  for (const TensorInfo& result : results_) {
    COTAN_ASSIGN_OR_RETURN(const uint64_t address, find(result));
    addresses.results.push_back(address);
  }
  for (const TensorInfo& value : values_) {
    COTAN_ASSIGN_OR_RETURN(const uint64_t address, find(value));
    addresses.values.emplace(value.id, LoadValue(value, address));
  }
  if (workspace_bytes_ > 0) {
    COTAN_ASSIGN_OR_RETURN(addresses.workspace, SingleValue<uint64_t>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE));
    if (addresses.workspace == 0 || addresses.workspace % 16 != 0) {
      return absl::InvalidArgumentError(absl::StrCat("the plan needs a workspace of ", workspace_bytes_,
                                                     " bytes, aligned to 16; the variant pack has the address ",
                                                     absl::Hex(addresses.workspace)));
    }
  }
  return addresses;
}

absl::Status GraphCall::CheckMemory(const GraphAddresses& addresses, DeviceMemory& memory) const {
  struct Range {
    std::string name;
    uint64_t address;
    int64_t bytes;
  };
  std::vector<Range> written;
  for (size_t i = 0; i < results_.size(); ++i) {
    written.push_back({absl::StrCat("result ", i), addresses.results[i], results_[i].Bytes()});
  }
  if (workspace_bytes_ > 0) written.push_back({"workspace", addresses.workspace, workspace_bytes_});
  std::vector<Range> read;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    read.push_back({absl::StrCat("input ", i), addresses.inputs[i], inputs_[i].Bytes()});
  }
  for (const std::vector<Range>* ranges : {&written, &read}) {
    for (const Range& range : *ranges) {
      const absl::Status status = memory.CheckBounds(range.address, static_cast<uint64_t>(range.bytes));
      if (status.ok()) continue;
      return absl::Status(status.code(), absl::StrCat(label_, ", ", range.name, ": ", status.message()));
    }
  }
  for (size_t i = 0; i < written.size(); ++i) {
    std::vector<Range> others = read;
    others.insert(others.end(), written.begin(), written.begin() + static_cast<ptrdiff_t>(i));
    for (const Range& other : others) {
      if (!Overlap(written[i].address, written[i].bytes, other.address, other.bytes)) continue;
      return absl::InvalidArgumentError(absl::StrCat(label_, ": ", other.name, " overlaps the ", written[i].name));
    }
  }
  return absl::OkStatus();
}

absl::Status GraphCall::Run(const GraphAddresses& addresses, DeviceMemory& memory) {
  COTAN_RETURN_IF_ERROR(CheckMemory(addresses, memory));
  std::map<int64_t, HostArray> arrays = addresses.values;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(arrays[inputs_[i].id], LoadArray(inputs_[i], addresses.inputs[i], memory));
  }
  if (workspace_bytes_ > 0) {
    COTAN_ASSIGN_OR_RETURN(std::byte * workspace,
                           memory.ViewForWrite(addresses.workspace, static_cast<uint64_t>(workspace_bytes_)));
    std::fill_n(workspace, workspace_bytes_, kRubbish);
  }
  for (const std::unique_ptr<GraphOperation>& operation : operations_) {
    std::vector<const HostArray*> inputs;
    for (const TensorInfo& input : operation->inputs()) inputs.push_back(&arrays[input.id]);
    COTAN_ASSIGN_OR_RETURN(HostArray output, operation->Compute(inputs, rounds_to_tf32_));
    for (double& value : output.values) value = RoundTo(operation->output().dtype, value);
    arrays[operation->output().id] = std::move(output);
  }
  for (size_t i = 0; i < results_.size(); ++i) {
    COTAN_RETURN_IF_ERROR(StoreArray(results_[i], addresses.results[i], arrays[results_[i].id], memory));
  }
  return absl::OkStatus();
}

}  // namespace cotan::cuda::sim
