// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/expr/kernel_writer.h"

#include <algorithm>
#include <numeric>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/rounding.h"
#include "kernels/cuda/expr/node_text.h"
#include "kernels/cuda/expr/phase_writer.h"
#include "kernels/cuda/expr/text_writer.h"

namespace cotan::cuda::expr {
namespace {

// Where the totals of the parts of a tile are among the words of its team; see reduce.cuh.
struct TeamWords {
  std::vector<int64_t> first;  // per node, of reductions
  int64_t count = 0;           // of a tile
};

TeamWords PlaceTeamWords(const Problem& problem, const Schedule& schedule) {
  TeamWords words;
  words.first.assign(problem.program.nodes.size(), 0);
  words.count = 1 + schedule.parts;
  for (int i = 0; i < problem.NumNodes(); ++i) {
    if (!problem.IsNeeded(i) || !IsExprReduction(problem.node(i).fn)) continue;
    words.first[static_cast<size_t>(i)] = words.count;
    words.count += schedule.parts * schedule.KeptPerBlock() * TotalBytes(problem.node(i).dtype) / 4;
  }
  return words;
}

// Returns a schedule with the same parts that keeps nothing in registers.
Schedule WithoutSteps(Schedule schedule) {
  schedule.steps = 0;
  schedule.keep = Keep::kNothing;
  return schedule;
}

PhaseNodes NodesOfSchedule(const Problem& problem, const Schedule& schedule) {
  PhaseNodes nodes = PhaseNodesOf(problem, schedule.keep);
  if (schedule.rows > 1) HoistInvariantInputs(problem, nodes);
  return nodes;
}

// Adds to a part the headers and parameters of another one of its kernel.
void AddUses(const KernelPart& other, KernelPart& part) {
  part.guarded |= other.guarded;
  for (const std::string& header : other.headers) {
    if (std::find(part.headers.begin(), part.headers.end(), header) == part.headers.end()) {
      part.headers.push_back(header);
    }
  }
  for (const KernelParameter& parameter : other.parameters) {
    const bool is_known = std::any_of(part.parameters.begin(), part.parameters.end(),
                                      [&](const KernelParameter& known) { return known.name == parameter.name; });
    if (!is_known) part.parameters.push_back(parameter);
  }
}

// Writes an expression with reductions.
class ReductionWriter {
 public:
  ReductionWriter(const Problem& problem, const Schedule& schedule)
      : problem_(problem),
        schedule_(schedule),
        reading_(WithoutSteps(schedule)),
        words_(PlaceTeamWords(problem, schedule)),
        nodes_(NodesOfSchedule(problem, schedule)),
        reading_nodes_(PhaseNodesOf(problem, Keep::kNothing)),
        shared_(ReducedNodesOf(problem, nodes_, 0, problem.num_phases)),
        text_(1),
        phase_(problem, schedule, nodes_, text_),
        reading_phase_(problem, reading_, reading_nodes_, text_) {}

  KernelPart Write() {
    WriteLane();
    if (schedule_.rows > 1) {
      phase_.WriteStart(0, problem_.num_phases);
      phase_.WriteInvariantInputs();
      text_.Directive("#pragma unroll 1");
      text_.Open("for (Index row = 0; row < ", schedule_.rows, "u; ++row)");
    }
    WritePosition();
    if (schedule_.rows == 1) phase_.WriteStart(0, problem_.num_phases);
    WriteReducedNodes(-1);
    WriteStores(-1);
    for (int p = 0; p < problem_.num_phases; ++p) {
      if (p > 0 && schedule_.RenewsLane()) text_.Line("Renew(lane);");
      if (HasParts()) {
        WriteSharedPhase(p);
      } else {
        phase_.WritePhase(p);
      }
      for (const int i : phase_.ReductionsOf(p)) {
        text_.Line("const ", ValueType(problem_.node(i).dtype), " v", i, " = ", FinishedTotal(i), ";");
        phase_.WriteDivisor(i);
      }
      WriteReducedNodes(2 * p + 1);
      if (StoresWait(p - 1)) WriteStores(2 * p - 1);
      if (!StoresWait(p)) WriteStores(2 * p + 1);
    }
    if (schedule_.rows > 1) text_.Close();
    return Finish();
  }

 private:
  bool HasParts() const { return schedule_.parts > 1; }
  // Returns true if the reduced outputs of phase `p` are stored after the next phase, which only stores. The last block
  // of a team would else keep its full outputs waiting for what the reduced ones need.
  bool StoresWait(int p) const {
    return HasParts() && p >= 0 && p + 2 == problem_.num_phases && phase_.ReductionsOf(p + 1).empty();
  }
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

  // Returns the number of the block among those of a part, or of its row.
  std::string BlockOfRow() {
    if (HasParts()) return absl::StrCat("static_cast<Index>(block / ", schedule_.parts, "u)");
    if (schedule_.rows == 1) return "static_cast<Index>(block)";
    const std::string row = absl::StrCat("static_cast<Index>(block) * ", schedule_.rows, "u + row");
    return schedule_.groups == 1 ? row : absl::StrCat("(", row, ")");
  }

  // Returns the column of the thread in its tile.
  std::string Column() const {
    return schedule_.groups == 1 ? "0" : absl::StrCat("threadIdx.x % ", schedule_.groups, "u");
  }

