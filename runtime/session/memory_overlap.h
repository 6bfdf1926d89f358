// Which tensors have bytes in common: views of one storage, storages that borrow
// the same memory, and the states of a session.
#ifndef COTAN_RUNTIME_SESSION_MEMORY_OVERLAP_H_
#define COTAN_RUNTIME_SESSION_MEMORY_OVERLAP_H_

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/layout.h"
#include "runtime/session/state_store.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

// Elements of a storage. Unlike those of a Tensor they may end behind it: an
// argument that grows gets a larger storage later. Storage and layout outlive it.
struct MemoryRegion {
  const Storage* storage = nullptr;
  const StridedLayout* layout = nullptr;
  DType dtype = DType::kUndefined;

  static MemoryRegion Of(const Tensor& tensor) { return {tensor.storage().get(), &tensor.layout(), tensor.dtype()}; }
};

// Whether both storages have a byte in common.
bool Overlap(const Storage& a, const Storage& b);

// Whether both regions have a byte in common. Exact, unless two storages borrow
// the same memory at a distance that is no multiple of an element: then any two
// regions of them overlap.
bool Overlap(const MemoryRegion& a, const MemoryRegion& b);

// Some states of a store, sorted by address. The store outlives it.
class StateIntervals {
 public:
  StateIntervals() = default;
  // `states` may name a state more than once.
  StateIntervals(const StateStore& store, const std::vector<int>& states);

  bool empty() const { return states_.empty(); }
  // A state that has a byte in common with the region; -1: none. Takes the
  // logarithm of the number of states.
  int FindOverlap(const MemoryRegion& region) const;
  // The same for a whole storage.
  int FindOverlap(const Storage& storage) const;

 private:
  const StateStore* store_ = nullptr;
  std::vector<int> states_;  // with memory; their addresses ascend
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_MEMORY_OVERLAP_H_
