// SPDX-License-Identifier: Apache-2.0

#include "serialization/calls/outline_calls.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "serialization/calls/inline_calls.h"
#include "serialization/calls/op_window.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Method;
using serialization::Op;

// Longer methods are searched for shorter periods only: the search takes (number of ops) x (longest period) steps.
constexpr size_t kMaxSteps = size_t{1} << 26;
// Lengths of runs that are looked for at any distance of each other, after periodic ones.
constexpr size_t kLengths[] = {256, 192, 128, 96, 64, 48, 32, 24, 16, 12, 8, 6};
constexpr uint64_t kHashBase = 0x9E3779B97F4A7C15;
// Largest number of positions that are tried for the beginning of a period.
constexpr size_t kMaxPhases = 64;
// Bytes of a call besides its operands.
constexpr int64_t kCallBytes = 24;
// Bytes of an index of a value.
constexpr int64_t kIndexBytes = 2;

// Runs of `length` ops that have equal symbols.
struct Repeat {
  std::vector<size_t> starts;
  size_t length = 0;
  int64_t saved_bytes = 0;
};

// Ops that are equal to those `period` ops later, and these: `length` in all.
struct PeriodicRun {
  size_t start = 0, length = 0, period = 0;
};

// A run that became a block.
struct Outlined {
  std::vector<int> symbols;
  std::string form;  // OpWindow::form
  std::vector<std::string> sources;
  uint32_t block = 0;
};

// Finds and replaces the runs of one method.
class MethodOutliner {
 public:
  MethodOutliner(SymbolTable& symbols, std::vector<Outlined>& outlined, Artifact& artifact, Method& method)
      : outlined_(outlined), artifact_(artifact), method_(method), uses_(method) {
    for (const Op& op : method.ops()) {
      symbols_.push_back(symbols.SymbolOf(op, method));
      bytes_.push_back(static_cast<int64_t>(op.ByteSizeLong()) + kIndexBytes);
    }
    covered_.resize(symbols_.size(), false);
  }

  void Run() {
    TakeAll(FindPeriods());
    for (size_t i = 0; i < outlined_.size(); ++i) FindAgain(i);
    for (const size_t length : kLengths) TakeAll(FindEqual(length));
    if (!calls_.empty()) Replace();
  }

 private:
  struct PlacedCall {
    size_t length = 0;
    OpWindow window;
    uint32_t block = 0;
  };

  bool IsFree(size_t start, size_t length) const {
    return std::find(covered_.begin() + static_cast<std::ptrdiff_t>(start),
                     covered_.begin() + static_cast<std::ptrdiff_t>(start + length),
                     true) == covered_.begin() + static_cast<std::ptrdiff_t>(start + length);
  }

  void Place(size_t start, size_t length, OpWindow window, uint32_t block) {
    std::fill_n(covered_.begin() + static_cast<std::ptrdiff_t>(start), length, true);
    calls_.emplace(start, PlacedCall{length, std::move(window), block});
  }

  // Returns the bytes that a run of `length` ops takes, with the values that are only in it.
  int64_t BytesOf(size_t start, size_t length, const OpWindow& window) const {
    int64_t bytes = 0;
    for (size_t i = start; i < start + length; ++i) bytes += bytes_[i];
    for (const uint32_t value : window.inner) {
      bytes += static_cast<int64_t>(method_.values(static_cast<int>(value)).ByteSizeLong()) + kIndexBytes;
    }
    return bytes;
  }

  // Returns how much smaller `count` equal runs of `bytes` become.
  static int64_t SavedBytes(size_t count, int64_t bytes, const OpWindow& window) {
    return static_cast<int64_t>(count - 1) * bytes - static_cast<int64_t>(count) * BytesOfCall(window);
  }

  static int64_t BytesOfCall(const OpWindow& window) {
    return kCallBytes + kIndexBytes * static_cast<int64_t>(window.inputs.size() + window.outputs.size());
  }

  // Replaces runs that are equal to one of an earlier method.
  void FindAgain(size_t index) {
    const std::vector<int>& wanted = outlined_[index].symbols;
    auto from = symbols_.begin();
    while (true) {
      from = std::search(from, symbols_.end(), wanted.begin(), wanted.end());
      if (from == symbols_.end()) return;
      const auto start = static_cast<size_t>(from - symbols_.begin());
      ++from;
      if (!IsFree(start, wanted.size())) continue;
      std::optional<OpWindow> window = uses_.WindowOf(start, wanted.size(), symbols_);
      if (!window.has_value() || window->form != outlined_[index].form) continue;
      if (BytesOf(start, wanted.size(), *window) <= BytesOfCall(*window)) continue;
      MergeSources(*window, index);
      Place(start, wanted.size(), *std::move(window), outlined_[index].block);
      from = symbols_.begin() + static_cast<std::ptrdiff_t>(start + wanted.size());
    }
  }

