// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/expr/kernel_writer.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/expr/node_text.h"
#include "kernels/cuda/expr/phase_writer.h"
#include "kernels/cuda/expr/text_writer.h"

namespace cotan::cuda::expr {
namespace {

constexpr int64_t kScratchAlignment = 64;

int64_t CeilDiv(int64_t a, int64_t b) { return a / b + (a % b != 0 ? 1 : 0); }

// Where the totals of parts lie in scratch memory.
struct PartialTotals {
  std::vector<int64_t> offset;  // per node, of reductions
  int64_t bytes = 0;
};

PartialTotals PlacePartialTotals(const Problem& problem, const Schedule& schedule) {
  PartialTotals result;
  result.offset.assign(problem.program.nodes.size(), 0);
  if (schedule.parts == 1) return result;
  for (int i = 0; i < problem.NumNodes(); ++i) {
    if (!problem.IsNeeded(i) || !IsExprReduction(problem.node(i).fn)) continue;
    result.offset[static_cast<size_t>(i)] = result.bytes;
    const int64_t bytes = schedule.parts * schedule.KeptCount() * TotalBytes(problem.node(i).dtype);
    result.bytes += CeilDiv(bytes, kScratchAlignment) * kScratchAlignment;
  }
  return result;
}

PhaseNodes NodesOfSchedule(const Problem& problem, const Schedule& schedule) {
  PhaseNodes nodes = PhaseNodesOf(problem, schedule.keep);
  if (schedule.rows > 1) HoistInvariantInputs(problem, nodes);
  return nodes;
}

// Writes the phases [first, end) of an expression with reductions. With parts, `first` is the only phase, or the number
// of phases: then only what follows them is written. Blocks are then items of the kernel, whose number within the phase
// is a variable `item`.
class ReductionWriter {
 public:
  ReductionWriter(const Problem& problem, const Schedule& schedule, const PartialTotals& totals, int first, int end)
      : problem_(problem),
        schedule_(schedule),
        totals_(totals),
        nodes_(NodesOfSchedule(problem, schedule)),
        first_(first),
        end_(end),
        has_phases_(first < problem.num_phases),
        shared_(ReducedNodesOf(problem, nodes_, first, end)),
        text_(schedule.parts > 1 ? 2 : 1),
        phase_(problem, schedule, nodes_, text_) {}

  KernelPart Write() {
    WriteLane();
    if (schedule_.rows > 1) {
      phase_.WriteStart(first_, end_);
      phase_.WriteInvariantInputs();
      text_.Directive("#pragma unroll 1");
      text_.Open("for (Index row = 0; row < ", schedule_.rows, "u; ++row)");
    }
    WritePosition();
    if (schedule_.rows == 1) phase_.WriteStart(first_, end_);
    for (int time = 1; time < 2 * first_; time += 2) WriteTotalsOfParts(time);
    WriteReducedNodes(-1, 2 * first_ - 1);
    WriteStores(2 * first_ - 1);
    for (int p = first_; p < end_ && has_phases_; ++p) {
      if (p > first_ && schedule_.RenewsLane()) text_.Line("Renew(lane);");
      phase_.WritePhase(p);
      if (schedule_.parts > 1) {
        WritePartialTotals(p);
        continue;
      }
      for (const int i : phase_.ReductionsOf(p)) {
        text_.Line("const ", ValueType(problem_.node(i).dtype), " v", i, " = ", FinishedTotal(i), ";");
      }
      WriteReducedNodes(2 * p + 1, 2 * p + 1);
      WriteStores(2 * p + 1);
    }
    if (schedule_.rows > 1) text_.Close();
    return Finish();
  }

 private:
  bool HasParts() const { return schedule_.parts > 1 && has_phases_; }
  bool IsRows() const { return schedule_.kind == Schedule::Kind::kRows; }
  std::string Literal(int64_t value) const { return phase_.index().Literal(value); }

  // Writes the number of the thread in its group.
  void WriteLane() {
    const absl::string_view lane = schedule_.RenewsLane() ? "Index lane = " : "const Index lane = ";
    if (schedule_.groups == 1) {
      text_.Line(lane, "threadIdx.x;");
    } else if (IsRows()) {
      text_.Line(lane, "threadIdx.x % ", schedule_.lanes, "u;");
    } else {
      text_.Line(lane, "threadIdx.x / ", schedule_.groups, "u;");
    }
  }

