// SPDX-License-Identifier: Apache-2.0

#include "aot/fusion/fusion.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "aot/fusion/derivatives.h"
#include "aot/fusion/expr_merge.h"
#include "aot/fusion/fusion_graph.h"
#include "aot/fusion/rematerialize.h"
#include "aot/ir/prim_node.h"
#include "aot/transforms/dead_code.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

using serialization::ExprInstruction;

// Longest program without inputs that is copied into each consumer.
constexpr size_t kMaxInlined = 12;

class Fuser {
 public:
  // Programs that compute values of `apart` are not merged into their readers.
  Fuser(FusionGraph& graph, absl::flat_hash_set<ValueId> apart) : g_(graph), unfusible_(std::move(apart)) {}

  // Merges every expression with the producers of its operands, where possible.
  void MergeProducers() {
    for (int b = 0; b < g_.num_units(); ++b) {
      bool progress = true;
      while (progress && g_.IsExpr(b)) {
        progress = false;
        const std::vector<ValueId> operands = g_.ExprOf(b).inputs;
        for (const ValueId value : operands) {
          const int direct = g_.Producer(value);
          const int a = g_.IsExpr(direct) ? direct : g_.Producer(g_.StripReshape(value));
          if (!TryMerge(a, b, value)) continue;
          progress = true;
          break;
        }
      }
    }
  }

  // Merges expressions that load the same large tensor.
  void MergeSiblings() {
    std::map<ValueId, std::vector<int>> loaders;
    for (int id = 0; id < g_.num_units(); ++id) {
      if (!g_.IsExpr(id) || EstimatedCount(g_.ExprOf(id).domain) <= kSmallDomain) continue;
      for (const ValueId value : g_.ExprOf(id).inputs) {
        if (EstimatedCount(g_.TypeOf(value).sizes) > kSmallDomain) loaders[value].push_back(id);
      }
    }
    MergeScalars();
    for (const auto& [value, units] : loaders) {
      for (size_t i = 0; i < units.size(); ++i) {
        for (size_t j = i + 1; j < units.size(); ++j) {
          if (!g_.IsExpr(units[i]) || !g_.IsExpr(units[j])) continue;
          MergeDirect(units[i], units[j]);
        }
      }
    }
  }

 private:
  // Returns the merged program of producer `a` and consumer (or sibling) `b`, without outputs that
  // no other unit needs. Returns none if it exceeds a limit or makes a cycle.
  std::optional<FusedExpr> Candidate(int a, const FusedExpr& first, int b, const FusedExpr& second,
                                     absl::Span<const ValueId> second_sources) {
    std::optional<FusedExpr> merged = Merge(first, second);
    if (!merged.has_value()) return std::nullopt;
    FusedExpr kept = *merged;
    kept.outputs.clear();
    kept.stores.clear();
    for (size_t k = 0; k < merged->outputs.size(); ++k) {
      const bool of_second = k >= first.outputs.size();
      if (!of_second && !g_.NeededOutside(merged->outputs[k], a, b)) continue;
      kept.outputs.push_back(merged->outputs[k]);
      kept.stores.push_back(merged->stores[k]);
    }
    Simplify(kept);
    if (kept.instructions.size() > kMaxFusedInstructions || kept.inputs.size() > kMaxFusedInputs) return std::nullopt;
    std::vector<ValueId> needed = first.inputs;
    if (std::any_of(needed.begin(), needed.end(), [&](ValueId value) { return g_.Producer(value) == b; })) {
      return std::nullopt;
    }
    needed.insert(needed.end(), second_sources.begin(), second_sources.end());
    if (g_.DependsOnEither(needed, a, b)) return std::nullopt;
    return kept;
  }

