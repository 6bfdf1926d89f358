// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/as_strided.h"

#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "aot/capture/real_scope.h"
#include "aot/capture/storage_view.h"
#include "aot/capture/tensor_data.h"
#include "base/layout.h"

namespace cotan::aot {
namespace {

constexpr absl::string_view kAsStridedScatter = "aten.as_strided_scatter.default";

// Returns the index of the first of the arguments size, stride and storage_offset of ops that address a
// tensor's storage; 0 for all other ops.
size_t GeometryArgument(absl::string_view op) {
  if (op == "aten.as_strided.default" || op == "aten.as_strided_copy.default") return 1;
  return op == kAsStridedScatter ? 2 : 0;
}

// Returns a tensor with the geometry of `self` in a storage of `elements` zeros.
at::Tensor InStorageOf(int64_t elements, const at::Tensor& self) {
  const RealScope real;
  const int64_t count = std::max(elements, StorageExtent(LayoutOf(self)));
  return at::zeros({count}, self.options()).as_strided(self.sizes(), self.strides(), self.storage_offset());
}

ValueId Flatten(Graph& graph, ValueId value) {
  TensorType type = graph.value(value).type;
  int64_t count = 1;
  for (const SymInt& size : type.sizes) count *= size.constant();
  type.sizes = {SymInt(count)};
  return graph
      .InsertNode(graph.nodes().end(), "aten.view.default", {Use{value}, std::vector<SymInt>{SymInt(count)}}, {{type}})
      .outputs[0];
}

// Rewrites an as_strided as index_select or index_copy on flattened elements. Returns false if that is not
// possible.
bool LowerAsStridedToIndexing(const StridedLayout& tensor, const StridedLayout& view, Recorder& recorder, Node& node) {
  const std::optional<std::vector<int64_t>> positions = ToPositions(tensor, view);
  if (!positions.has_value()) return false;
  Graph& graph = recorder.graph();
  const bool scatters = node.op == kAsStridedScatter;
  if (scatters && std::set<int64_t>(positions->begin(), positions->end()).size() < positions->size()) return false;
  const at::Tensor index_of = [&] {
    const RealScope real;
    return at::tensor(*positions, at::kLong);
  }();
  const ValueId index = recorder.ValueOf(index_of);
  const ValueId elements = Flatten(graph, std::get<Use>(node.arguments[0]).value);
  TensorType type = graph.value(elements).type;
  std::vector<Argument> arguments = {Use{elements}, SymInt(0), Use{index}};
  std::vector<SymInt> sizes;
  if (scatters) {
    arguments.push_back(Use{Flatten(graph, std::get<Use>(node.arguments[1]).value)});
    sizes.assign(tensor.sizes.begin(), tensor.sizes.end());
  } else {
    type.sizes = {SymInt(static_cast<int64_t>(positions->size()))};
    sizes.assign(view.sizes.begin(), view.sizes.end());
  }
  const Node& indexed =
      graph.InsertNode(graph.nodes().end(), scatters ? "aten.index_copy.default" : "aten.index_select.default",
                       std::move(arguments), {{type}});
  node.op = "aten.view.default";
  node.arguments = {Use{indexed.outputs[0]}, sizes};
  return true;
}

ValueId Permute(Graph& graph, ValueId value, const std::vector<int64_t>& order) {
  TensorType type = graph.value(value).type;
  SymIntVector sizes;
  for (const int64_t dim : order) sizes.push_back(type.sizes[static_cast<size_t>(dim)]);
  type.sizes = std::move(sizes);
  return graph
      .InsertNode(graph.nodes().end(), "aten.permute.default",
                  {Use{value}, std::vector<SymInt>(order.begin(), order.end())}, {{type}})
      .outputs[0];
}

}  // namespace

bool CheckStorageBounds(absl::string_view op, size_t num_arguments, torch::jit::Stack& stack, Recorder& recorder) {
  const size_t first = GeometryArgument(op);
  if (first == 0) return true;
  const auto arguments = torch::jit::last(stack, num_arguments);
  const at::Tensor self = arguments[0].toTensor();
  StridedLayout view;
  for (const int64_t size : arguments[first].toIntVector()) view.sizes.push_back(size);
  for (const int64_t stride : arguments[first + 1].toIntVector()) view.strides.push_back(stride);
  view.offset = arguments[first + 2].isNone() ? self.storage_offset() : arguments[first + 2].toInt();
  const auto elements = static_cast<int64_t>(self.storage().nbytes() / self.element_size());
  if (view.offset >= 0 && StorageExtent(view) <= elements) return true;
  recorder.ReportUnsupported(op, absl::StrCat("it accesses memory outside the elements of its argument: elements from ",
                                              view.offset, " up to ", StorageExtent(view), " of ", elements));
  view.offset = std::max<int64_t>(view.offset, 0);
  torch::jit::peek(stack, first + 2, num_arguments) = view.offset;
  torch::jit::peek(stack, 0, num_arguments) = InStorageOf(StorageExtent(view), self);
  return false;
}

std::vector<int64_t> CanonicalizeAsStrided(const at::Tensor& self, Node& node, Recorder& recorder) {
  const size_t first = GeometryArgument(node.op);
  if (first == 0 || !std::holds_alternative<Use>(node.arguments[0])) return {};
  StridedLayout view;
  for (const SymInt& size : std::get<std::vector<SymInt>>(node.arguments[first])) view.sizes.push_back(size.constant());
  for (const SymInt& s : std::get<std::vector<SymInt>>(node.arguments[first + 1])) view.strides.push_back(s.constant());
  const SymInt* offset = std::get_if<SymInt>(&node.arguments[first + 2]);
  view.offset = offset == nullptr ? self.storage_offset() : offset->constant();
  const std::optional<StorageView> canonical = ToStorageView(LayoutOf(self), view);
  if (!canonical.has_value()) {
    if (LowerAsStridedToIndexing(LayoutOf(self), view, recorder, node)) return {};
    recorder.ReportUnsupported(node.op, "it accesses memory outside the elements of its argument");
    return {};
  }
  node.arguments[first + 1] = std::vector<SymInt>(canonical->strides.begin(), canonical->strides.end());
  node.arguments[first + 2] = SymInt(canonical->offset);
  if (canonical->order.empty()) return {};
  node.arguments[0] = Use{Permute(recorder.graph(), std::get<Use>(node.arguments[0]).value, canonical->order)};
  return canonical->order;
}

void AppendInversePermute(const std::vector<int64_t>& order, Graph& graph) {
  if (order.empty() || graph.nodes().back().op != kAsStridedScatter) return;
  Node& node = graph.nodes().back();
  const ValueId result = node.outputs[0];  // the value of the proxy
  TensorType permuted = graph.value(result).type;
  std::vector<SymInt> inverse(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    permuted.sizes[i] = graph.value(result).type.sizes[static_cast<size_t>(order[i])];
    inverse[static_cast<size_t>(order[i])] = static_cast<int64_t>(i);
  }
  node.outputs[0] = graph.AddValue(permuted);
  Node undo;
  undo.op = "aten.permute.default";
  undo.arguments = {Use{node.outputs[0]}, inverse};
  undo.outputs = {result};
  undo.source = node.source;
  graph.nodes().push_back(std::move(undo));
}

}  // namespace cotan::aot