  // Returns the number of the block, or of its row.
  std::string BlockOfRow() {
    if (HasParts()) return absl::StrCat("static_cast<Index>(item / ", schedule_.parts, "u)");
    if (schedule_.parts > 1) return "static_cast<Index>(item)";
    if (schedule_.rows == 1) return "static_cast<Index>(block)";
    const std::string row = absl::StrCat("static_cast<Index>(block) * ", schedule_.rows, "u + row");
    return schedule_.groups == 1 ? row : absl::StrCat("(", row, ")");
  }

  // Writes which kept and reduced indices the thread handles.
  void WritePosition() {
    const int groups = schedule_.groups;
    if (HasParts()) text_.Line("const Index part = item % ", schedule_.parts, "u;");
    if (groups == 1) {
      text_.Line("const Index k = ", BlockOfRow(), ";");
    } else if (IsRows()) {
      text_.Line("const Index k = ", BlockOfRow(), " * ", groups, "u + threadIdx.x / ", schedule_.lanes, "u;");
    } else {
      text_.Line("const Index k = ", BlockOfRow(), " * ", groups, "u + threadIdx.x % ", groups, "u;");
    }
    const bool exact = schedule_.ExactGroups();
    if (!exact) text_.Line("const bool valid = k < ", Literal(schedule_.KeptCount()), ";");
    const std::string count = Literal(schedule_.ReducedCount());
    if (HasParts()) {
      const std::string size = Literal(schedule_.part_size);
      text_.Line("const Index begin = part * ", size, ";");
      const std::string end = absl::StrCat("begin + ", size, " < ", count, " ? begin + ", size, " : ", count);
      text_.Line("const Index end = ", exact ? end : absl::StrCat("!valid ? begin : ", end), ";");
    } else if (has_phases_) {
      text_.Line("const Index end = ", exact ? count : absl::StrCat("valid ? ", count, " : 0"), ";");
    }
    std::vector<size_t> operands(problem_.operands.size());
    std::iota(operands.begin(), operands.end(), 0);
    for (const std::string& line : phase_.index().Coordinates(schedule_.kept, operands, "k")) text_.Line(line);
  }

  // Returns the total of the group of threads for their totals.
  std::string GroupTotal(int i) const {
    const std::string type = ReductionType(problem_.node(i));
    if (!IsRows()) {
      return absl::StrCat("ReduceColumn<", type, ", ", schedule_.groups, ", ", schedule_.lanes, ">(t", i, ")");
    }
    if (schedule_.lanes == 1) return absl::StrCat("t", i);
    const bool warp = schedule_.lanes <= 32;
    return absl::StrCat(warp ? "ReduceLanes<" : "ReduceBlock<", type, ", ", schedule_.lanes, ">(t", i, ")");
  }

  // Returns the value of a reduction.
  std::string FinishedTotal(int i) const {
    const DType dtype = problem_.node(i).dtype;
    if (dtype == DType::kBool) return absl::StrCat(GroupTotal(i), " != 0");
    if (IsFloatingPoint(dtype) || ValueType(dtype) == TotalType(dtype)) return RoundedText(dtype, GroupTotal(i));
    return absl::StrCat("static_cast<", ValueType(dtype), ">(", GroupTotal(i), ")");
  }

  std::string PartialOffset(absl::string_view part) const {
    return IsRows() ? absl::StrCat("k * ", Literal(schedule_.parts), " + ", part)
                    : absl::StrCat(part, " * ", Literal(schedule_.KeptCount()), " + k");
  }

  KernelArgument PartialArgument(int i) const { return ScratchArgument(totals_.offset[static_cast<size_t>(i)]); }

  void WritePartialTotals(int p) {
    for (const int i : phase_.ReductionsOf(p)) {
      text_.Line("const ", TotalType(problem_.node(i).dtype), " total", i, " = ", GroupTotal(i), ";");
      text_.Line(schedule_.ExactGroups() ? "if (lane == 0) " : "if (valid && lane == 0) ", "partial", i, "[",
                 PartialOffset("part"), "] = total", i, ";");
      partials_.push_back(
          {absl::StrCat(TotalType(problem_.node(i).dtype), "*"), absl::StrCat("partial", i), PartialArgument(i)});
    }
  }