  // Returns the runs of each period, but not those of its multiples, whatever else covers their ops.
  std::vector<Repeat> FindPeriods() const {
    std::vector<Repeat> repeats;
    std::vector<PeriodicRun> seen;
    const size_t size = symbols_.size();
    const size_t longest = std::min(size / 2, size == 0 ? 0 : kMaxSteps / size);
    for (size_t period = 1; period <= longest; ++period) {
      size_t equal = 0;  // ops before `i` that are equal to those a period later
      for (size_t i = 0; i + period <= size; ++i) {
        if (i + period < size && symbols_[i] == symbols_[i + period]) {
          ++equal;
          continue;
        }
        const PeriodicRun run{i - equal, equal + period, period};
        equal = 0;
        if (run.length < 2 * period) continue;
        const bool is_multiple = std::any_of(seen.begin(), seen.end(), [&](const PeriodicRun& other) {
          return period % other.period == 0 && other.start <= run.start &&
                 run.start + run.length <= other.start + other.length;
        });
        if (is_multiple) continue;
        seen.push_back(run);
        AddRepeat(run, repeats);
      }
    }
    return repeats;
  }

  bool HasOnlyCalls(size_t start, size_t length) const {
    const auto first = method_.ops().begin() + static_cast<std::ptrdiff_t>(start);
    return std::all_of(first, first + static_cast<std::ptrdiff_t>(length), [](const Op& op) { return op.has_call(); });
  }

  // Adds a periodic run. Of all positions where its first period may begin, the one with the cheapest calls is chosen:
  // that is between two layers.
  void AddRepeat(const PeriodicRun& run, std::vector<Repeat>& repeats) const {
    if (HasOnlyCalls(run.start, run.period)) return;
    int64_t most = 0;
    size_t best = 0;
    const size_t step = std::max<size_t>(1, run.period / kMaxPhases);
    for (size_t phase = 0; phase < run.period && phase + 2 * run.period <= run.length; phase += step) {
      // The second period, because the values of the first one may be used elsewhere.
      const std::optional<OpWindow> window = uses_.WindowOf(run.start + phase + run.period, run.period, symbols_);
      if (!window.has_value()) continue;
      const int64_t saved =
          SavedBytes((run.length - phase) / run.period, BytesOf(run.start + phase, run.period, *window), *window);
      if (saved > most) most = saved, best = phase;
    }
    if (most <= 0) return;
    Repeat& repeat = repeats.emplace_back(Repeat{{}, run.period, most});
    for (size_t i = run.start + best; i + run.period <= run.start + run.length; i += run.period) {
      repeat.starts.push_back(i);
    }
  }

  // Returns the runs of `length` ops that are not in a call and occur more than once without overlap.
  std::vector<Repeat> FindEqual(size_t length) const {
    std::vector<Repeat> repeats;
    absl::flat_hash_map<uint64_t, size_t> index_of;
    uint64_t hash = 0, leaving = 1;  // `leaving`: weight of the symbol before the run
    for (size_t i = 0; i < length; ++i) leaving *= kHashBase;
    int64_t bytes = 0;
    size_t free = 0;  // ops before the end of the run that are in no call
    for (size_t end = 0; end < symbols_.size(); ++end) {
      hash = hash * kHashBase + static_cast<uint64_t>(symbols_[end]) + 1;
      bytes += bytes_[end];
      if (end >= length) {
        hash -= leaving * (static_cast<uint64_t>(symbols_[end - length]) + 1);
        bytes -= bytes_[end - length];
      }
      free = covered_[end] ? 0 : free + 1;
      if (free < length) continue;
      const auto [entry, is_new] = index_of.try_emplace(hash, repeats.size());
      if (is_new) repeats.push_back({{}, length, 0});
      Repeat& repeat = repeats[entry->second];
      const size_t start = end + 1 - length;
      if (!repeat.starts.empty() && repeat.starts.back() + length > start) continue;
      repeat.starts.push_back(start);
      repeat.saved_bytes = static_cast<int64_t>(repeat.starts.size() - 1) * bytes;  // an upper limit
    }
    std::erase_if(repeats, [this](const Repeat& repeat) {
      return repeat.starts.size() < 2 || HasOnlyCalls(repeat.starts[0], repeat.length);
    });
    return repeats;
  }

  void TakeAll(std::vector<Repeat> repeats) {
    std::stable_sort(repeats.begin(), repeats.end(),
                     [](const Repeat& a, const Repeat& b) { return a.saved_bytes > b.saved_bytes; });
    for (const Repeat& repeat : repeats) Take(repeat);
  }

