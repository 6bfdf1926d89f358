// SPDX-License-Identifier: Apache-2.0

#include "aot/saved_tensor_hooks/traced_pair.h"

#include <ATen/ATen.h>

#include <any>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "aot/aotautograd/tracer.h"
#include "aot/capture/tensor_data.h"
#include "aot/ir/text.h"
#include "aot/lowering/lower.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Returns whether the tensor is one block of elements, which can be saved as such.
bool IsDense(const at::Tensor& tensor) {
  return tensor.layout() == at::kStrided && !tensor.is_quantized() && !tensor.is_nested();
}

// Returns the tensor as a result that shares no memory with an argument. Lowering removes the copy.
at::Tensor Result(const at::Tensor& tensor) { return tensor.clone(); }

// Throws std::invalid_argument if a result of pack cannot be saved.
void CheckPacked(const std::vector<at::Tensor>& tensors) {
  if (tensors.empty()) throw std::invalid_argument("pack returned no tensor");
  for (const at::Tensor& tensor : tensors) {
    if (!tensor.defined()) throw std::invalid_argument("pack returned an undefined tensor");
    if (IsDense(tensor)) continue;
    throw std::invalid_argument(
        "pack returned a tensor that wraps others (sparse, quantized or nested); return its parts, and put them "
        "together in unpack");
  }
}

// Throws std::invalid_argument if `tensor`, which unpack returned, is not as the saved value.
void CheckUnpacked(const at::Tensor& tensor, const TensorType& type) {
  if (!tensor.defined()) throw std::invalid_argument("unpack returned an undefined tensor");
  if (!tensor.device().is_cpu()) {
    throw std::invalid_argument(
        absl::StrCat("unpack returned a tensor on ", tensor.device().str(), ", but the saved value was on cpu"));
  }
  if (!IsDense(tensor)) throw std::invalid_argument("unpack returned a tensor that is not dense");
  const TensorType returned = TypeOf(tensor);
  if (returned == type) return;
  throw std::invalid_argument(
      absl::StrCat("unpack returned ", PrintType(returned), ", but the saved value was ", PrintType(type)));
}

// Traces one hook.
absl::StatusOr<TracedProgram> TraceHook(const TensorFunction& hook, const std::vector<at::Tensor>& examples,
                                        const std::string& name) {
  TraceOptions options;
  options.name = name;
  options.grad_enabled = false;
  COTAN_ASSIGN_OR_RETURN(TracedProgram traced, Trace(hook, /*states=*/{}, examples, options));
  if (traced.rng_blocks != SymInt(0)) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": a saved-tensor hook must not draw random numbers"));
  }
  for (const GraphInput& input : traced.graph.inputs()) {
    if (input.kind == InputKind::kUserInput) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name, input.kind == InputKind::kToken
                               ? ": a saved-tensor hook must not print, record metrics or assert"
                               : ": a saved-tensor hook must not use tensors besides its argument; make them in the "
                                 "hook, with at::full() for instance"));
  }
  return traced;
}

// Cleans up and lowers a traced hook, and keeps only what it returned.
absl::StatusOr<Graph> LowerHook(const TracedProgram& traced) {
  Graph graph = traced.graph;
  std::erase_if(graph.outputs(), [](const GraphOutput& output) { return output.kind != OutputKind::kUserOutput; });
  COTAN_RETURN_IF_ERROR(CleanUp(graph, nullptr));
  return LowerToPrims(graph);
}

// InvalidArgument: pack writes to its argument.
absl::Status CheckUnwritten(const TracedProgram& traced, absl::string_view name) {
  for (const serialization::InputAliasInfo& info : traced.metadata.input_info()) {
    if (!info.mutates_data() && !info.mutates_metadata()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(name,
                     ": a saved-tensor pack hook is modifying its input in place; other readers of the value "
                     "would see that. Return a new tensor"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<TracedPair> TracePair(const SavedTensorHooks& hooks, const TensorType& type, absl::string_view name) {
  DimVector sizes;
  for (const SymInt& size : type.sizes) sizes.push_back(size.constant());
  const at::Tensor example =
      at::ones(at::IntArrayRef(sizes.data(), sizes.size()), at::TensorOptions(ToScalarType(type.dtype)));
  const std::string pack_name = absl::StrCat("pack of ", name);
  const std::string unpack_name = absl::StrCat("unpack of ", name);
  std::any structure;
  const TensorFunction pack = [&](const std::vector<at::Tensor>& arguments) {
    PackedValue packed = hooks.pack(arguments[0]);
    CheckPacked(packed.tensors);
    structure = std::move(packed.structure);
    std::vector<at::Tensor> results;
    for (const at::Tensor& tensor : packed.tensors) results.push_back(Result(tensor));
    return results;
  };
  COTAN_ASSIGN_OR_RETURN(const TracedProgram packed, TraceHook(pack, {example}, pack_name));
  COTAN_RETURN_IF_ERROR(CheckUnwritten(packed, pack_name));
  std::vector<at::Tensor> examples;
  for (const TensorData& data : packed.reference.outputs) examples.push_back(FromTensorData(data));
  const TensorFunction unpack = [&](const std::vector<at::Tensor>& arguments) {
    const at::Tensor unpacked = hooks.unpack({arguments, structure});
    CheckUnpacked(unpacked, type);
    return std::vector<at::Tensor>{Result(unpacked)};
  };
  COTAN_ASSIGN_OR_RETURN(const TracedProgram unpacked, TraceHook(unpack, examples, unpack_name));
  TracedPair pair;
  COTAN_ASSIGN_OR_RETURN(pair.pack, LowerHook(packed));
  COTAN_ASSIGN_OR_RETURN(pair.unpack, LowerHook(unpacked));
  return pair;
}

}  // namespace cotan::aot
