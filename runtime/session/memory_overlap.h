// SPDX-License-Identifier: Apache-2.0

// Overlap of tensors in memory: views of one storage, storages that borrow the same memory, and the states of
// a session.
#ifndef COTAN_RUNTIME_SESSION_MEMORY_OVERLAP_H_
#define COTAN_RUNTIME_SESSION_MEMORY_OVERLAP_H_

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/layout.h"
#include "runtime/session/state_store.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

// The elements of a layout over a storage. Unlike those of a Tensor they may exceed the storage: an argument
// that grows gets a larger storage later. Storage and layout outlive the region.
struct MemoryRegion {
  const Storage* storage = nullptr;
  const StridedLayout* layout = nullptr;
  DType dtype = DType::kUndefined;

  static MemoryRegion Of(const Tensor& tensor) { return {tensor.storage().get(), &tensor.layout(), tensor.dtype()}; }
};

// Returns true if the storages have a byte in common.
bool Overlap(const Storage& a, const Storage& b);

// Returns true if the regions have a byte in common. The answer is exact, with one exception: if two storages
// borrow the same memory at a distance that is not a multiple of the element size, any two regions of them
// are reported to overlap.
bool Overlap(const MemoryRegion& a, const MemoryRegion& b);

// A set of states, sorted by address. The store outlives it.
class StateIntervals {
 public:
  StateIntervals() = default;
  // `states` are indices of states and may contain duplicates.
  StateIntervals(const StateStore& store, const std::vector<int>& states);

  bool empty() const { return states_.empty(); }
  // Returns the index of a state that has a byte in common with the region; -1 if there is none. Logarithmic
  // in the number of states.
  int FindOverlap(const MemoryRegion& region) const;
  // Returns the index of a state that has a byte in common with the storage; -1 if there is none.
  int FindOverlap(const Storage& storage) const;

 private:
  const StateStore* store_ = nullptr;
  std::vector<int> states_;  // with memory; their addresses ascend
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_MEMORY_OVERLAP_H_
