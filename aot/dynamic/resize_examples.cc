// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/resize_examples.h"

#include <ATen/core/grad_mode.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty_strided.h>

#include <algorithm>
#include <cstdint>
#include <numeric>

#include "absl/algorithm/container.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "aot/capture/non_leaf.h"
#include "base/status_macros.h"
#include "base/sym_int.h"

namespace cotan::aot {
namespace {

bool IsFixed(const SymIntVector& sizes) {
  return absl::c_all_of(sizes, [](const SymInt& size) { return size.is_constant(); });
}

// Returns true if the dimension is expanded.
bool IsExpanded(const at::Tensor& tensor, int64_t dim) { return tensor.stride(dim) == 0 && tensor.size(dim) > 1; }

at::Tensor Resized(const at::Tensor& example, int64_t dim, int64_t size) {
  if (example.size(dim) == size) return example;
  return example.index_select(dim, at::arange(size, at::kLong).remainder(example.size(dim)));
}

// Returns strides for `sizes` with the order of dimensions in memory, and the gaps, of `example`.
std::vector<int64_t> StridesLike(const at::Tensor& example, at::IntArrayRef sizes) {
  std::vector<int64_t> innermost_first(sizes.size());
  std::iota(innermost_first.rbegin(), innermost_first.rend(), 0);
  std::stable_sort(innermost_first.begin(), innermost_first.end(),
                   [&](int64_t a, int64_t b) { return example.stride(a) < example.stride(b); });
  std::vector<int64_t> strides = example.strides().vec();
  int64_t extent = 1;
  int64_t example_extent = 1;
  for (const int64_t dim : innermost_first) {
    if (IsExpanded(example, dim)) continue;
    int64_t& stride = strides[static_cast<size_t>(dim)];
    const int64_t gap = std::max<int64_t>(stride - example_extent, 0);
    example_extent = stride * example.size(dim);
    stride = extent + gap;
    extent = stride * sizes[static_cast<size_t>(dim)];
  }
  return strides;
}

// Returns a tensor with the elements of `tensor` and strides like those of `example`.
at::Tensor LaidOutAs(const at::Tensor& example, const at::Tensor& tensor) {
  at::Tensor elements = tensor;
  for (int64_t dim = 0; dim < example.dim(); ++dim) {
    if (IsExpanded(example, dim)) elements = elements.narrow(dim, 0, 1);
  }
  const at::Tensor result = at::empty_strided(elements.sizes(), StridesLike(example, tensor.sizes()), tensor.options());
  result.copy_(elements);
  return result.sizes() == tensor.sizes() ? result : result.expand(tensor.sizes());  // a view only if needed
}

// Returns `resized` as a leaf, as a non-leaf, or as a view made under no_grad, like `example`.
at::Tensor WithHistoryOf(const at::Tensor& example, const at::Tensor& resized) {
  if (PassesNoGradient(example)) {
    const at::NoGradGuard no_grad;
    return resized.as_strided(resized.sizes(), resized.strides(), resized.storage_offset());
  }
  return example.is_leaf() ? resized : LaidOutAs(example, resized);
}

}  // namespace

std::vector<DimVector> SizesOf(const std::vector<at::Tensor>& tensors) {
  std::vector<DimVector> sizes;
  for (const at::Tensor& tensor : tensors) sizes.emplace_back(tensor.sizes().begin(), tensor.sizes().end());
  return sizes;
}

absl::StatusOr<std::vector<at::Tensor>> ResizeExamples(const std::vector<at::Tensor>& examples,
                                                       const DynamicShapes& shapes, const DimVector& values) {
  const at::AutoGradMode grad_mode(true);  // non-leaf examples keep a grad_fn in any grad mode
  std::vector<at::Tensor> result;
  for (size_t i = 0; i < examples.size(); ++i) {
    for (size_t k = 0; k < i; ++k) {
      if (!examples[k].is_alias_of(examples[i]) || examples[k].is_same(examples[i])) continue;
      if (IsFixed(shapes.sizes[k]) && IsFixed(shapes.sizes[i])) continue;
      return absl::UnimplementedError(
          absl::StrCat("examples ", k, " and ", i,
                       " share memory; with dynamic dimensions give CompileOptions::examples_at_sizes, "
                       "which makes them at other sizes, or give each memory of its own"));
    }
    const auto same = absl::c_find_if(examples, [&](const at::Tensor& other) { return other.is_same(examples[i]); });
    const auto first = static_cast<size_t>(same - examples.begin());
    if (first < i || IsFixed(shapes.sizes[i])) {
      result.push_back(first < i ? result[first] : examples[i]);
      continue;
    }
    at::Tensor resized = examples[i].detach();
    for (size_t d = 0; d < shapes.sizes[i].size(); ++d) {
      COTAN_ASSIGN_OR_RETURN(const int64_t size, shapes.sizes[i][d].Evaluate(values));
      if (resized.size(static_cast<int64_t>(d)) == 0 && size > 0) {
        return absl::InvalidArgumentError(absl::StrCat("example ", i, " is empty; give one with elements"));
      }
      resized = Resized(resized, static_cast<int64_t>(d), size);
    }
    if (resized.sizes() != examples[i].sizes()) resized = LaidOutAs(examples[i], resized);
    resized.requires_grad_(examples[i].requires_grad());
    result.push_back(WithHistoryOf(examples[i], resized));
  }
  return result;
}

}  // namespace cotan::aot
