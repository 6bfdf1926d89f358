// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/captured_layout.h"

#include <utility>

#include "base/status_macros.h"

namespace cotan::autograd {

view::AsStrided ReadLayout(const CaptureEmitter& emitter, int rank, int& next) {
  view::AsStrided layout = {.sizes = emitter.Sizes(next, rank),
                            .strides = emitter.Sizes(next + rank, rank),
                            .offset = emitter.Size(next + 2 * rank)};
  next += 2 * rank + 1;
  return layout;
}

absl::StatusOr<StridedLayout> Evaluate(const view::AsStrided& layout, absl::Span<const int64_t> symbols) {
  StridedLayout numbers;
  for (size_t i = 0; i < layout.sizes.size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(const int64_t size, layout.sizes[i].Evaluate(symbols));
    COTAN_ASSIGN_OR_RETURN(const int64_t stride, layout.strides[i].Evaluate(symbols));
    numbers.sizes.push_back(size);
    numbers.strides.push_back(stride);
  }
  COTAN_ASSIGN_OR_RETURN(numbers.offset, layout.offset.Evaluate(symbols));
  return numbers;
}

std::vector<int64_t> StorageIndices(const StridedLayout& layout) {
  std::vector<int64_t> indices = {layout.offset};
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    std::vector<int64_t> next;
    next.reserve(indices.size() * static_cast<size_t>(layout.sizes[d]));
    for (const int64_t index : indices) {
      for (int64_t i = 0; i < layout.sizes[d]; ++i) next.push_back(index + i * layout.strides[d]);
    }
    indices = std::move(next);
  }
  return indices;
}

}  // namespace cotan::autograd
