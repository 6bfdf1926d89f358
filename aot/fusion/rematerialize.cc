// SPDX-License-Identifier: Apache-2.0

#include "aot/fusion/rematerialize.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "aot/fusion/expr_merge.h"
#include "aot/fusion/fusion.h"
#include "kernels/api/expr_program.h"

namespace cotan::aot {
namespace {

using serialization::ExprInstruction;

// Longest chain of functions that is recomputed instead of stored.
constexpr size_t kMaxRepeated = 12;

int64_t Bytes(const TensorType& type) {
  return EstimatedCount(type.sizes) * static_cast<int64_t>(ByteSize(type.dtype));
}

class Rematerializer {
 public:
  explicit Rematerializer(FusionGraph& graph) : g_(graph) {}

  void Run() {
    for (int a = 0; a < g_.num_units(); ++a) {
      if (!g_.IsExpr(a)) continue;
      const std::vector<ValueId> results = g_.ExprOf(a).outputs;
      for (const ValueId value : results) Repeat(a, value);
    }
  }

 private:
  // Computes `value`, a result of `a`, in each of its consumers instead of storing it, if all
  // consumers can and the bytes loaded do not grow.
  void Repeat(int a, ValueId value) {
    if (g_.IsOutput(value)) return;
    const std::set<int> users = g_.UsersOf(value);
    if (users.empty()) return;
    const FusedExpr& source = g_.ExprOf(a);
    const bool all_fit = std::all_of(users.begin(), users.end(), [&](int user) {
      return g_.IsExpr(user) && g_.ExprOf(user).domain == source.domain &&
             g_.ExprOf(user).instructions.size() + kMaxRepeated < kMaxFusedInstructions;
    });
    if (!all_fit || !(g_.TypeOf(value).sizes == source.domain)) return;
    std::optional<Slice> slice = SliceOf(a, value);
    if (!slice.has_value()) return;
    int64_t extra = slice->new_bytes;
    for (const int user : users) {
      for (const ValueId input : slice->fused.inputs) {
        const std::vector<ValueId>& has = g_.ExprOf(user).inputs;
        if (input < 0) continue;  // counted in new_bytes
        if (8 * EstimatedCount(g_.TypeOf(input).sizes) <= EstimatedCount(source.domain)) continue;
        if (std::find(has.begin(), has.end(), input) == has.end()) extra += Bytes(g_.TypeOf(input));
      }
    }
    const int64_t saved = Bytes(g_.TypeOf(value)) * static_cast<int64_t>(users.size() + 1);
    if (extra > saved) return;
    ApplyRepeat(a, value, *slice, users);
  }

  // A program for one value of a unit. It loads the unit's inputs and values that the unit stores,
  // or must store for this program.
  struct Slice {
    FusedExpr fused;
    std::vector<std::pair<uint32_t, ValueId>> new_stores;  // instruction, kNoValue
    int64_t new_bytes = 0;
  };

  // A new_stores value gets an id only when the slice is applied; until then its
  // input is named by a negative number.
  static ValueId Placeholder(size_t k) { return -2 - static_cast<ValueId>(k); }

  std::optional<Slice> SliceOf(int a, ValueId value) {
    const FusedExpr& source = g_.ExprOf(a);
    const std::vector<bool> full = FullLevels(source, g_.TypesOf(source.inputs));
    const size_t k =
        static_cast<size_t>(std::find(source.outputs.begin(), source.outputs.end(), value) - source.outputs.begin());
    Slice slice;
    slice.fused.domain = source.domain;
    slice.fused.outputs = {value};
    absl::flat_hash_map<uint32_t, uint32_t> copied;
    const std::optional<uint32_t> position = Copy(source, full, source.stores[k], value, copied, slice);
    if (!position.has_value() || slice.fused.instructions.size() > kMaxRepeated) return std::nullopt;
    slice.fused.stores = {*position};
    // A slice that is a single load of a stored value recomputes nothing.
    if (slice.fused.instructions[*position].fn() == serialization::FN_INPUT) return std::nullopt;
    return slice;
  }

  // Copies an instruction and its operands, and returns the new position.
  std::optional<uint32_t> Copy(const FusedExpr& source, const std::vector<bool>& full, uint32_t i, ValueId target,
                               absl::flat_hash_map<uint32_t, uint32_t>& copied, Slice& slice) {
    if (const auto it = copied.find(i); it != copied.end()) return it->second;
    ExprInstruction instruction = source.instructions[i];
    const bool is_leaf = instruction.operands_size() == 0;
    const bool small = !full[i] && !is_leaf;
    const bool expensive = !IsCheapExprFn(instruction.fn());
    const bool narrow = full[i] && instruction.dtype() == serialization::DTYPE_BOOL && expensive;
    std::optional<uint32_t> position;
    const bool at_hand = full[i] && IsStored(source, i, target);
    if ((small || expensive || narrow || at_hand || DependsOnDraw(source, i)) && !is_leaf) {
      position = LoadStored(source, full, i, target, slice);
      if (!position.has_value()) return std::nullopt;
    } else if (instruction.fn() == serialization::FN_RANDOM_UNIFORM) {
      return std::nullopt;
    } else {
      if (instruction.fn() == serialization::FN_INPUT)
        instruction.set_index(InputIndex(source.inputs[instruction.index()], slice.fused));
      for (int k = 0; k < instruction.operands_size(); ++k) {
        const std::optional<uint32_t> operand = Copy(source, full, instruction.operands(k), target, copied, slice);
        if (!operand.has_value()) return std::nullopt;
        instruction.set_operands(k, *operand);
      }
      position = static_cast<uint32_t>(slice.fused.instructions.size());
      slice.fused.instructions.push_back(std::move(instruction));
    }
    copied[i] = *position;
    return position;
  }

