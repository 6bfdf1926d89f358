// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/expr/schedule.h"

#include <algorithm>
#include <utility>

#include "base/rounding.h"
#include "kernels/cuda/expr/node_text.h"

namespace cotan::cuda::expr {
namespace {

using serialization::FN_RANDOM_UNIFORM;

constexpr int kWarp = 32;
constexpr int kMaxThreads = 1024;
constexpr int64_t kSectorBytes = 32;  // of an access to memory
constexpr int64_t kThreadsOfProcessor = 2048;
// Bounds of what a thread keeps in registers between phases: of all blocks, of groups of a warp, and of blocks of
// kMaxThreads.
constexpr int64_t kMaxKeptElements = 64;
constexpr int64_t kMaxKeptRegisters = 64;
constexpr int64_t kMaxKeptElementsOfWarps = 32;
constexpr int64_t kMaxKeptElementsOfMany = 16;
constexpr int64_t kMaxKeptRegistersOfMany = 32;
// Rows that a group handles one after another, at most.
constexpr int64_t kMaxRows = 16;
// Additions that one thread makes in sequence, for the digits of f32 sums.
constexpr int64_t kMaxSequence = 512;
// Bounds of the instructions of an unrolled loop.
constexpr int64_t kMaxPackInstructions = 800;
constexpr int64_t kMaxKeptInstructions = 3000;
// Estimates for CostOf(): of an access and its address, and of the time that loads from the L2 cache take.
constexpr int64_t kAccessInstructions = 16;
constexpr int64_t kLoadInstructions = 120'000;
// Packs that a thread loads at the same time if it keeps none.
constexpr int64_t kPacksAtATime = 8;
// Of a block that has to start and to add what its threads have.
constexpr int64_t kBlockInstructions = 100'000;

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

// Returns roughly the instructions of one element: of the full nodes only, or of all.
int64_t InstructionsOf(const Problem& problem, bool full_only) {
  int64_t sum = 0;
  for (int i = 0; i < problem.NumNodes(); ++i) {
    if (!problem.IsNeeded(i) || (full_only && !problem.IsFull(i))) continue;
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
  const int64_t instructions = InstructionsOf(problem, /*full_only=*/false);
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

int64_t RegistersOf(const Problem& problem, const NodeSet& nodes) {
  int64_t registers = 0;
  for (int i = 0; i < problem.NumNodes(); ++i) {
    if (nodes[static_cast<size_t>(i)]) registers += ValueBytes(problem.node(i).dtype) / 4;
  }
  return registers;
}

// Returns the 32-bit registers that a thread needs for each element that it keeps.
int64_t KeptRegistersOf(const Problem& problem, Keep keep) {
  return RegistersOf(problem, PhaseNodesOf(problem, keep).kept);
}

bool FitsRegisters(int64_t registers, int64_t elements, const Schedule& schedule) {
  if (schedule.threads * schedule.resident >= kMaxThreads) {
    return elements <= kMaxKeptElementsOfMany && registers * elements <= kMaxKeptRegistersOfMany;
  }
  return elements <= kMaxKeptElements && registers * elements <= kMaxKeptRegisters;
}

// Keeps values in registers if those of all packs of a thread fit.
void KeepIfFits(const Problem& problem, Schedule& schedule) {
  const int64_t steps = schedule.PacksPerThread();
  const int64_t elements = steps * schedule.pack;
  if (problem.num_phases < 2 || steps == 0) return;
  const int64_t of_inputs = KeptRegistersOf(problem, Keep::kInputs);
  const int64_t of_values = KeptRegistersOf(problem, Keep::kValues);
  const int64_t registers = std::min(of_inputs, of_values);
  if (registers == 0 || !FitsRegisters(registers, elements, schedule)) return;
  if (InstructionsOf(problem, /*full_only=*/true) * elements > kMaxKeptInstructions && elements > schedule.pack) return;
  schedule.steps = static_cast<int>(steps);
  schedule.keep = of_values < of_inputs ? Keep::kValues : Keep::kInputs;
}

// Lets groups handle several kept indices if they read inputs that are the same for all, and the GPU stays filled.
void ChooseRowsOfGroup(const Problem& problem, const ScheduleOptions& options, Schedule& schedule) {
  if (schedule.steps == 0) return;
  const int64_t full_grid = options.processors * (kThreadsOfProcessor / schedule.threads);
  const int64_t rows = std::min(kMaxRows, CeilDiv(schedule.KeptCount(), schedule.groups) / full_grid);
  const NodeSet kept = PhaseNodesOf(problem, schedule.keep).kept;
  NodeSet both = InvariantInputsOf(problem);
  if (rows < 2 || std::find(both.begin(), both.end(), true) == both.end()) return;
  for (size_t i = 0; i < kept.size(); ++i) both[i] = both[i] || kept[i];
  const int64_t elements = static_cast<int64_t>(schedule.steps) * schedule.pack;
  if (FitsRegisters(RegistersOf(problem, both), elements, schedule)) schedule.rows = static_cast<int>(rows);
}

// Splits the reduced axis into about `parts` parts: of equal sizes, if somewhat fewer parts are.
void Split(int64_t parts, Schedule& schedule) {
  const int64_t unit = static_cast<int64_t>(schedule.lanes) * schedule.pack;
  const int64_t units = CeilDiv(schedule.ReducedCount(), unit);
  const int64_t least = std::max<int64_t>(CeilDiv(units, std::max<int64_t>(parts, 1)), 1);
  int64_t of_part = least;
  while (parts > 1 && units % of_part != 0 && of_part <= least + least / 4) ++of_part;
  schedule.part_size = (units % of_part == 0 ? of_part : least) * unit;
  schedule.parts = std::max<int64_t>(1, CeilDiv(schedule.ReducedCount(), std::max<int64_t>(schedule.part_size, 1)));
}

// Returns true if an operand has different elements for different reduced indices.
bool VariesAlongReduced(const Schedule& schedule, size_t operand) {
  const DimVector& strides = schedule.reduced.strides[operand];
  return std::any_of(strides.begin(), strides.end(), [](int64_t stride) { return stride != 0; });
}

// Returns the instructions that a multiprocessor executes, or could while it waits, until a schedule has ended.
int64_t CostOf(const Problem& problem, const ScheduleOptions& options, const Schedule& schedule) {
  int64_t accesses = 0;  // of an element
  for (size_t i = 0; i < problem.operands.size(); ++i) {
    if (problem.operands[i].InMemory() && IsUsed(problem, i) && VariesAlongReduced(schedule, i)) ++accesses;
  }
  const int64_t of_element = accesses * kAccessInstructions + InstructionsOf(problem, /*full_only=*/true);
  const int64_t of_part = schedule.parts > 1 ? schedule.part_size : schedule.ReducedCount();
  const int64_t visits = schedule.steps > 0 ? 1 : problem.num_phases;
  const int64_t loads =
      visits * CeilDiv(schedule.PacksPerThread(), schedule.steps > 0 ? kMaxKeptElements : kPacksAtATime);
  const int64_t blocks = CeilDiv(schedule.Tiles() * schedule.parts, options.processors);
  const int64_t waits = schedule.parts == 1 ? 0 : problem.num_phases - 1 + (StoresAfterPhases(problem) ? 1 : 0);
  const int64_t totals = CeilDiv(schedule.KeptPerBlock() * schedule.parts, schedule.threads);  // of a thread
  return blocks * (visits * schedule.KeptPerBlock() * of_part * of_element + kBlockInstructions) +
         loads * kLoadInstructions + waits * options.wait_instructions * (2 + totals) / 2;
}

// Returns `schedule`, or one of lower cost with a team for each tile of kept indices.
Schedule SplitIfCheaper(const Problem& problem, const ScheduleOptions& options, const Schedule& split,
                        Schedule schedule) {
  const int64_t steps = CeilDiv(split.ReducedCount(), static_cast<int64_t>(split.lanes) * split.pack);
  const int64_t tiles = std::max<int64_t>(split.Tiles(), 1);
  // Blocks that wait for each other are all resident. The others hide each other's latencies.
  const bool waits = problem.num_phases > 1;
  int64_t cost = CostOf(problem, options, schedule);
  for (const int64_t half_blocks : {1, 2, 4}) {  // of each multiprocessor
    Schedule candidate = split;
    candidate.resident = waits ? static_cast<int>(CeilDiv(half_blocks, 2)) : 2;
    const int64_t wanted = std::min(half_blocks * options.processors / 2 / tiles, steps / options.min_part_steps);
    Split(std::max(CeilDiv(steps * split.pack, kMaxSequence), wanted), candidate);
    KeepIfFits(problem, candidate);
    const int64_t candidate_cost = CostOf(problem, options, candidate);
    if (candidate.parts == 1 || candidate_cost >= cost) continue;
    cost = candidate_cost;
    schedule = candidate;
  }
  return schedule;
}

// Chooses groups of a warp or less, several to a block.
bool ChooseWarps(const ScheduleOptions& options, Schedule& schedule) {
  const int64_t packs = CeilDiv(schedule.ReducedCount(), schedule.pack);
  const int64_t max_steps = kMaxKeptElementsOfWarps / schedule.pack;
  const bool few_rows = schedule.KeptCount() * kWarp < options.processors * static_cast<int64_t>(options.threads);
  if (packs > kWarp && (packs > kWarp * max_steps || few_rows)) return false;
  schedule.lanes = static_cast<int>(std::min<int64_t>(kWarp, PowerOfTwoFrom(packs)));
  schedule.groups = schedule.threads / schedule.lanes;
  return true;
}

// Chooses groups of a whole block.
void ChooseBlocks(const Problem& problem, const ScheduleOptions& options, Schedule& schedule) {
  const auto elements = [&](int threads) {
    return CeilDiv(schedule.ReducedCount(), static_cast<int64_t>(threads) * schedule.pack) * schedule.pack;
  };
  while (schedule.pack > 1 && schedule.ReducedCount() <= schedule.threads * int64_t{schedule.pack} / 2) {
    schedule.pack /= 2;  // more threads rather than wide packs
  }
  if (problem.num_phases > 1) {
    const int64_t bound = kMaxKeptElementsOfMany;
    while (schedule.threads < kMaxThreads && elements(schedule.threads) > bound) schedule.threads *= 2;
    if (elements(schedule.threads) > bound) schedule.threads = 2 * options.threads;
  }
  schedule.lanes = schedule.threads;
  schedule.groups = 1;
}

// Chooses what depends on lanes and groups, of a schedule without parts.
void FinishRows(const Problem& problem, const ScheduleOptions& options, Schedule& schedule) {
  const int64_t elements = CeilDiv(schedule.ReducedCount(), schedule.lanes);
  Split(schedule.lanes > kWarp ? CeilDiv(elements, kMaxSequence) : 1, schedule);
  KeepIfFits(problem, schedule);
  ChooseRowsOfGroup(problem, options, schedule);
}

Schedule ChooseRows(const Problem& problem, const ScheduleOptions& options, Schedule schedule) {
  schedule.kind = Schedule::Kind::kRows;
  schedule.pack = PackOf(problem, schedule.reduced, schedule.kept);
  const Schedule start = schedule;
  const bool has_warps = ChooseWarps(options, schedule);
  if (!has_warps) ChooseBlocks(problem, options, schedule);
  FinishRows(problem, options, schedule);
  if (has_warps && schedule.rows == 1) {
    // A block has room for inputs that are the same for all rows.
    Schedule blocks = start;
    ChooseBlocks(problem, options, blocks);
    FinishRows(problem, options, blocks);
    if (blocks.rows > 1 && blocks.ReducedCount() >= 2 * blocks.threads) return blocks;
  }
  Schedule split = start;
  split.lanes = split.threads;
  return SplitIfCheaper(problem, options, split, std::move(schedule));
}

// Returns the kept indices, at most a warp, that a block has if there are few: 32 bytes of the widest of the operands
// that are consecutive and vary along the reduced axis, if these begin at multiples of 32 bytes.
int SectorOf(const Problem& problem, const Schedule& schedule) {
  const auto counts = [&](size_t i) {
    return problem.operands[i].InMemory() && IsUsed(problem, i) && StepOf(schedule.kept, i) == 1 &&
           VariesAlongReduced(schedule, i);
  };
  int64_t bytes = 1;
  for (size_t i = 0; i < problem.operands.size(); ++i) {
    if (counts(i)) bytes = std::max(bytes, static_cast<int64_t>(ByteSize(problem.operands[i].dtype)));
  }
  const int64_t sector = kSectorBytes / bytes;
  for (size_t i = 0; i < problem.operands.size(); ++i) {
    if (!counts(i)) continue;
    if (PackKindOf(schedule.kept, schedule.reduced, i, sector) != PackKind::kConsecutive) return kWarp;
  }
  return static_cast<int>(sector);
}

// Returns the threads of blocks of columns: more than usual if there are few blocks. Twice as many would have half the
// registers each: a block would keep no more, and ptxas would spill sooner.
int ThreadsOfColumns(const ScheduleOptions& options, const Schedule& schedule) {
  const bool few_blocks = schedule.Tiles() < 2 * options.processors;
  if (schedule.ReducedCount() < options.threads || !few_blocks) return options.threads;
  return std::min(2 * options.threads, kMaxThreads);
}

// Sets threads and lanes of a schedule with `groups`.
void SetThreads(int threads, Schedule& schedule) {
  const int64_t reduced = schedule.ReducedCount();
  schedule.threads = threads;
  schedule.lanes = threads / schedule.groups;
  if (PowerOfTwoFrom(reduced) < schedule.lanes) {  // few rows: more columns per block
    schedule.lanes = static_cast<int>(PowerOfTwoFrom(reduced));
    schedule.groups = threads / schedule.lanes;
  }
}

Schedule ChooseColumns(const Problem& problem, const ScheduleOptions& options, Schedule schedule) {
  schedule.kind = Schedule::Kind::kColumns;
  schedule.groups = static_cast<int>(std::min<int64_t>(kWarp, PowerOfTwoFrom(schedule.KeptCount())));
  Schedule split = schedule;
  const int sector = SectorOf(problem, schedule);
  while (schedule.groups > sector && schedule.Tiles() < options.processors) schedule.groups /= 2;
  // Many threads, or more registers for each of fewer ones, may keep what the usual number cannot.
  const Schedule tiles = schedule;
  const int usual = ThreadsOfColumns(options, tiles);
  for (const int threads : {usual, kMaxThreads / 2, kMaxThreads}) {
    Schedule candidate = tiles;
    SetThreads(threads, candidate);
    Split(CeilDiv(CeilDiv(candidate.ReducedCount(), candidate.lanes), kMaxSequence), candidate);
    KeepIfFits(problem, candidate);
    if (threads == usual || candidate.steps > 0) schedule = candidate;
    if (schedule.steps > 0 || problem.num_phases < 2) break;
  }
  // Few columns are few totals to exchange; many are consecutive accesses.
  if (problem.num_phases > 1) split.groups = std::min(split.groups, sector);
  SetThreads(std::min(2 * options.threads, kMaxThreads), split);
  return SplitIfCheaper(problem, options, split, std::move(schedule));
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
  const bool rows = inner_is_reduced || schedule.KeptCount() == 1;
  return rows ? ChooseRows(problem, options, std::move(schedule))
              : ChooseColumns(problem, options, std::move(schedule));
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
