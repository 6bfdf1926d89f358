// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/repeat_dequantization.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "aot/memory/method_facts.h"
#include "aot/memory/repeat_ops.h"
#include "base/dtype.h"

namespace cotan::aot {
namespace {

using serialization::Method;
using serialization::Op;

class Dequantizations {
 public:
  explicit Dequantizations(const Method& method) : method_(method), facts_(method) {
    for (const serialization::StateRead& read : method.state_reads()) {
      const bool changes = facts_.updated_by[read.value()] != MethodFacts::kNever;
      if (!changes) constant_states_.insert(read.value());
    }
  }

  const MethodFacts& facts() const { return facts_; }

  bool Contains(int index) const {
    const Op& op = method_.ops(index);
    if (!op.has_expr() || op.expr().reduce_dims_size() != 0 || op.outputs_size() != 1) return false;
    if (!IsFloatingPoint(DTypeOf(op.outputs(0))) || facts_.is_kept[op.outputs(0)]) return false;
    const auto is_fixed = [&](uint32_t input) {
      const uint32_t root = facts_.RootOf(input);
      const int producer = facts_.producer[root];
      return constant_states_.contains(root) || (producer >= 0 && method_.ops(producer).inputs().empty());
    };
    const auto is_quantized = [&](uint32_t input) {
      return DTypeOf(input) == DType::kInt8 || DTypeOf(input) == DType::kUInt8;
    };
    return std::all_of(op.inputs().begin(), op.inputs().end(), is_fixed) &&
           std::any_of(op.inputs().begin(), op.inputs().end(), is_quantized);
  }

  // Returns the first reader of the op's result that does not follow another reader, or nothing.
  std::optional<int> LateReader(int index) const {
    const std::vector<int>& uses = facts_.uses[method_.ops(index).outputs(0)];
    for (size_t k = 1; k < uses.size(); ++k) {
      if (uses[k] > uses[k - 1] + 1) return uses[k];
    }
    return std::nullopt;
  }

 private:
  DType DTypeOf(uint32_t value) const {
    return static_cast<DType>(method_.values(static_cast<int>(value)).type().dtype());
  }

  const Method& method_;
  const MethodFacts facts_;
  absl::flat_hash_set<uint32_t> constant_states_;  // values
};

}  // namespace

void RepeatDequantization(Method& method) {
  std::optional<Dequantizations> found(method);
  for (int i = 0; i < method.ops_size(); ++i) {
    if (!found->Contains(i)) continue;
    const std::optional<int> reader = found->LateReader(i);
    if (!reader.has_value()) continue;
    absl::flat_hash_map<uint32_t, uint32_t> copies;
    RematerializeOps(
        {.targets = {method.ops(i).outputs(0)}, .before = *reader, .ops = {i}, .parts = {}, .substitutes = {}},
        found->facts(), method, copies);
    found.emplace(method);  // the copy is one of the ops that follow
  }
}

}  // namespace cotan::aot
