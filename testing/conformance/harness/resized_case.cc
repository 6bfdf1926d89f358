// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/resized_case.h"

#include <string>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

namespace cotan::conformance {
namespace {

bool SharesMemory(const std::vector<at::Tensor>& inputs, size_t index) {
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (i != index && inputs[i].is_alias_of(inputs[index])) return true;
  }
  return false;
}

bool IsDynamicSize(int64_t size) { return size > 1; }

// A leaf whose elements are all of its memory, in order.
bool IsPlain(const at::Tensor& input) {
  return input.is_leaf() && !input.is_view() && input.is_contiguous() && input.storage_offset() == 0 &&
         input.storage().nbytes() == static_cast<size_t>(input.numel()) * input.element_size() && !input.is_conj() &&
         !input.is_neg();
}

// Elements repeat: they may be indexes.
at::Tensor Larger(const at::Tensor& input, int64_t more) {
  at::Tensor larger = input.detach();
  for (int64_t dim = 0; dim < input.dim(); ++dim) {
    const int64_t size = input.size(dim);
    if (IsDynamicSize(size)) larger = larger.index_select(dim, at::arange(size + more, at::kLong).remainder(size));
  }
  if (!input.requires_grad()) return larger.clone();
  g_roots.push_back(larger.clone().requires_grad_(true));
  return g_roots.back();
}

}  // namespace

std::vector<aot::DynamicDim> DynamicDimsOf(const std::vector<at::Tensor>& inputs) {
  std::vector<aot::DynamicDim> dims;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (SharesMemory(inputs, i)) continue;
    for (int64_t dim = 0; dim < inputs[i].dim(); ++dim) {
      const int64_t size = inputs[i].size(dim);
      if (!IsDynamicSize(size)) continue;
      dims.push_back({.argument = static_cast<int>(i),
                      .dim = static_cast<int>(dim),
                      .symbol = absl::StrCat("s", size),
                      .min = size});
    }
  }
  return dims;
}

int NumFixedSizes(const std::vector<at::Tensor>& inputs) {
  int fixed = 0;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (SharesMemory(inputs, i)) fixed += static_cast<int>(absl::c_count_if(inputs[i].sizes(), IsDynamicSize));
  }
  return fixed;
}

std::optional<ConfCase> LargerCase(const ConfCase& c, int64_t more) {
  g_roots.clear();
  const std::vector<at::Tensor> inputs = c.inputs();
  if (DynamicDimsOf(inputs).empty() || !absl::c_all_of(inputs, IsPlain)) return std::nullopt;
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (SharesMemory(inputs, i)) return std::nullopt;
  }
  ConfCase larger = c;
  larger.inputs = [inputs = c.inputs, more] {
    const std::vector<at::Tensor> originals = inputs();
    g_roots.clear();
    std::vector<at::Tensor> result;
    for (const at::Tensor& input : originals) result.push_back(Larger(input, more));
    return result;
  };
  return larger;
}

}  // namespace cotan::conformance