  // Returns true if merging pays off. Merging makes all consumers of `a` wait for the operands of
  // `b`. This is accepted if the domain of `a` is large, if only `b` consumes it, or if `b` waits
  // for no library op that `a` does not wait for.
  bool IsProfitable(int a, int b) {
    if (EstimatedCount(g_.ExprOf(a).domain) > kSmallDomain) return true;
    const std::vector<ValueId>& results = g_.ExprOf(a).outputs;
    if (std::none_of(results.begin(), results.end(),
                     [&](ValueId value) { return g_.NeededOutsideThroughViews(value, a, b); }))
      return true;
    return !g_.WaitsFor(b, a, [&](int id) {
      const FusionNode& unit = g_.unit(id);
      return !unit.expr.has_value() && !IsPrim(unit.node, PrimOp::kView);
    });
  }

  // Merges producer `a` of `value` into `b`. `value` is an operand of `b`, or the operand of a
  // reshape that `b` reads.
  bool TryMerge(int a, int b, ValueId value) {
    if (a == b || !g_.IsExpr(a) || !g_.IsExpr(b) || unfusible_.contains(value)) return false;
    // A reduction of a fill is not copied, because its value depends on the reduced sizes.
    if (g_.ExprOf(a).inputs.empty() && g_.ExprOf(a).reduce_dims.empty()) return InlineConstant(a, b, value);
    if (!IsProfitable(a, b)) return false;
    const ValueId behind = g_.StripReshape(value);
    if (behind == value || g_.Producer(value) == a) return MergeDirect(a, b);
    // Reshape the consumer to the producer's index space, or the reverse.
    const SymIntVector seen = g_.TypeOf(value).sizes;
    if (g_.ExprOf(b).domain == seen && TryReshaped(b, g_.TypeOf(behind).sizes, a, b)) return true;
    return g_.ExprOf(a).domain == g_.TypeOf(behind).sizes && TryReshaped(a, seen, a, b);
  }

  // Merges two units over a common index space.
  bool MergeDirect(int a, int b) {
    std::optional<FusedExpr> merged = Candidate(a, g_.ExprOf(a), b, g_.ExprOf(b), g_.ExprOf(b).inputs);
    if (!merged.has_value() || !g_.Verifies(*merged)) return false;
    g_.MergeInto(a, b, *std::move(merged));
    return true;
  }

  // Reshapes unit `id` (a or b) to `sizes` and merges a into b, if possible.
  bool TryReshaped(int id, const SymIntVector& sizes, int a, int b) {
    const FusedExpr& original = g_.ExprOf(id);
    const std::optional<Reshaped> reshaped = Reshape(original, g_.TypesOf(original.inputs), sizes);
    if (!reshaped.has_value() || !ReshapesFreely(original, *reshaped)) return false;
    // Try the merge with the ids that the operands would have after the reshape.
    FusedExpr trial = reshaped->fused;
    std::vector<ValueId> sources;
    for (size_t k = 0; k < trial.inputs.size(); ++k) {
      trial.inputs[k] = g_.ViewSource(trial.inputs[k], reshaped->input_sizes[k]);
      sources.push_back(trial.inputs[k]);
    }
    const FusedExpr first = id == a ? trial : g_.ExprOf(a);
    FusedExpr second = id == b ? trial : g_.ExprOf(b);
    if (id == a) {  // the reshaped results replace the views that b reads
      for (ValueId& input : second.inputs) {
        const auto it = std::find(first.outputs.begin(), first.outputs.end(), g_.StripReshape(input));
        if (it == first.outputs.end()) continue;
        if (g_.TypeOf(input).sizes == reshaped->output_sizes[static_cast<size_t>(it - first.outputs.begin())])
          input = *it;
      }
      sources = second.inputs;
    }
    if (!Candidate(a, first, b, second, sources).has_value()) return false;
    g_.ApplyReshape(id, *reshaped);
    if (MergeDirect(a, b)) return true;
    return false;
  }

