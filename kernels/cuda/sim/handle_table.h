// SPDX-License-Identifier: Apache-2.0

// Objects behind the opaque handles of the driver API.
#ifndef COTAN_KERNELS_CUDA_SIM_HANDLE_TABLE_H_
#define COTAN_KERNELS_CUDA_SIM_HANDLE_TABLE_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>

namespace cotan::cuda::sim {

// Returns a pointer that no access can use and that the process never had before.
inline void* NewHandle() {
  static std::atomic<uint64_t> next = 1;
  constexpr uint64_t kNotCanonical = uint64_t{0x0dec0de} << 32;
  return reinterpret_cast<void*>(kNotCanonical + 16 * next.fetch_add(1));
}

// Owns objects of type T under handles of type Handle, a pointer. Handles are never reused.
template <typename Handle, typename T>
class HandleTable {
 public:
  Handle Add(std::unique_ptr<T> object) {
    const auto handle = static_cast<Handle>(NewHandle());
    objects_[handle] = std::move(object);
    return handle;
  }

  // Returns null for a handle that is not, or no longer, in the table.
  T* Find(Handle handle) const {
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second.get();
  }

  void Remove(Handle handle) { objects_.erase(handle); }
  size_t size() const { return objects_.size(); }
  const std::map<Handle, std::unique_ptr<T>>& objects() const { return objects_; }

 private:
  std::map<Handle, std::unique_ptr<T>> objects_;  // In order of creation.
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_HANDLE_TABLE_H_
