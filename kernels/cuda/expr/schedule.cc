// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/expr/schedule.h"

#include <algorithm>

#include "kernels/cuda/expr/node_text.h"

namespace cotan::cuda::expr {
namespace {

using serialization::FN_RANDOM_UNIFORM;

// Blocks that fill a large GPU. A constant: results do not depend on the device.
constexpr int64_t kManyBlocks = 132;
constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;
// Bounds of what a thread keeps in registers between phases.
constexpr int64_t kMaxKeptElements = 16;
constexpr int64_t kMaxKeptElementsOfWarps = 32;
constexpr int64_t kMaxKeptRegisters = 64;
// Additions that one thread makes in sequence, for the digits of f32 sums.
constexpr int64_t kMaxSequence = 512;
// Bounds of the instructions of an unrolled loop.
constexpr int64_t kMaxPackInstructions = 800;
constexpr int64_t kMaxKeptInstructions = 2500;

int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

int64_t PowerOfTwoFrom(int64_t n) {
  int64_t power = 1;
  while (power < n) power *= 2;
  return power;
}

// Returns true if an operand takes part in the values of all dimensions; of inputs both may.
bool TakesPart(const Problem& problem, size_t operand, bool full) {
  const Operand& of = problem.operands[operand];
  if (of.kind == Operand::Kind::kOutput) return problem.IsFull(problem.Stored(static_cast<size_t>(of.index))) == full;
  return of.kind == Operand::Kind::kInput || full;
}

// Returns roughly the instructions of one element.
int64_t InstructionsOf(const Problem& problem) {
  int64_t sum = 0;
  for (int i = 0; i < problem.NumNodes(); ++i) {
    if (!problem.IsNeeded(i)) continue;
    const ExprNode& node = problem.node(i);
    const int64_t width = node.dtype == DType::kFloat64 || node.dtype == DType::kInt64 ? 3 : 1;
    switch (ExprCostOf(node.fn)) {
      case ExprCost::kAddition:
        sum += 1;
        break;
      case ExprCost::kDivision:
        sum += 8 * width;
        break;
      case ExprCost::kQuotient:
        sum += 20 * width;
        break;
      case ExprCost::kFunction:
        sum += 25 * width;
        break;
      case ExprCost::kRandom:
        sum += 60;
        break;
      case ExprCost::kRemainder:
      case ExprCost::kLibrary:
        sum += 80 * width;
        break;
    }
  }
  return sum;
}

bool IsUsed(const Problem& problem, size_t operand) {
  if (problem.operands[operand].kind != Operand::Kind::kInput) return true;
  return std::any_of(problem.operand_of.begin(), problem.operand_of.end(),
                     [&](int used) { return used == static_cast<int>(operand); });
}

// Returns the elements of a pack: 16 bytes of the widest of the operands that are dense along the axis.
int PackOf(const Problem& problem, const Axis& axis, const Axis& other) {
  std::vector<size_t> dense;
  std::vector<size_t> partial;
  for (size_t i = 0; i < problem.operands.size(); ++i) {
    if (!problem.operands[i].InMemory() || !IsUsed(problem, i) || StepOf(axis, i) != 1) continue;
    const DimVector& strides = axis.strides[i];
    const bool is_dense = std::find(strides.begin(), strides.end(), 0) == strides.end();
    (is_dense ? dense : partial).push_back(i);
  }
  if (dense.empty()) dense = partial;
  if (dense.empty()) return 1;
  size_t bytes = 1;
  for (const size_t i : dense) bytes = std::max(bytes, ByteSize(problem.operands[i].dtype));
  const int64_t instructions = InstructionsOf(problem);
  for (int64_t pack = 16 / static_cast<int64_t>(bytes); pack > 1; pack /= 2) {
    const bool fits = pack * instructions <= kMaxPackInstructions || pack == 2;
    const bool all = std::all_of(dense.begin(), dense.end(),
                                 [&](size_t i) { return PackKindOf(axis, other, i, pack) == PackKind::kConsecutive; });
    if (fits && all) return static_cast<int>(pack);
  }
  return 1;
}

// Returns true if an index or an offset, or a sum of one with what a block adds, exceeds 31 bits.
bool NeedsWideIndex(const Problem& problem) {
  constexpr int64_t kLimit = (int64_t{1} << 31) - (int64_t{1} << 20);
  const DimVector& sizes = problem.program.domain_sizes;
  if (NumElements(sizes) > kLimit) return true;
  for (const Operand& operand : problem.operands) {
    int64_t last = 0;
    for (size_t d = 0; d < sizes.size(); ++d) last += (sizes[d] - 1) * operand.strides[d];
    if (last > kLimit) return true;
  }
  return false;
}

// Returns the 32-bit registers that a thread needs for each element that it keeps.
int64_t KeptRegistersOf(const Problem& problem) {
  const PhaseNodes nodes = PhaseNodesOf(problem, /*keep=*/true);
  int64_t registers = 0;
  for (int i = 0; i < problem.NumNodes(); ++i) {
    if (nodes.kept[static_cast<size_t>(i)]) registers += ValueBytes(problem.node(i).dtype) / 4;
  }
  return registers;
}

// Keeps values in registers if `steps` packs fit.
void KeepIfFits(const Problem& problem, int64_t steps, int64_t max_elements, Schedule& schedule) {
  const int64_t elements = steps * schedule.pack;
  if (problem.num_phases < 2 || schedule.parts > 1 || steps == 0 || elements > max_elements) return;
  const int64_t registers = KeptRegistersOf(problem);
  if (registers == 0 || registers * elements > kMaxKeptRegisters) return;
  if (InstructionsOf(problem) * elements > kMaxKeptInstructions && elements > schedule.pack) return;
  schedule.steps = static_cast<int>(steps);
}

// Splits the reduced axis into about `parts` parts.
void Split(int64_t parts, Schedule& schedule) {
  const int64_t unit = static_cast<int64_t>(schedule.lanes) * schedule.pack;
  schedule.part_size = CeilDiv(CeilDiv(schedule.ReducedCount(), std::max<int64_t>(parts, 1)), unit) * unit;
  schedule.parts = std::max<int64_t>(1, CeilDiv(schedule.ReducedCount(), std::max<int64_t>(schedule.part_size, 1)));
}

void ChooseRows(const Problem& problem, const ScheduleOptions& options, Schedule& schedule) {
  schedule.kind = Schedule::Kind::kRows;
  schedule.pack = PackOf(problem, schedule.reduced, schedule.kept);
  const int64_t kept = schedule.KeptCount();
  int64_t packs = CeilDiv(schedule.ReducedCount(), schedule.pack);
  int64_t max_steps = std::max<int64_t>(1, kMaxKeptElements / schedule.pack);
  const bool few_rows = kept * kWarp < kManyBlocks * options.threads;
  const bool splits = kept < kManyBlocks && schedule.ReducedCount() >= options.min_split_elements;
  if (!splits && (packs <= kWarp || (packs <= kWarp * max_steps * 2 && !few_rows))) {
    schedule.lanes = static_cast<int>(std::min<int64_t>(kWarp, PowerOfTwoFrom(packs)));
    schedule.groups = schedule.threads / schedule.lanes;
    Split(1, schedule);
    KeepIfFits(problem, CeilDiv(packs, schedule.lanes), kMaxKeptElementsOfWarps, schedule);
    return;
  }
  while (schedule.pack > 1 && 2 * packs <= schedule.threads) {  // more threads rather than wide packs
    schedule.pack /= 2;
    packs = CeilDiv(schedule.ReducedCount(), schedule.pack);
    max_steps *= 2;
  }
  if (problem.num_phases > 1 && !splits) {
    while (schedule.threads < kMaxThreads && CeilDiv(packs, schedule.threads) > max_steps) schedule.threads *= 2;
    if (CeilDiv(packs, schedule.threads) > max_steps) schedule.threads = 2 * options.threads;
  }
  schedule.lanes = schedule.threads;
  schedule.groups = 1;
  const int64_t steps = CeilDiv(packs, schedule.lanes);
  int64_t parts = CeilDiv(steps * schedule.pack, kMaxSequence);
  if (splits) {
    parts = std::max(parts, std::min(CeilDiv(2 * kManyBlocks, kept), steps / options.min_part_steps));
  }
  Split(parts, schedule);
  KeepIfFits(problem, steps, kMaxKeptElements, schedule);
}

void ChooseColumns(const Problem& problem, const ScheduleOptions& options, Schedule& schedule) {
  schedule.kind = Schedule::Kind::kColumns;
  const int64_t kept = schedule.KeptCount();
  const int64_t reduced = schedule.ReducedCount();
  schedule.groups = static_cast<int>(std::min<int64_t>(kWarp, PowerOfTwoFrom(kept)));
  const int64_t blocks = CeilDiv(kept, schedule.groups);
  if (reduced >= options.threads && blocks < 2 * kManyBlocks)
    schedule.threads = std::min(4 * options.threads, kMaxThreads);
  schedule.lanes = schedule.threads / schedule.groups;
  if (PowerOfTwoFrom(reduced) < schedule.lanes) {  // few rows: more columns per block
    schedule.lanes = static_cast<int>(PowerOfTwoFrom(reduced));
    schedule.groups = schedule.threads / schedule.lanes;
  }
  const int64_t steps = CeilDiv(reduced, schedule.lanes);
  int64_t parts = CeilDiv(steps, kMaxSequence);
  if (blocks < kManyBlocks && schedule.groups * reduced >= options.min_split_elements) {
    parts = std::max(parts, std::min(CeilDiv(2 * kManyBlocks, blocks), steps / (2 * options.min_part_steps)));
  }
  Split(parts, schedule);
  KeepIfFits(problem, steps, kMaxKeptElements, schedule);
}

}  // namespace

Schedule ScheduleReduction(const Problem& problem, const ScheduleOptions& options) {
  const DimVector& sizes = problem.program.domain_sizes;
  const std::vector<int> order = OrderDims(sizes, problem.operands);
  std::vector<int> kept;
  std::vector<int> reduced;
  for (const int d : order) (problem.program.reduce[static_cast<size_t>(d)] ? reduced : kept).push_back(d);
  Schedule schedule;
  schedule.wide = NeedsWideIndex(problem);
  schedule.threads = options.threads;
  schedule.kept = MakeAxis(kept, sizes, problem.operands);
  schedule.reduced = MakeAxis(reduced, sizes, problem.operands);
  const bool inner_is_reduced = order.empty() || problem.program.reduce[static_cast<size_t>(order.back())];
  if (inner_is_reduced || schedule.KeptCount() == 1) {
    ChooseRows(problem, options, schedule);
  } else {
    ChooseColumns(problem, options, schedule);
  }
  return schedule;
}

Schedule SchedulePointwise(const Problem& problem, bool full, const ScheduleOptions& options) {
  const DimVector& sizes = problem.program.domain_sizes;
  // Operands of the other level do not take part.
  std::vector<Operand> operands = problem.operands;
  for (size_t i = 0; i < operands.size(); ++i) {
    if (!TakesPart(problem, i, full)) std::fill(operands[i].strides.begin(), operands[i].strides.end(), 0);
  }
  std::vector<int> dims;
  for (const int d : OrderDims(sizes, operands)) {
    if (full || !problem.program.reduce[static_cast<size_t>(d)]) dims.push_back(d);
  }
  Schedule schedule;
  schedule.wide = NeedsWideIndex(problem);
  schedule.threads = options.threads;
  schedule.kept = MakeAxis({}, sizes, operands);
  schedule.reduced = MakeAxis(dims, sizes, operands);
  schedule.pack = PackOf(problem, schedule.reduced, schedule.kept);
  schedule.part_size = schedule.ReducedCount();
  return schedule;
}

}  // namespace cotan::cuda::expr