  // Returns true if the operands can be viewed with the new sizes without a copy: they are dense,
  // not slices or permutations.
  bool ReshapesFreely(const FusedExpr& original, const Reshaped& reshaped) const {
    for (size_t k = 0; k < original.inputs.size(); ++k) {
      const ValueId value = original.inputs[k];
      if (g_.TypeOf(value).sizes == reshaped.input_sizes[k]) continue;
      const int producer = g_.Producer(g_.StripReshape(value));
      if (producer < 0) continue;
      // With convolutions, images are channels-last rather than row-major.
      const bool is_image = g_.has_convolutions() && g_.TypeOf(value).sizes.size() > 3;
      const bool is_expr = g_.unit(producer).expr.has_value();
      const std::optional<PrimOp> prim = PrimOpOf(g_.unit(producer).node);
      const bool dense = (is_expr && !is_image) || (prim.has_value() && PrimInfo(*prim).result == PrimResult::kDense);
      const bool only_ones =
          EstimatedCount(g_.TypeOf(value).sizes) == 1 || DropsOnlyOnes(g_.TypeOf(value).sizes, reshaped.input_sizes[k]);
      if (!dense && !only_ones) return false;
    }
    return true;
  }

  // Returns true if two shapes differ only in dimensions of size 1.
  static bool DropsOnlyOnes(const SymIntVector& a, const SymIntVector& b) {
    SymIntVector x, y;
    for (const SymInt& size : a) {
      if (!(size == SymInt(1))) x.push_back(size);
    }
    for (const SymInt& size : b) {
      if (!(size == SymInt(1))) y.push_back(size);
    }
    return x == y;
  }

  // Copies a fill or range into the consumer, so that it adds no dependency between its consumers.
  bool InlineConstant(int a, int b, ValueId value) {
    const FusedExpr constant = g_.ExprOf(a);
    if (constant.outputs.size() != 1 || constant.instructions.size() > kMaxInlined) return false;
    const bool uniform =
        std::all_of(constant.instructions.begin(), constant.instructions.end(),
                    [](const ExprInstruction& instruction) { return instruction.fn() != serialization::FN_IOTA; });
    FusedExpr first = constant;
    first.outputs = {value};
    if (uniform) {
      first.domain = g_.ExprOf(b).domain;
    } else if (g_.Producer(value) != a || !(first.domain == g_.ExprOf(b).domain)) {
      return false;
    }
    std::optional<FusedExpr> merged = Merge(first, g_.ExprOf(b));
    if (!merged.has_value()) return false;
    merged->outputs.erase(merged->outputs.begin());
    merged->stores.erase(merged->stores.begin());
    Simplify(*merged);
    if (!g_.Verifies(*merged)) return false;
    g_.SetExpr(b, *std::move(merged));
    return true;
  }

  // Merges programs of 0-d values computed only from graph inputs (learning rates, bias
  // corrections).
  void MergeScalars() {
    int into = -1;
    for (int id = 0; id < g_.num_units(); ++id) {
      if (!g_.IsExpr(id) || !g_.ExprOf(id).domain.empty()) continue;
      const std::vector<ValueId>& inputs = g_.ExprOf(id).inputs;
      if (std::any_of(inputs.begin(), inputs.end(), [&](ValueId value) { return g_.Producer(value) >= 0; })) continue;
      if (into >= 0 && !MergeDirect(into, id)) continue;
      into = id;
    }
  }

  FusionGraph& g_;
  const absl::flat_hash_set<ValueId> unfusible_;
};

}  // namespace

absl::StatusOr<bool> FuseExpressions(Graph& graph) {
  FusionGraph units(graph);
  Fuser fuser(units, FindDerivativesToComputeInForward(units));
  fuser.MergeProducers();
  units.DropUnused();
  RematerializeCheapOps(units);
  fuser.MergeProducers();
  fuser.MergeSiblings();
  units.DropUnused();
  COTAN_RETURN_IF_ERROR(units.Rebuild());
  COTAN_RETURN_IF_ERROR(EliminateDeadCode(graph).status());
  return true;
}

}  // namespace cotan::aot
