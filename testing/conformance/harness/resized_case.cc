// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/resized_case.h"

#include <algorithm>
#include <cstddef>

#include "absl/algorithm/container.h"
#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"

namespace cotan::conformance {
namespace {

using Tensors = std::vector<at::Tensor>;
using SizeFunction = absl::FunctionRef<int64_t(int64_t)>;  // from the size of a dimension in the case

// Elements that are added to see whether windows begin to overlap.
constexpr int64_t kManyElements = 1000;

bool IsDynamicSize(int64_t size) { return size > 1; }

// Returns the position of the first input that is the same tensor.
size_t FirstOf(const Tensors& inputs, size_t index) {
  const auto is_same = [&](const at::Tensor& input) { return input.is_same(inputs[index]); };
  return static_cast<size_t>(absl::c_find_if(inputs, is_same) - inputs.begin());
}

bool SharesMemory(const Tensors& inputs, size_t index) {
  return absl::c_any_of(inputs, [&](const at::Tensor& input) {
    return !input.is_same(inputs[index]) && input.is_alias_of(inputs[index]);
  });
}

// Returns whether the elements are all of the tensor's memory, in order.
bool IsWhole(const at::Tensor& tensor) {
  return !tensor.is_view() && tensor.is_contiguous() && tensor.storage_offset() == 0 &&
         tensor.storage().nbytes() == static_cast<size_t>(tensor.numel()) * tensor.element_size() &&
         !tensor.is_conj() && !tensor.is_neg();
}

bool IsPlain(const at::Tensor& input) { return input.is_leaf() && IsWhole(input); }

// --- windows --------------------------------------------------------------------------

// Inputs that are runs of elements of one tensor, in the order of their first elements.
struct Windows {
  at::Tensor base;
  std::vector<size_t> inputs;
};

bool IsWindow(const at::Tensor& input) {
  if (!input.is_view() || input.dim() != 1 || input.size(0) < 2 || input.stride(0) != 1) return false;
  const at::Tensor base(input._base());
  return IsWhole(base) && base.scalar_type() == input.scalar_type() && base.requires_grad() == input.requires_grad() &&
         !input.is_conj() && !input.is_neg();
}

// Returns where each window begins, then the number of elements of the base, if dimensions have these sizes.
std::vector<int64_t> PlacesAt(SizeFunction size_at, const Tensors& inputs, const Windows& windows) {
  std::vector<int64_t> places;
  int64_t end = 0;  // of the windows so far, in the case
  int64_t new_end = 0;
  int64_t last_begin = 0;
  for (const size_t i : windows.inputs) {
    const int64_t begin = inputs[i].storage_offset();
    const bool overlaps = !places.empty() && begin < end;
    places.push_back(overlaps ? places.back() + begin - last_begin : new_end + begin - end);
    last_begin = begin;
    end = std::max(end, begin + inputs[i].size(0));
    new_end = std::max(new_end, places.back() + size_at(inputs[i].size(0)));
  }
  places.push_back(new_end + windows.base.numel() - end);
  return places;
}

// Returns whether the same windows overlap at all larger sizes.
bool KeepOverlaps(const Tensors& inputs, const Windows& windows) {
  const auto more = [](int64_t size) { return size + kManyElements; };
  const std::vector<int64_t> places = PlacesAt(more, inputs, windows);
  for (size_t b = 0; b < windows.inputs.size(); ++b) {
    for (size_t a = 0; a < b; ++a) {
      const at::Tensor& first = inputs[windows.inputs[a]];
      const bool overlap = inputs[windows.inputs[b]].storage_offset() < first.storage_offset() + first.size(0);
      if (overlap != (places[b] < places[a] + more(first.size(0)))) return false;
    }
  }
  return true;
}

bool Contains(const Windows& windows, size_t input) { return absl::c_linear_search(windows.inputs, input); }

// Returns whether the windows can be resized: there are several, they are all inputs in this memory, and the same ones
// overlap at all sizes.
bool CanBeResized(const Tensors& inputs, const Windows& windows) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i].is_alias_of(windows.base) && !Contains(windows, FirstOf(inputs, i))) return false;
  }
  return windows.inputs.size() > 1 && KeepOverlaps(inputs, windows);
}

// Returns the windows that can be resized; none if the other inputs are not simple enough to be made beside them.
std::vector<Windows> WindowsOf(const Tensors& inputs) {
  std::vector<Windows> all;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (FirstOf(inputs, i) != i || !IsWindow(inputs[i])) continue;
    const at::Tensor base(inputs[i]._base());
    auto of_base = absl::c_find_if(all, [&](const Windows& windows) { return windows.base.is_same(base); });
    if (of_base == all.end()) of_base = all.insert(all.end(), Windows{base, {}});
    of_base->inputs.push_back(i);
  }
  for (Windows& windows : all) {
    absl::c_stable_sort(windows.inputs,
                        [&](size_t a, size_t b) { return inputs[a].storage_offset() < inputs[b].storage_offset(); });
  }
  std::erase_if(all, [&](const Windows& windows) { return !CanBeResized(inputs, windows); });
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (!SharesMemory(inputs, i) && !IsWhole(inputs[i])) return {};
  }
  return all;
}