  static bool IsStored(const FusedExpr& source, uint32_t i, ValueId target) {
    for (size_t k = 0; k < source.stores.size(); ++k) {
      if (source.stores[k] == i && source.outputs[k] != target) return true;
    }
    return false;
  }

  // Returns true for a comparison of a random draw. Its result is stored instead of the draw: one
  // byte per element.
  static bool DependsOnDraw(const FusedExpr& source, uint32_t i) {
    const ExprInstruction& instruction = source.instructions[i];
    if (instruction.dtype() != serialization::DTYPE_BOOL) return false;
    return std::any_of(instruction.operands().begin(), instruction.operands().end(), [&](uint32_t operand) {
      return source.instructions[operand].fn() == serialization::FN_RANDOM_UNIFORM;
    });
  }

  static uint32_t InputIndex(ValueId value, FusedExpr& fused) {
    const auto it = std::find(fused.inputs.begin(), fused.inputs.end(), value);
    const auto index = static_cast<uint32_t>(it - fused.inputs.begin());
    if (it == fused.inputs.end()) fused.inputs.push_back(value);
    return index;
  }

  // Loads the result of instruction `i`, which the unit stores already, or stores additionally if
  // it is small (reduced, or one byte per element).
  std::optional<uint32_t> LoadStored(const FusedExpr& source, const std::vector<bool>& full, uint32_t i, ValueId target,
                                     Slice& slice) {
    ValueId stored = kNoValue;
    for (size_t k = 0; k < source.stores.size(); ++k) {
      if (source.stores[k] == i && source.outputs[k] != target) stored = source.outputs[k];
    }
    if (stored == kNoValue) {
      if (full[i] && source.instructions[i].dtype() != serialization::DTYPE_BOOL) return std::nullopt;
      stored = Placeholder(slice.new_stores.size());
      slice.new_stores.emplace_back(i, kNoValue);
      slice.new_bytes += full[i] ? 2 * EstimatedCount(source.domain) : 0;
    }
    ExprInstruction load;
    load.set_fn(serialization::FN_INPUT);
    load.set_dtype(source.instructions[i].dtype());
    load.set_index(InputIndex(stored, slice.fused));
    slice.fused.instructions.push_back(std::move(load));
    return static_cast<uint32_t>(slice.fused.instructions.size() - 1);
  }

  void ApplyRepeat(int a, ValueId value, Slice& slice, const std::set<int>& users) {
    FusedExpr source = g_.ExprOf(a);
    const std::vector<bool> full = FullLevels(source, g_.TypesOf(source.inputs));
    const SymIntVector reduced = ReducedSizes(source.domain, source.reduce_dims);
    for (size_t k = 0; k < slice.new_stores.size(); ++k) {
      const uint32_t i = slice.new_stores[k].first;
      const auto dtype = static_cast<DType>(source.instructions[i].dtype());
      const ValueId id = g_.graph().AddValue({dtype, full[i] ? source.domain : reduced, {}});
      std::replace(slice.fused.inputs.begin(), slice.fused.inputs.end(), Placeholder(k), id);
      source.outputs.push_back(id);
      source.stores.push_back(i);
    }
    std::vector<std::pair<int, FusedExpr>> repeated;
    for (const int user : users) {
      std::optional<FusedExpr> merged = Merge(slice.fused, g_.ExprOf(user));
      if (!merged.has_value()) return;
      merged->outputs.erase(merged->outputs.begin());
      merged->stores.erase(merged->stores.begin());
      Simplify(*merged);
      const bool fits =
          merged->inputs.size() <= kMaxFusedInputs && merged->instructions.size() <= kMaxFusedInstructions;
      if (!fits || !g_.Verifies(*merged)) return;
      repeated.emplace_back(user, *std::move(merged));
    }
    const size_t k =
        static_cast<size_t>(std::find(source.outputs.begin(), source.outputs.end(), value) - source.outputs.begin());
    source.outputs.erase(source.outputs.begin() + static_cast<int64_t>(k));
    source.stores.erase(source.stores.begin() + static_cast<int64_t>(k));
    Simplify(source);
    g_.SetExpr(a, std::move(source));
    for (auto& [user, fused] : repeated) g_.SetExpr(user, std::move(fused));
  }

  FusionGraph& g_;
};

}  // namespace

void RematerializeCheapOps(FusionGraph& graph) { Rematerializer(graph).Run(); }

}  // namespace cotan::aot
