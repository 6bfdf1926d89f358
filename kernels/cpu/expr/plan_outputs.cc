// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/plan_outputs.h"

#include "kernels/cpu/expr/stream.h"

namespace cotan::cpu::expr {
namespace {

// Operands of more bytes are not in cache from one op to the next: three quarters of the last level of common
// processors.
constexpr int64_t kCacheBytes = 24 << 20;

// Returns true if node i is an input that may share the memory of output operand `output`.
bool MayAlias(const PlanAnalysis& a, int i, int output) {
  const int input = a.info[static_cast<size_t>(i)].operand;
  if (a.node(i).fn != serialization::FN_INPUT || input < 0) return false;
  const auto x = static_cast<size_t>(input);
  const auto y = static_cast<size_t>(output);
  return a.operands[x].item_bytes == a.operands[y].item_bytes && a.strides[x] == a.strides[y];
}

// Returns true if output k is stored tile by tile in `phase`.
bool IsStored(const PlanAnalysis& a, size_t k, int phase) { return a.output_is_full[k] && a.StorePhase(k) == phase; }

// Returns true if node i may be computed into output k, operand `operand`: nothing that the phase reads afterwards may
// share its memory.
bool CanComputeInto(const PlanAnalysis& a, size_t k, int operand, int i, int phase) {
  for (int later = i + 1; later < static_cast<int>(a.nodes.size()); ++later) {
    const bool computed = a.IsComputed(later, phase);
    if (computed && MayAlias(a, later, operand)) return false;
    if (!computed && !a.IsReduced(later, phase)) continue;
    for (int j = 0; j < a.Arity(later); ++j) {
      if (MayAlias(a, a.node(later).operands[static_cast<size_t>(j)], operand)) return false;
    }
  }
  // Stores at the end of the phase may read inputs, too.
  for (size_t other = 0; other < a.stored.size(); ++other) {
    if (other != k && IsStored(a, other, phase) && MayAlias(a, a.stored[other], operand)) return false;
  }
  return true;
}

}  // namespace

int OutputToComputeInto(const PlanAnalysis& analysis, const KernelRequest& request, int i, int phase) {
  if (analysis.node(i).fn == serialization::FN_INPUT || analysis.info[static_cast<size_t>(i)].kept) return -1;
  for (size_t k = 0; k < analysis.stored.size(); ++k) {
    if (analysis.stored[k] != i || !IsStored(analysis, k, phase)) continue;
    const int operand = static_cast<int>(request.inputs.size() + k);
    // Narrow floats have another dtype in registers.
    if (IsNarrowFloat(request.outputs[k].dtype) || !analysis.TileIsDense(operand)) continue;
    if (CanComputeInto(analysis, k, operand, i, phase)) return static_cast<int>(k);
  }
  return -1;
}

bool ExceedsCaches(const KernelRequest& request) {
  int64_t bytes = 0;
  for (const auto& specs : {request.inputs, request.outputs}) {
    for (const TensorSpec& spec : specs) {
      bytes += NumElements(spec.layout.sizes) * static_cast<int64_t>(ByteSize(spec.dtype));
    }
  }
  return bytes > kCacheBytes;
}

bool TilesBeginLines(const PlanAnalysis& analysis, int operand) {
  const auto k = static_cast<size_t>(operand);
  for (const auto* loops : {&analysis.tiling.unit_loops, &analysis.tiling.chunk_loops}) {
    for (const Tiling::Loop& loop : *loops) {
      if (loop.steps[k] * analysis.operands[k].item_bytes % kLineBytes != 0) return false;
    }
  }
  return true;
}

}  // namespace cotan::cpu::expr