// Returns whether the sizes of an input stay as they are.
bool IsFixed(const Tensors& inputs, const std::vector<Windows>& windows, size_t index) {
  const auto has_input = [&](const Windows& one) { return Contains(one, FirstOf(inputs, index)); };
  return SharesMemory(inputs, index) && absl::c_none_of(windows, has_input);
}

// --- inputs at other sizes ------------------------------------------------------------

// Returns new elements as a leaf, which is then a root, or as computed from one, as `original` is.
at::Tensor WithHistoryOf(const at::Tensor& original, const at::Tensor& elements) {
  if (!original.requires_grad()) return elements;
  g_roots.push_back(elements.requires_grad_(true));
  return original.is_leaf() ? g_roots.back() : g_roots.back().clone();
}

// Returns `size` elements along a dimension. Elements repeat: they may be indexes.
at::Tensor Repeated(const at::Tensor& tensor, int64_t dim, int64_t size) {
  return tensor.index_select(dim, at::arange(size, at::kLong).remainder(tensor.size(dim)));
}

at::Tensor Resized(const at::Tensor& input, SizeFunction size_at) {
  at::Tensor resized = input.detach();
  for (int64_t dim = 0; dim < input.dim(); ++dim) {
    const int64_t size = input.size(dim);
    if (IsDynamicSize(size)) resized = Repeated(resized, dim, size_at(size));
  }
  return WithHistoryOf(input, resized.clone());
}

// Sets the windows of a resized base in `resized`.
void Resize(const Tensors& inputs, const Windows& windows, SizeFunction size_at, Tensors& resized) {
  const std::vector<int64_t> places = PlacesAt(size_at, inputs, windows);
  const at::Tensor elements = windows.base.detach().reshape({windows.base.numel()});
  const at::Tensor base = WithHistoryOf(windows.base, Repeated(elements, 0, places.back()));
  for (size_t k = 0; k < windows.inputs.size(); ++k) {
    const size_t i = windows.inputs[k];
    resized[i] = base.as_strided({size_at(inputs[i].size(0))}, {1}, places[k]);
  }
}

Tensors InputsAt(SizeFunction size_at, const Tensors& inputs) {
  const at::AutoGradMode grad_mode(true);
  Tensors resized(inputs.size());
  const std::vector<Windows> all = WindowsOf(inputs);
  for (const Windows& windows : all) Resize(inputs, windows, size_at, resized);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (const size_t first = FirstOf(inputs, i); first < i) {
      resized[i] = resized[first];
    } else if (!resized[i].defined()) {
      resized[i] = IsFixed(inputs, all, i) ? inputs[i] : Resized(inputs[i], size_at);
    }
  }
  return resized;
}

std::string SymbolOf(int64_t size) { return absl::StrCat("s", size); }

}  // namespace

std::vector<aot::DynamicDim> DynamicDimsOf(const Tensors& inputs) {
  const std::vector<Windows> windows = WindowsOf(inputs);
  std::vector<aot::DynamicDim> dims;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (IsFixed(inputs, windows, i)) continue;
    for (int64_t dim = 0; dim < inputs[i].dim(); ++dim) {
      const int64_t size = inputs[i].size(dim);
      if (!IsDynamicSize(size)) continue;
      dims.push_back(
          {.argument = static_cast<int>(i), .dim = static_cast<int>(dim), .symbol = SymbolOf(size), .min = size});
    }
  }
  return dims;
}

int NumFixedSizes(const Tensors& inputs) {
  const std::vector<Windows> windows = WindowsOf(inputs);
  int fixed = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (IsFixed(inputs, windows, i)) fixed += static_cast<int>(absl::c_count_if(inputs[i].sizes(), IsDynamicSize));
  }
  return fixed;
}

std::function<Tensors(const std::map<std::string, int64_t>&)> ExamplesAtSizes(const Tensors& inputs) {
  if (WindowsOf(inputs).empty()) return nullptr;
  return [inputs](const std::map<std::string, int64_t>& sizes) {
    return InputsAt([&sizes](int64_t size) { return sizes.at(SymbolOf(size)); }, inputs);
  };
}

std::optional<ConfCase> LargerCase(const ConfCase& c, int64_t more) {
  g_roots.clear();
  const Tensors inputs = c.inputs();
  if (DynamicDimsOf(inputs).empty()) return std::nullopt;
  const std::vector<Windows> windows = WindowsOf(inputs);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (IsFixed(inputs, windows, i)) return std::nullopt;
    if (!IsPlain(SharesMemory(inputs, i) ? at::Tensor(inputs[i]._base()) : inputs[i])) return std::nullopt;
  }
  ConfCase larger = c;
  larger.inputs = [inputs = c.inputs, more] {
    const Tensors originals = inputs();
    g_roots.clear();
    return InputsAt([more](int64_t size) { return size + more; }, originals);
  };
  return larger;
}

}  // namespace cotan::conformance
