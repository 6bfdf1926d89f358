// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/storage_view.h"

#include <algorithm>
#include <utility>

#include "absl/container/flat_hash_map.h"

namespace cotan::aot {
namespace {

struct Dim {
  int64_t index;
  int64_t size;
  int64_t stride;  // in the storage, in elements
  int64_t dense;   // stride in a row-major tensor with the dimensions in memory order
};

// Returns the dimensions of more than one element, outermost in memory first. Unset: elements overlap, or
// may.
std::optional<std::vector<Dim>> MemoryOrder(const StridedLayout& layout) {
  std::vector<Dim> dims;
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] != 1) dims.push_back({static_cast<int64_t>(d), layout.sizes[d], layout.strides[d], 0});
  }
  std::stable_sort(dims.begin(), dims.end(), [](const Dim& a, const Dim& b) { return a.stride > b.stride; });
  int64_t dense = 1, reach = 0;
  for (auto dim = dims.rbegin(); dim != dims.rend(); ++dim) {
    if (dim->stride <= reach) return std::nullopt;
    dim->dense = dense;
    dense *= dim->size;
    reach += (dim->size - 1) * dim->stride;
  }
  return dims;
}

// Splits a distance in the storage, in elements, into steps along each dimension, outermost first. Unset: a
// remainder is left.
std::optional<std::vector<int64_t>> Steps(const std::vector<Dim>& dims, int64_t distance) {
  std::vector<int64_t> steps;
  for (const Dim& dim : dims) {
    steps.push_back(distance / dim.stride);
    distance %= dim.stride;
  }
  if (distance != 0) return std::nullopt;
  return steps;
}

int64_t DenseDistance(const std::vector<Dim>& dims, const std::vector<int64_t>& steps) {
  int64_t distance = 0;
  for (size_t i = 0; i < dims.size(); ++i) distance += steps[i] * dims[i].dense;
  return distance;
}

std::vector<int64_t> OrderOf(const std::vector<Dim>& dims, size_t rank) {
  bool in_order = true;
  for (size_t i = 1; i < dims.size(); ++i) in_order = in_order && dims[i - 1].index < dims[i].index;
  if (in_order) return {};
  std::vector<int64_t> order;
  std::vector<bool> placed(rank);
  for (const Dim& dim : dims) placed[static_cast<size_t>(dim.index)] = true;
  for (size_t d = 0; d < rank; ++d) {
    if (!placed[d]) order.push_back(static_cast<int64_t>(d));
  }
  for (const Dim& dim : dims) order.push_back(dim.index);
  return order;
}

// Returns the storage offsets of the elements, in row-major order.
std::vector<int64_t> PlacesOf(const StridedLayout& layout) {
  std::vector<int64_t> places = {layout.offset};
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    std::vector<int64_t> outer = std::move(places);
    places.clear();
    for (const int64_t place : outer) {
      for (int64_t i = 0; i < layout.sizes[d]; ++i) places.push_back(place + i * layout.strides[d]);
    }
  }
  return places;
}

}  // namespace

std::optional<StorageView> ToStorageView(const StridedLayout& tensor, const StridedLayout& view) {
  StorageView result;
  result.strides.assign(view.strides.begin(), view.strides.end());
  if (NumElements(view.sizes) == 0) return result;
  const std::optional<std::vector<Dim>> dims = MemoryOrder(tensor);
  const int64_t first = view.offset - tensor.offset;
  if (!dims.has_value() || first < 0 || NumElements(tensor.sizes) == 0) return std::nullopt;
  result.order = OrderOf(*dims, tensor.sizes.size());

  const bool is_dense = std::all_of(dims->begin(), dims->end(), [](const Dim& dim) { return dim.stride == dim.dense; });
  if (is_dense) {
    int64_t last = first;
    for (size_t d = 0; d < view.sizes.size(); ++d) last += (view.sizes[d] - 1) * view.strides[d];
    if (last >= NumElements(tensor.sizes)) return std::nullopt;
    result.offset = first;
    return result;
  }
  // The tensor has gaps: each stride of the view is a sum of steps along the tensor's dimensions. The sum
  // is a row-major index as long as the steps stay within the dimensions.
  const std::optional<std::vector<int64_t>> start = Steps(*dims, first);
  if (!start.has_value()) return std::nullopt;
  result.offset = DenseDistance(*dims, *start);
  std::vector<int64_t> reach = *start;
  for (size_t d = 0; d < view.sizes.size(); ++d) {
    if (view.sizes[d] == 1) continue;
    const std::optional<std::vector<int64_t>> steps = Steps(*dims, view.strides[d]);
    if (!steps.has_value()) return std::nullopt;
    result.strides[d] = DenseDistance(*dims, *steps);
    for (size_t i = 0; i < dims->size(); ++i) reach[i] += (view.sizes[d] - 1) * (*steps)[i];
  }
  for (size_t i = 0; i < dims->size(); ++i) {
    if (reach[i] >= (*dims)[i].size) return std::nullopt;
  }
  return result;
}

std::optional<std::vector<int64_t>> ToPositions(const StridedLayout& tensor, const StridedLayout& view) {
  absl::flat_hash_map<int64_t, int64_t> position_of;
  for (const int64_t place : PlacesOf(tensor)) {
    const auto position = static_cast<int64_t>(position_of.size());
    if (!position_of.try_emplace(place, position).second) return std::nullopt;
  }
  std::vector<int64_t> positions;
  for (const int64_t place : PlacesOf(view)) {
    const auto found = position_of.find(place);
    if (found == position_of.end()) return std::nullopt;
    positions.push_back(found->second);
  }
  return positions;
}

}  // namespace cotan::aot