  // Adds the totals of parts for the reductions of `time` that this launch needs.
  void WriteTotalsOfParts(int time) {
    const NodeSet stored = StoredNodesOf(problem_, 2 * first_ - 1, shared_);
    for (const int i : phase_.ReductionsOf(time / 2)) {
      if (!shared_[static_cast<size_t>(i)] && !stored[static_cast<size_t>(i)]) continue;
      const DType dtype = problem_.node(i).dtype;
      const std::string type = ReductionType(problem_.node(i));
      text_.Line(TotalType(dtype), " t", i, " = ", type, "::Start();");
      const std::string parts = Literal(schedule_.parts);
      text_.Open("for (Index s = lane; s < ",
                 schedule_.ExactGroups() ? parts : absl::StrCat("(valid ? ", parts, " : 0)"),
                 "; s += ", schedule_.lanes, "u)");
      text_.Line("t", i, " = ", type, "::Add(t", i, ", partial", i, "[", PartialOffset("s"), "]);");
      text_.Close();
      text_.Line("const ", ValueType(dtype), " v", i, " = ", FinishedTotal(i), ";");
      partials_.push_back({absl::StrCat(TotalType(dtype), "*"), absl::StrCat("partial", i), PartialArgument(i)});
    }
  }

  // Writes the reduced values of times [first_time, last_time] that all threads need.
  void WriteReducedNodes(int first_time, int last_time) {
    for (int i = 0; i < problem_.NumNodes(); ++i) {
      const int time = problem_.Time(i);
      if (shared_[static_cast<size_t>(i)] && time >= first_time && time <= last_time) phase_.WriteReducedNode(i, false);
    }
  }

  bool ReadsReducedInput() const {
    for (int i = 0; i < problem_.NumNodes(); ++i) {
      if (shared_[static_cast<size_t>(i)] && problem_.node(i).fn == serialization::FN_INPUT) return true;
    }
    return false;
  }

  // Stores the reduced outputs of `time`, in one thread of each group.
  void WriteStores(int time) {
    const NodeSet nodes = StoredNodesOf(problem_, time, shared_);
    std::vector<size_t> outputs;
    for (size_t k = 0; k < problem_.outputs.size(); ++k) {
      const int stored = problem_.Stored(k);
      if (!problem_.IsFull(stored) && problem_.Time(stored) == time) outputs.push_back(k);
    }
    if (outputs.empty()) return;
    // Other lanes may have read inputs in whose memory the outputs lie. Wider groups have passed a barrier.
    if (time > 0 && IsRows() && schedule_.lanes > 1 && schedule_.lanes <= 32 && ReadsReducedInput()) {
      text_.Line("__syncwarp();");
    }
    std::string condition = schedule_.ExactGroups() ? "" : "valid && ";
    if (HasParts()) absl::StrAppend(&condition, "part == 0 && ");
    text_.Open("if (", condition, "lane == 0)");
    for (int i = 0; i < problem_.NumNodes(); ++i) {
      const bool is_total = IsExprReduction(problem_.node(i).fn);
      if (nodes[static_cast<size_t>(i)] && !is_total) phase_.WriteReducedNode(i, true);
    }
    for (const size_t k : outputs) phase_.WriteReducedStore(k);
    text_.Close();
  }

  KernelPart Finish() {
    KernelPart part;
    part.entry = IsRows() ? "expr_rows" : "expr_columns";
    phase_.FinishPart(part);
    part.headers.push_back("reduce");
    std::sort(part.headers.begin(), part.headers.end());
    part.parameters.insert(part.parameters.end(), partials_.begin(), partials_.end());
    part.body = text_.Take();
    part.blocks = schedule_.Tiles() * (HasParts() ? schedule_.parts : 1);
    part.threads = schedule_.threads;
    return part;
  }

