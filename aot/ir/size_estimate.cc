// SPDX-License-Identifier: Apache-2.0

#include "aot/ir/size_estimate.h"

#include <utility>

namespace cotan::aot {
namespace {

constexpr int64_t kAssumedDynamicSize = 64;

std::vector<UsualSize>& UsualSizes() {
  thread_local std::vector<UsualSize> sizes;
  return sizes;
}

}  // namespace

UsualSizesScope::UsualSizesScope(std::vector<UsualSize> sizes) { UsualSizes() = std::move(sizes); }
UsualSizesScope::~UsualSizesScope() { UsualSizes().clear(); }

absl::Span<const UsualSize> CurrentUsualSizes() { return UsualSizes(); }

int64_t EstimatedSize(const SymInt& size) {
  if (!size.is_constant()) return kAssumedDynamicSize;
  int64_t estimate = size.constant();
  if (estimate == 0) return 0;
  for (const UsualSize& dynamic : UsualSizes()) {
    if (estimate % dynamic.traced == 0) estimate = estimate / dynamic.traced * dynamic.usual;
  }
  return estimate;
}

int64_t EstimatedCount(absl::Span<const SymInt> sizes) {
  int64_t count = 1;
  for (const SymInt& size : sizes) count *= EstimatedSize(size);
  return count;
}

}  // namespace cotan::aot
