// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/copy/nested_layout.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace cotan::cpu {

bool IsNested(const StridedLayout& layout) {
  std::vector<std::pair<int64_t, int64_t>> steps;  // strides with their sizes
  for (size_t d = 0; d < layout.sizes.size(); ++d) {
    if (layout.sizes[d] > 1 && layout.strides[d] != 0) steps.emplace_back(layout.strides[d], layout.sizes[d]);
  }
  std::sort(steps.begin(), steps.end());
  for (size_t i = 1; i < steps.size(); ++i) {
    if (steps[i].first < steps[i - 1].first * steps[i - 1].second) return false;
  }
  return true;
}

}  // namespace cotan::cpu