  const Problem& problem_;
  const Schedule& schedule_;
  const PartialTotals& totals_;
  const PhaseNodes nodes_;
  const int first_;
  const int end_;
  const bool has_phases_;
  const NodeSet shared_;
  TextWriter text_;
  PhaseWriter phase_;
  std::vector<KernelParameter> partials_;
};

// Adds to a kernel the headers and parameters of one of its phases.
void AddUses(const KernelPart& phase, KernelPart& kernel) {
  kernel.wide |= phase.wide;
  kernel.guarded |= phase.guarded;
  for (const std::string& header : phase.headers) {
    if (std::find(kernel.headers.begin(), kernel.headers.end(), header) == kernel.headers.end()) {
      kernel.headers.push_back(header);
    }
  }
  std::sort(kernel.headers.begin(), kernel.headers.end());
  for (const KernelParameter& parameter : phase.parameters) {
    const bool is_known = std::any_of(kernel.parameters.begin(), kernel.parameters.end(),
                                      [&](const KernelParameter& other) { return other.name == parameter.name; });
    if (!is_known) kernel.parameters.push_back(parameter);
  }
}

// Writes one kernel of an expression whose reduced axis has parts: each phase has an item for each part of each tile
// of kept indices, and what follows the last one an item for each tile.
KernelPart WriteItems(const Problem& problem, const Schedule& schedule, const PartialTotals& totals) {
  const int end = problem.num_phases + (StoresAfterPhases(problem) ? 1 : 0);
  KernelPart kernel;
  kernel.blocks = 0;
  TextWriter phases(1);
  for (int p = 0; p < end; ++p) {
    const KernelPart phase = ReductionWriter(problem, schedule, totals, p, p + 1).Write();
    AddUses(phase, kernel);
    const std::string first = p == 0 ? "" : absl::StrCat(" - ", kernel.blocks, "u");
    kernel.blocks += phase.blocks;
    const std::string condition = absl::StrCat("if (ticket < ", kernel.blocks, "u)");
    phases.Open(p == 0 ? condition : p + 1 < end ? absl::StrCat("else ", condition) : "else");
    phases.Line("const uint32 item = ticket", first, ";");
    const bool has_parts = p < problem.num_phases;
    const std::string tile = has_parts ? absl::StrCat("item / ", schedule.parts, "u") : "item";
    phases.Line("uint32* const finished = counters + (1u + ", tile, ");");
    if (p > 0) phases.Line("WaitForItems(finished, ", p * schedule.parts, "u);");
    phases.Append(phase.body);
    phases.Line("FinishItem(finished, ", problem.num_phases * schedule.parts + (end - problem.num_phases), "u);");
    phases.Close();
    kernel.entry = phase.entry;
  }
  TextWriter text(1);
  text.Line("const uint32 ticket = TakeItem(counters, ", kernel.blocks, "u);");
  text.Append(phases.Take());
  kernel.body = text.Take();
  kernel.threads = schedule.threads;
  kernel.counters = 1 + schedule.Tiles();
  return kernel;
}

// Returns true if an output has the level; `full` or reduced.
bool HasOutputs(const Problem& problem, bool full) {
  return std::any_of(problem.program.outputs.begin(), problem.program.outputs.end(),
                     [&](int stored) { return problem.IsFull(stored) == full; });
}

// Returns the nodes that the outputs of a level need.
NodeSet NodesOf(const Problem& problem, bool full) {
  NodeSet nodes(problem.program.nodes.size(), false);
  for (const int stored : problem.program.outputs) {
    if (problem.IsFull(stored) == full) nodes[static_cast<size_t>(stored)] = true;
  }
  for (int i = problem.NumNodes(); i-- > 0;) {
    if (!nodes[static_cast<size_t>(i)]) continue;
    for (const int operand : problem.OperandsOf(i)) nodes[static_cast<size_t>(operand)] = true;
  }
  return nodes;
}

void WritePointwise(const Problem& problem, bool full, const ScheduleOptions& options, OpParts& result) {
  if (!HasOutputs(problem, full)) return;
  const Schedule schedule = SchedulePointwise(problem, full, options);
  const int64_t count = schedule.ReducedCount();
  if (count == 0) return;
  const NodeSet none(problem.program.nodes.size(), false);
  const PhaseNodes nodes = {{NodesOf(problem, full)}, none, none};
  TextWriter text(1);
  PhaseWriter phase(problem, schedule, nodes, text);
  phase.WritePointwise(full);
  KernelPart part;
  part.entry = "expr_pointwise";
  phase.FinishPart(part);
  part.body = text.Take();
  part.elements = count;
  part.threads = schedule.threads;
  part.blocks = CeilDiv(count, static_cast<int64_t>(schedule.threads) * schedule.pack);
  result.parts.push_back(std::move(part));
}

}  // namespace

OpParts WriteKernels(const Problem& problem, const ScheduleOptions& options) {
  OpParts result;
  if (!problem.has_reductions) {
    WritePointwise(problem, true, options, result);
    WritePointwise(problem, false, options, result);
    return result;
  }
  if (NumElements(problem.program.reduced_sizes) == 0) return result;
  const Schedule schedule = ScheduleReduction(problem, options);
  const PartialTotals totals = PlacePartialTotals(problem, schedule);
  result.scratch_bytes = totals.bytes;
  result.parts.push_back(schedule.parts == 1 ? ReductionWriter(problem, schedule, totals, 0, problem.num_phases).Write()
                                             : WriteItems(problem, schedule, totals));
  return result;
}

}  // namespace cotan::cuda::expr