  // Writes which kept and reduced indices the thread handles.
  void WritePosition() {
    const int groups = schedule_.groups;
    if (HasParts()) {
      text_.Line("Team<", schedule_.parts, "> team(words + block / ", schedule_.parts, "u * ", words_.count, "u);");
    }
    if (groups == 1) {
      text_.Line("const Index k = ", BlockOfRow(), ";");
    } else if (IsRows()) {
      text_.Line("const Index k = ", BlockOfRow(), " * ", groups, "u + threadIdx.x / ", schedule_.lanes, "u;");
    } else {
      text_.Line("const Index k = ", BlockOfRow(), " * ", groups, "u + threadIdx.x % ", groups, "u;");
    }
    const bool exact = schedule_.ExactGroups();
    if (!exact) text_.Line("const bool valid = k < ", Literal(schedule_.KeptCount()), ";");
    if (HasParts()) {
      WritePart(absl::StrCat("block % ", schedule_.parts, "u"));
    } else {
      const std::string count = Literal(schedule_.ReducedCount());
      text_.Line("const Index end = ", exact ? count : absl::StrCat("valid ? ", count, " : 0"), ";");
    }
    std::vector<size_t> operands(problem_.operands.size());
    std::iota(operands.begin(), operands.end(), 0);
    for (const std::string& line : phase_.index().Coordinates(schedule_.kept, operands, "k")) text_.Line(line);
  }

  // Writes which reduced indices part `part` has.
  void WritePart(absl::string_view part) {
    const std::string count = Literal(schedule_.ReducedCount());
    const std::string size = Literal(schedule_.part_size);
    text_.Line("const Index part = ", part, ";");
    text_.Line("const Index begin = part * ", size, ";");
    const std::string end = absl::StrCat("begin + ", size, " < ", count, " ? begin + ", size, " : ", count);
    text_.Line("const Index end = ", schedule_.ExactGroups() ? end : absl::StrCat("!valid ? begin : ", end), ";");
  }

  // Writes a phase of a block that has a part, up to the totals t<node> of all parts.
  void WriteSharedPhase(int p) {
    const std::vector<int> reductions = phase_.ReductionsOf(p);
    phase_.WritePhase(p);
    if (p == 0) text_.Line("team.Meet();");
    WritePartialTotals(p);
    if (p > 0) WritePartsLeft(p);
    if (p == 0 && problem_.num_phases > 1) text_.Line("if (team.Leaves(part)) return;");
    // Only the last block stores what follows.
    if (p + 1 == problem_.num_phases && !reductions.empty()) text_.Line("if (!team.is_last) return;");
    for (const int i : reductions) {
      text_.Line("t", i, " = team.Collect<", ReductionType(problem_.node(i)), ", ", schedule_.groups, ", ",
                 schedule_.lanes, ">(", words_.first[static_cast<size_t>(i)], "u, lane, ", Column(), ");");
    }
  }

  // Writes phase `p` of the parts that blocks left.
  void WritePartsLeft(int p) {
    text_.Directive("#pragma unroll 1");
    text_.Open("for (uint32 n = 0; n < team.left; ++n)");
    WritePart("team.PartLeft(n)");
    reading_phase_.WritePhase(p);
    WritePartialTotals(p);
    text_.Close();
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

  // Publishes the totals of part `part`.
  void WritePartialTotals(int p) {
    const std::vector<int> reductions = phase_.ReductionsOf(p);
    for (const int i : reductions) {
      text_.Line("const ", TotalType(problem_.node(i).dtype), " total", i, " = ", GroupTotal(i), ";");
    }
    if (reductions.empty()) return;
    text_.Open("if (lane == 0)");
    for (const int i : reductions) {
      const std::string at =
          schedule_.groups == 1 ? "part" : absl::StrCat("part * ", schedule_.groups, "u + ", Column());
      text_.Line("team.Publish(", words_.first[static_cast<size_t>(i)], "u, ", at, ", total", i, ");");
    }
    text_.Close();
  }

  // Writes the reduced values of a time that all threads need.
  void WriteReducedNodes(int time) {
    for (int i = 0; i < problem_.NumNodes(); ++i) {
      const bool is_needed = shared_[static_cast<size_t>(i)] && problem_.Time(i) == time;
      // Totals are written with their phase.
      if (!is_needed || IsExprReduction(problem_.node(i).fn)) continue;
      phase_.WriteReducedNode(i, false);
      phase_.WriteDivisor(i);
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
    if (HasParts()) absl::StrAppend(&condition, time < 0 ? "part == 0 && " : "team.is_last && ");
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
    if (HasParts()) {
      KernelPart reading;
      reading_phase_.FinishPart(reading);
      AddUses(reading, part);
      part.words = schedule_.Tiles() * words_.count;
      part.resident = schedule_.resident;
    }
    part.headers.push_back("reduce");
    std::sort(part.headers.begin(), part.headers.end());
    part.body = text_.Take();
    part.blocks = schedule_.Tiles() * schedule_.parts;
    part.threads = schedule_.threads;
    return part;
  }

  const Problem& problem_;
  const Schedule& schedule_;
  const Schedule reading_;  // of parts that other blocks left
  const TeamWords words_;
  const PhaseNodes nodes_;
  const PhaseNodes reading_nodes_;
  const NodeSet shared_;
  TextWriter text_;
  PhaseWriter phase_;
  PhaseWriter reading_phase_;
};

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

void WritePointwise(const Problem& problem, bool full, const ScheduleOptions& options,
                    std::vector<KernelPart>& result) {
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
  result.push_back(std::move(part));
}

}  // namespace

std::vector<KernelPart> WriteKernels(const Problem& problem, const ScheduleOptions& options) {
  std::vector<KernelPart> result;
  if (!problem.has_reductions) {
    WritePointwise(problem, true, options, result);
    WritePointwise(problem, false, options, result);
    return result;
  }
  if (NumElements(problem.program.reduced_sizes) == 0) return result;
  const Schedule schedule = ScheduleReduction(problem, options);
  result.push_back(ReductionWriter(problem, schedule).Write());
  return result;
}

}  // namespace cotan::cuda::expr