  // Replaces the runs of a repeat whose data flow is that of most of them.
  void Take(const Repeat& repeat) {
    std::vector<size_t> starts;
    std::copy_if(repeat.starts.begin(), repeat.starts.end(), std::back_inserter(starts),
                 [&](size_t start) { return IsFree(start, repeat.length); });
    if (starts.size() < 2) return;
    std::vector<std::pair<size_t, OpWindow>> windows;
    absl::flat_hash_map<std::string, size_t> count_of;
    for (const size_t start : starts) {
      std::optional<OpWindow> window = uses_.WindowOf(start, repeat.length, symbols_);
      if (!window.has_value()) continue;
      ++count_of[window->form];
      windows.emplace_back(start, *std::move(window));
    }
    const std::string* form = nullptr;
    for (const auto& [start, window] : windows) {
      if (form == nullptr || count_of[window.form] > count_of[*form]) form = &window.form;
    }
    if (form == nullptr || count_of[*form] < 2) return;
    const std::string chosen = *form;
    std::erase_if(windows, [&](const auto& window) { return window.second.form != chosen; });
    const int64_t bytes = BytesOf(windows[0].first, repeat.length, windows[0].second);
    if (SavedBytes(windows.size(), bytes, windows[0].second) <= 0) return;
    const size_t index = OutlinedAs(windows[0].first, repeat.length, windows[0].second);
    for (auto& [start, window] : windows) {
      MergeSources(window, index);
      Place(start, repeat.length, std::move(window), outlined_[index].block);
    }
  }

  // Returns the index in outlined_ of a run, which becomes a block if there is none of its form.
  size_t OutlinedAs(size_t start, size_t length, const OpWindow& window) {
    const auto known = std::find_if(outlined_.begin(), outlined_.end(),
                                    [&](const Outlined& outlined) { return outlined.form == window.form; });
    if (known != outlined_.end()) return static_cast<size_t>(known - outlined_.begin());
    const auto first = symbols_.begin() + static_cast<std::ptrdiff_t>(start);
    outlined_.push_back({std::vector<int>(first, first + static_cast<std::ptrdiff_t>(length)), window.form,
                         window.sources, static_cast<uint32_t>(artifact_.blocks_size())});
    Method& block = *artifact_.add_blocks() = uses_.BlockOf(start, length, window);
    block.set_name(absl::StrCat("repeat.", outlined_.size() - 1));
    return outlined_.size() - 1;
  }

  // Clears the sources of the block's ops that differ from those of `window`, below their paths.
  void MergeSources(const OpWindow& window, size_t index) {
    Outlined& outlined = outlined_[index];
    Method& block = *artifact_.mutable_blocks(static_cast<int>(outlined.block));
    for (size_t i = 0; i < outlined.sources.size(); ++i) {
      if (outlined.sources[i] == window.sources[i]) continue;
      outlined.sources[i].clear();
      block.mutable_ops(static_cast<int>(i))->clear_source();
    }
  }

  // Replaces the runs by calls and removes the values inside of them.
  void Replace() {
    constexpr uint32_t kRemoved = std::numeric_limits<uint32_t>::max();
    std::vector<uint32_t> names(static_cast<size_t>(method_.values_size()), 0);
    google::protobuf::RepeatedPtrField<Op> ops;
    ops.Swap(method_.mutable_ops());
    for (size_t i = 0; i < static_cast<size_t>(ops.size());) {
      const auto found = calls_.find(i);
      if (found == calls_.end()) {
        method_.add_ops()->Swap(ops.Mutable(static_cast<int>(i)));
        ++i;
        continue;
      }
      const PlacedCall& placed = found->second;
      Op& op = *method_.add_ops();
      op.mutable_inputs()->Assign(placed.window.inputs.begin(), placed.window.inputs.end());
      op.mutable_outputs()->Assign(placed.window.outputs.begin(), placed.window.outputs.end());
      op.mutable_call()->set_block(placed.block);
      op.mutable_call()->set_slice(placed.window.slice);
      op.mutable_call()->set_path(placed.window.path);
      for (const uint32_t value : placed.window.inner) names[value] = kRemoved;
      i += placed.length;
    }
    google::protobuf::RepeatedPtrField<serialization::Value> values;
    values.Swap(method_.mutable_values());
    for (size_t i = 0; i < names.size(); ++i) {
      if (names[i] == kRemoved) continue;
      names[i] = static_cast<uint32_t>(method_.values_size());
      method_.add_values()->Swap(values.Mutable(static_cast<int>(i)));
    }
    RenameValues(names, method_);
  }

  std::vector<Outlined>& outlined_;
  Artifact& artifact_;
  Method& method_;
  const ValueUses uses_;
  std::vector<int> symbols_;                       // by op
  std::vector<int64_t> bytes_;                     // by op
  std::vector<bool> covered_;                      // by op: it is in a run that became a call
  absl::flat_hash_map<size_t, PlacedCall> calls_;  // by first op
};

}  // namespace

void OutlineCalls(Artifact& artifact) {
  // Readers limit what calls expand to.
  uint64_t bytes = 0;
  for (const Method& method : artifact.methods()) bytes += method.ByteSizeLong();
  if (bytes > kMaxInlinedBytes / 4) return;
  SymbolTable symbols;
  std::vector<Outlined> outlined;
  for (int i = 0; i < artifact.methods_size(); ++i) {
    MethodOutliner(symbols, outlined, artifact, *artifact.mutable_methods(i)).Run();
  }
}

}  // namespace cotan
