// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/memory_overlap.h"

#include <algorithm>
#include <functional>

#include "base/overlap.h"

namespace cotan {
namespace {

const char* Begin(const Storage& storage) { return static_cast<const char*>(storage.data()); }
const char* End(const Storage& storage) { return Begin(storage) + storage.bytes(); }

bool OverlapIn(const MemoryRegion& a, const StridedLayout& a_layout, const MemoryRegion& b,
               const StridedLayout& b_layout) {
  return LayoutsOverlap(a_layout, static_cast<int64_t>(ByteSize(a.dtype)), b_layout,
                        static_cast<int64_t>(ByteSize(b.dtype)));
}

// Compares regions of different storages: one layout is shifted so that its offset counts from the other
// storage.
bool OverlapAcross(const MemoryRegion& a, const MemoryRegion& b) {
  if (NumElements(a.layout->sizes) == 0 || NumElements(b.layout->sizes) == 0) return false;
  const int64_t distance = Begin(*b.storage) - Begin(*a.storage);
  const auto a_bytes = static_cast<int64_t>(ByteSize(a.dtype));
  const auto b_bytes = static_cast<int64_t>(ByteSize(b.dtype));
  if (distance % a_bytes == 0) {
    StridedLayout shifted = *a.layout;
    shifted.offset -= distance / a_bytes;
    return OverlapIn(a, shifted, b, *b.layout);
  }
  if (distance % b_bytes != 0) return true;
  StridedLayout shifted = *b.layout;
  shifted.offset += distance / b_bytes;
  return OverlapIn(a, *a.layout, b, shifted);
}

}  // namespace

bool Overlap(const Storage& a, const Storage& b) {
  if (&a == &b) return a.bytes() != 0;
  const std::less<const char*> before;
  return &a.device() == &b.device() && before(Begin(a), End(b)) && before(Begin(b), End(a));
}

bool Overlap(const MemoryRegion& a, const MemoryRegion& b) {
  if (a.storage == b.storage) return OverlapIn(a, *a.layout, b, *b.layout);
  return Overlap(*a.storage, *b.storage) && OverlapAcross(a, b);
}

StateIntervals::StateIntervals(const StateStore& store, const std::vector<int>& states) : store_(&store) {
  for (int state : states) {
    if (store.tensor(state).storage()->bytes() != 0) states_.push_back(state);
  }
  const auto address = [&store](int state) { return Begin(*store.tensor(state).storage()); };
  std::sort(states_.begin(), states_.end(), [&](int a, int b) {
    return address(a) == address(b) ? a < b : std::less<const char*>()(address(a), address(b));
  });
  states_.erase(std::unique(states_.begin(), states_.end()), states_.end());
}

int StateIntervals::FindOverlap(const MemoryRegion& region) const {
  const Storage& storage = *region.storage;
  const std::less<const char*> before;
  // States do not overlap, except constants that share one segment; so their ends ascend as well.
  auto at = std::partition_point(states_.begin(), states_.end(), [&](int state) {
    return !before(Begin(storage), End(*store_->tensor(state).storage()));
  });
  for (; at != states_.end(); ++at) {
    const Tensor& state = store_->tensor(*at);
    if (!before(Begin(*state.storage()), End(storage))) break;
    if (Overlap(region, MemoryRegion::Of(state))) return *at;
  }
  return -1;
}

int StateIntervals::FindOverlap(const Storage& storage) const {
  const auto bytes = static_cast<int64_t>(storage.bytes());
  const StridedLayout all = {.sizes = {bytes}, .strides = {1}, .offset = 0};
  return FindOverlap({&storage, &all, DType::kUInt8});
}

}  // namespace cotan
