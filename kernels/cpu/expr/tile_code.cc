// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/tile_code.h"

#include <algorithm>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kernels/cpu/expr/loop_writer.h"
#include "kernels/cpu/expr/tile_ops_isa.h"
#include "kernels/cpu/expr/vector_code.h"

namespace cotan::cpu::expr {
namespace {

// Bytes of the code of one loop.
constexpr size_t kMaxLoopBytes = 64 << 10;

// Writes the code of a loop to `buffer`, with as many vectors side by side as registers allow. Returns its size, 0 if
// there are too few registers.
size_t WriteCode(const TileLoop& loop, absl::Span<const int64_t> register_offsets, absl::Span<uint8_t> buffer) {
  // Functions alone have long runs of operations that wait for each other.
  const bool has_functions =
      std::any_of(loop.ops.begin(), loop.ops.end(), [](const LoopOp& op) { return IsVectorFunction(op.fn); });
  for (int64_t interleaved = has_functions ? kMaxInterleaved : 1; interleaved > 0; interleaved /= 2) {
    VectorCode code(buffer);
    if (!WriteLoop(code, loop, interleaved, register_offsets)) continue;
    code.WriteConstants();
    if (!code.Failed()) return code.getSize();
  }
  return 0;
}

// Returns the code of `loops`.
TileCode WriteLoops(absl::Span<const TileLoop> loops, absl::Span<const int64_t> register_offsets) {
  std::vector<std::optional<size_t>> begins(loops.size());
  std::vector<uint8_t> bytes;
  // Not a vector, which would touch all of its pages.
  const auto buffer = std::make_unique_for_overwrite<uint8_t[]>(kMaxLoopBytes);
  for (size_t k = 0; k < loops.size(); ++k) {
    const size_t size = WriteCode(loops[k], register_offsets, {buffer.get(), kMaxLoopBytes});
    if (size == 0) continue;
    bytes.resize((bytes.size() + 63) / 64 * 64);
    begins[k] = bytes.size();
    bytes.insert(bytes.end(), buffer.get(), buffer.get() + size);
  }
  TileCode code;
  code.loops.resize(loops.size(), nullptr);
  if (bytes.empty() || !code.memory.Assign(bytes)) return code;
  for (size_t k = 0; k < loops.size(); ++k) {
    if (!begins[k].has_value()) continue;
    code.loops[k] = reinterpret_cast<TileCodeFn>(const_cast<uint8_t*>(code.memory.begin() + *begins[k]));
  }
  return code;
}

template <typename T>
void AppendBytes(std::string& key, const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Returns a string that is different for loops with other code.
std::string KeyOf(absl::Span<const TileLoop> loops, absl::Span<const int64_t> register_offsets) {
  std::string key;
  for (const TileLoop& loop : loops) {
    for (const int64_t number : {loop.rows, loop.cols, int64_t{loop.reduces_rows}, std::ssize(loop.ops)}) {
      AppendBytes(key, number);
    }
    for (const LoopOp& op : loop.ops) {
      for (const int number : {static_cast<int>(op.fn), static_cast<int>(op.prefetch), static_cast<int>(op.slot),
                               op.reduction, op.args[0], op.args[1], op.args[2]}) {
        AppendBytes(key, number);
      }
    }
    for (const LoopReduction& r : loop.reductions) {
      for (const int64_t number : {int64_t{r.is_maximum}, r.total_offset, int64_t{r.slot}}) AppendBytes(key, number);
    }
  }
  for (const int64_t offset : register_offsets) AppendBytes(key, offset);
  return key;
}

// The code that plans of this process hold, by key: layers that are alike share it.
class CodeCache {
 public:
  std::shared_ptr<const TileCode> Find(const std::string& key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto found = codes_.find(key);
    return found == codes_.end() ? nullptr : found->second.lock();
  }

  void Insert(const std::string& key, const std::shared_ptr<const TileCode>& code) {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (codes_.size() >= 2 * held_) {
      absl::erase_if(codes_, [](const auto& entry) { return entry.second.expired(); });
      held_ = std::max<size_t>(codes_.size(), kMinHeld);
    }
    codes_[key] = code;
  }

 private:
  static constexpr size_t kMinHeld = 64;

  std::mutex mutex_;
  absl::flat_hash_map<std::string, std::weak_ptr<const TileCode>> codes_;
  size_t held_ = kMinHeld;  // entries after the last removal of those that are not held
};

}  // namespace

std::shared_ptr<const TileCode> GenerateTileCode(absl::Span<const TileLoop> loops,
                                                 absl::Span<const int64_t> register_offsets) {
  static CodeCache& cache = *new CodeCache;
  const std::string key = KeyOf(loops, register_offsets);
  if (std::shared_ptr<const TileCode> code = cache.Find(key); code != nullptr) return code;
  auto code = std::make_shared<const TileCode>(WriteLoops(loops, register_offsets));
  cache.Insert(key, code);
  return code;
}

GenerateTileCodeFn FindTileCodeGenerator() { return BestIsa() >= Isa::kAvx512 ? GenerateTileCode : nullptr; }

}  // namespace cotan::cpu::expr
