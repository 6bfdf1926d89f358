// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/expr/phase_writer.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "kernels/cuda/expr/node_text.h"

namespace cotan::cuda::expr {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

bool IsLeaf(const ExprNode& node) { return node.fn == FN_INPUT || node.fn == FN_IOTA || node.fn == FN_RANDOM_UNIFORM; }
bool IsNumber(const ExprNode& node) { return node.fn == FN_CONSTANT || node.fn == FN_SIZE; }

// Returns the unrolling of a loop whose body is not known to be short.
constexpr absl::string_view kUnrollFew = "#pragma unroll 4";
constexpr absl::string_view kUnrollAll = "#pragma unroll";

// Packs that are loaded before the first of them is stored, and registers for them, at most.
constexpr int kMaxStagePacks = 8;
constexpr int64_t kMaxStageRegisters = 32;

}  // namespace

PackKind PhaseWriter::KindOf(size_t operand) const {
  return PackKindOf(schedule_.reduced, schedule_.kept, operand, schedule_.pack);
}

bool PhaseWriter::IsVectorDraw(int node) const {
  const auto operand = static_cast<size_t>(problem_.operand_of[static_cast<size_t>(node)]);
  return schedule_.pack % 4 == 0 && KindOf(operand) == PackKind::kConsecutive;
}

PackKind PhaseWriter::LeafKind(int node) const {
  const PackKind kind = KindOf(static_cast<size_t>(problem_.operand_of[static_cast<size_t>(node)]));
  if (kind == PackKind::kSame) return kind;
  switch (problem_.node(node).fn) {
    case FN_INPUT:
      return kind;
    case FN_RANDOM_UNIFORM:
      return IsVectorDraw(node) ? kind : kind == PackKind::kScattered ? kind : PackKind::kStep;
    default:
      return kind == PackKind::kScattered ? kind : PackKind::kStep;
  }
}

std::string PhaseWriter::NameOf(int node) const {
  return problem_.node(node).fn == FN_INPUT ? absl::StrCat("x", problem_.node(node).index) : absl::StrCat("v", node);
}

std::string PhaseWriter::StepSubscript(int node) const { return IsKept(node) ? "[j]" : IsStaged(node) ? "[i]" : ""; }

std::string PhaseWriter::Subscripts(int node, bool is_same) const {
  std::string text = StepSubscript(node);
  if (IsPacked() && !is_same) absl::StrAppend(&text, "[e]");
  return text;
}

std::string PhaseWriter::Value(int node) const {
  const ExprNode& of = problem_.node(node);
  if (IsNumber(of)) return ConstantText(of);
  if (!IsElementwise(node)) return NameOf(node);
  if (!IsLeaf(of)) return absl::StrCat(NameOf(node), IsKept(node) ? Subscripts(node, false) : "");
  const PackKind kind = LeafKind(node);
  const bool is_array = IsKept(node) || IsStaged(node) || (IsPacked() && kind == PackKind::kConsecutive);
  return absl::StrCat(NameOf(node), is_array ? Subscripts(node, kind == PackKind::kSame) : "");
}

std::string PhaseWriter::Declared(int node) const {
  if (IsElementwise(node) && (IsKept(node) || IsStaged(node))) return Value(node);
  return absl::StrCat("const ", ValueType(problem_.node(node).dtype), " ", NameOf(node));
}

std::string PhaseWriter::Offset(size_t operand, absl::string_view index) const {
  return SumText(index_.Offset(schedule_.kept, operand, "k"), index_.Offset(schedule_.reduced, operand, index));
}

std::string PhaseWriter::ElementOffset(size_t operand) const {
  if (!IsPacked()) return Offset(operand, "r");
  if (KindOf(operand) == PackKind::kScattered) return Offset(operand, "s");
  const int64_t step = StepOf(schedule_.reduced, operand);
  const std::string steps = step == 0 ? "" : step == 1 ? "e" : absl::StrCat("e * ", index_.Literal(step));
  return SumText(Offset(operand, "r"), steps);
}

std::string PhaseWriter::Parameter(size_t operand) {
  used_operands_.insert(operand);
  const Operand& of = problem_.operands[operand];
  return absl::StrCat(of.kind == Operand::Kind::kInput ? "in" : "out", of.index);
}

std::string PhaseWriter::ElementAt(size_t operand, absl::string_view offset) {
  const std::string parameter = Parameter(operand);
  if (offset.empty()) return parameter;
  const bool is_sum = offset.find(' ') != absl::string_view::npos;
  return absl::StrCat(parameter, " + ", is_sum ? absl::StrCat("(", offset, ")") : std::string(offset));
}

std::vector<int> PhaseWriter::ReductionsOf(int p) const {
  std::vector<int> result;
  for (int i = 0; i < problem_.NumNodes(); ++i) {
    if (problem_.IsNeeded(i) && IsExprReduction(problem_.node(i).fn) && problem_.Time(i) == 2 * p + 1) {
      result.push_back(i);
    }
  }
  return result;
}

std::vector<PhaseWriter::Leaf> PhaseWriter::LeavesOf(const NodeSet& nodes) const {
  std::vector<Leaf> leaves;
  for (int i = 0; i < problem_.NumNodes(); ++i) {
    if (!nodes[static_cast<size_t>(i)] || !IsLeaf(problem_.node(i))) continue;
    leaves.push_back({static_cast<size_t>(problem_.operand_of[static_cast<size_t>(i)]), i, LeafKind(i), NameOf(i)});
  }
  return leaves;
}

std::vector<size_t> PhaseWriter::OutputsOf(int p, bool full) const {
  std::vector<size_t> outputs;
  for (size_t k = 0; k < problem_.outputs.size(); ++k) {
    const int stored = problem_.Stored(k);
    if (problem_.IsFull(stored) != full) continue;
    if (IsPointwise() || problem_.Time(stored) == 2 * p) outputs.push_back(k);
  }
  return outputs;
}

void PhaseWriter::WriteAligned(int first, int end, bool full) {
  if (!IsPacked()) return;
  std::set<size_t> operands;
  const auto add_inputs = [&](const NodeSet& nodes) {
    for (const Leaf& leaf : LeavesOf(nodes)) {
      if (leaf.kind == PackKind::kConsecutive && problem_.node(leaf.node).fn == FN_INPUT) operands.insert(leaf.operand);
    }
  };
  add_inputs(nodes_.invariant);
  for (int p = first; p < end && p < NumPhases(); ++p) {
    add_inputs(nodes_.full[static_cast<size_t>(p)]);
    for (const size_t k : OutputsOf(p, full)) {
      if (KindOf(problem_.OutputOperand(k)) == PackKind::kConsecutive) operands.insert(problem_.OutputOperand(k));
    }
  }
  std::vector<std::string> checks;
  for (const size_t operand : operands) {
    const auto bytes = static_cast<int64_t>(ByteSize(problem_.operands[operand].dtype)) * schedule_.pack;
    checks.push_back(absl::StrCat("IsAligned<", std::min<int64_t>(bytes, 16), ">(", Parameter(operand), ")"));
  }
  if (checks.empty()) return;
  text_.Line("const bool aligned = ", absl::StrJoin(checks, " &&\n      "), ";");
}

void PhaseWriter::WriteRandomStreams(const NodeSet& nodes) {
  for (int i = 0; i < problem_.NumNodes(); ++i) {
    const ExprNode& node = problem_.node(i);
    if (!nodes[static_cast<size_t>(i)] || node.fn != FN_RANDOM_UNIFORM) continue;
    if (!streams_.insert(i).second) continue;
    has_random_ = true;
    const int64_t stride = problem_.inputs[static_cast<size_t>(node.index)].layout.strides[0];
    text_.Line("const RandomStream random", i, "(", Parameter(static_cast<size_t>(node.index)), ", ", node.slice,
               "ull, ", stride, ");");
  }
}

void PhaseWriter::WriteStart(int first, int end) {
  WriteAligned(first, end, true);
  for (int p = first; p < end && p < NumPhases(); ++p) WriteRandomStreams(nodes_.full[static_cast<size_t>(p)]);
}

void PhaseWriter::WriteReducedNode(int i, bool stored) {
  const ExprNode& node = problem_.node(i);
  if (IsNumber(node) || IsExprReduction(node.fn)) return;
  if (node.fn != FN_INPUT) return WriteNode(i);
  const auto operand = static_cast<size_t>(node.index);
  const std::string load = absl::StrCat(schedule_.parts > 1 ? "LoadBefore(" : "Load(",
                                        ElementAt(operand, index_.Offset(schedule_.kept, operand, "k")), ")");
  const bool guarded = !stored && !schedule_.ExactGroups();
  text_.Line(Declared(i), " = ", guarded ? absl::StrCat("valid ? ", load, " : ", ValueType(node.dtype), "(0)") : load,
             ";");
}

void PhaseWriter::WriteReducedStore(size_t output) {
  const size_t operand = problem_.OutputOperand(output);
  stores_ = true;
  text_.Line(schedule_.parts > 1 ? "StoreAfter(" : "Store(",
             ElementAt(operand, index_.Offset(schedule_.kept, operand, "k")), ", ", Value(problem_.Stored(output)),
             ");");
}

void PhaseWriter::WriteKeptArrays(const NodeSet& nodes, bool exact) {
  for (int i = 0; i < problem_.NumNodes(); ++i) {
    if (!nodes[static_cast<size_t>(i)] || !IsKept(i)) continue;
    const bool is_same = IsLeaf(problem_.node(i)) && LeafKind(i) == PackKind::kSame;
    std::string sizes = absl::StrCat("[", schedule_.steps, "]");
    if (IsPacked() && !is_same) absl::StrAppend(&sizes, "[", schedule_.pack, "]");
    text_.Line(ValueType(problem_.node(i).dtype), " ", NameOf(i), sizes, exact ? ";" : " = {};");
  }
}

bool PhaseWriter::OpenLoop(absl::string_view end, bool exact) {
  const std::string pack = IsPacked() ? absl::StrCat(" * ", schedule_.pack, "u") : "";
  if (schedule_.steps > 0) {
    text_.Directive(kUnrollAll);
    text_.Open("for (int j = 0; j < ", schedule_.steps, "; ++j)");
    const absl::string_view begin = schedule_.parts > 1 ? "begin + " : "";
    if (schedule_.lanes == 1) {
      text_.Line("const Index r = ", begin, "j", pack, ";");
    } else {
      text_.Line("const Index r = ", begin, IsPacked() ? "(" : "", "j * ", schedule_.lanes, "u + lane",
                 IsPacked() ? ")" : "", pack, ";");
    }
    if (exact) return false;
    text_.Open("if (r < ", end, ")");
    return true;
  }
  text_.Directive(kUnrollFew);
  text_.Open("for (Index r = ", schedule_.parts > 1 ? "begin + " : "", "lane", pack, "; r < ", end,
             "; r += ", schedule_.lanes * schedule_.pack, "u)");
  return false;
}

void PhaseWriter::WriteCount(absl::string_view end) {
  has_count_ = IsPacked() && !schedule_.WholePacks();
  if (has_count_) text_.Line("const int count = CountBefore<", schedule_.pack, ">(", end, ", r);");
}

void PhaseWriter::WriteInvariantInputs() {
  const std::string end = index_.Literal(schedule_.ReducedCount());
  WriteKeptArrays(nodes_.invariant, schedule_.ExactSteps());
  const bool has_condition = OpenLoop(end, schedule_.ExactSteps());
  WriteCount(end);
  WriteElements(nodes_.invariant, {}, {});
  if (has_condition) text_.Close();
  text_.Close();
}

void PhaseWriter::WritePhase(int p) {
  const std::vector<int> reductions = ReductionsOf(p);
  for (const int i : reductions) {
    const ExprNode& node = problem_.node(i);
    text_.Line(TotalType(node.dtype), " t", i, " = ", ReductionType(node), "::Start();");
  }
  const NodeSet& nodes = nodes_.full[static_cast<size_t>(p)];
  const bool exact = schedule_.ExactSteps() && schedule_.ExactGroups();
  WriteKeptArrays(nodes, exact);
  if (PacksOfStage(p) > 1) return WriteStagedPhase(p, reductions);
  const bool has_condition = OpenLoop("end", exact);
  WriteCount("end");
  WriteElements(nodes, OutputsOf(p, true), reductions);
  if (has_condition) text_.Close();
  text_.Close();
}

int PhaseWriter::PacksOfStage(int p) const {
  // Without stores and conditions, the compiler moves loads of unrolled loops to the front.
  const bool exact = schedule_.ExactSteps() && schedule_.ExactGroups();
  if (schedule_.steps == 1 || (exact && OutputsOf(p, true).empty())) return 1;
  int64_t registers = 0;
  for (const Leaf& leaf : LeavesOf(nodes_.full[static_cast<size_t>(p)])) {
    const ExprNode& node = problem_.node(leaf.node);
    if (node.fn == FN_INPUT)
      registers += ValueBytes(node.dtype) / 4 * (leaf.kind == PackKind::kSame ? 1 : schedule_.pack);
  }
  if (registers == 0) return 1;
  int packs = kMaxStagePacks;
  while (packs > 1 && packs * registers > kMaxStageRegisters) packs /= 2;
  return static_cast<int>(std::clamp<int64_t>(schedule_.PacksPerThread(), 1, packs));
}

bool PhaseWriter::OpenStage(int packs, bool exact) {
  text_.Directive(kUnrollAll);
  text_.Open("for (int i = 0; i < ", packs, "; ++i)");
  const std::string lane = schedule_.lanes == 1 ? "" : " + lane";
  const int64_t unit = int64_t{schedule_.lanes} * schedule_.pack;
  if (schedule_.steps == 0) {
    text_.Line("const Index r = first + i * ", unit, "u;");
  } else {
    const std::string pack = IsPacked() ? absl::StrCat(" * ", schedule_.pack, "u") : "";
    text_.Line("const int j = first + i;");
    if (schedule_.steps % packs != 0) text_.Line("if (j >= ", schedule_.steps, ") break;");
    text_.Line("const Index r = ", schedule_.parts > 1 ? "begin + " : "", "(j * ", schedule_.lanes, "u", lane, ")",
               pack, ";");
  }
  if (!exact) text_.Open("if (r < end)");
  return !exact;
}

void PhaseWriter::WriteStagedPhase(int p, const std::vector<int>& reductions) {
  const NodeSet& nodes = nodes_.full[static_cast<size_t>(p)];
  const bool exact = schedule_.ExactSteps() && schedule_.ExactGroups();
  const int packs = PacksOfStage(p);
  const int64_t unit = int64_t{schedule_.lanes} * schedule_.pack;
  if (schedule_.steps > 0) {
    text_.Directive(kUnrollAll);
    text_.Open("for (int first = 0; first < ", schedule_.steps, "; first += ", packs, ")");
  } else {
    text_.Directive("#pragma unroll 1");
    const std::string pack = IsPacked() ? absl::StrCat(" * ", schedule_.pack, "u") : "";
    text_.Open("for (Index first = ", schedule_.parts > 1 ? "begin + " : "", "lane", pack,
               "; first < end; first += ", packs * unit, "u)");
  }
  NodeSet leaves(nodes.size(), false);
  NodeSet others = nodes;
  staged_.assign(nodes.size(), false);
  for (const Leaf& leaf : LeavesOf(nodes)) {
    const auto node = static_cast<size_t>(leaf.node);
    if (problem_.node(leaf.node).fn != FN_INPUT) continue;
    leaves[node] = true;
    others[node] = false;
    if (IsKept(leaf.node)) continue;
    staged_[node] = true;
    const std::string pack =
        IsPacked() && leaf.kind != PackKind::kSame ? absl::StrCat("[", schedule_.pack, "]") : std::string();
    text_.Line(ValueType(problem_.node(leaf.node).dtype), " ", leaf.name, "[", packs, "]", pack,
               exact ? ";" : " = {};");
  }
  for (const bool loads : {true, false}) {
    const bool has_condition = OpenStage(packs, exact);
    WriteCount("end");
    WriteElements(loads ? leaves : others, loads ? std::vector<size_t>() : OutputsOf(p, true),
                  loads ? std::vector<int>() : reductions);
    if (has_condition) text_.Close();
    text_.Close();
  }
  staged_.clear();
  text_.Close();
}

void PhaseWriter::WritePointwise(bool full) {
  WriteAligned(0, 1, full);
  const NodeSet& nodes = nodes_.full[0];
  const std::string pack = IsPacked() ? absl::StrCat(" * ", schedule_.pack, "u") : "";
  const std::string thread = absl::StrCat("static_cast<Index>(block) * ", schedule_.threads, "u + threadIdx.x");
  text_.Line("const Index r = ", IsPacked() ? absl::StrCat("(", thread, ")", pack) : thread, ";");
  text_.Line("if (r >= elements) return;");
  has_count_ = IsPacked() && !schedule_.WholePacks();
  if (has_count_) text_.Line("const int count = CountBefore<", schedule_.pack, ">(elements, r);");
  WriteRandomStreams(nodes);
  WriteElements(nodes, OutputsOf(0, full), {});
}

void PhaseWriter::WriteElements(const NodeSet& nodes, const std::vector<size_t>& outputs,
                                const std::vector<int>& reductions) {
  const std::vector<Leaf> leaves = LeavesOf(nodes);
  std::vector<size_t> scattered;
  std::vector<size_t> others;
  const auto add = [&](size_t operand) {
    (IsPacked() && KindOf(operand) == PackKind::kScattered ? scattered : others).push_back(operand);
  };
  for (const Leaf& leaf : leaves) add(leaf.operand);
  for (const size_t k : outputs) add(problem_.OutputOperand(k));
  for (const std::string& line : index_.Coordinates(schedule_.reduced, others, "r")) text_.Line(line);
  if (!IsPacked()) return WriteElement(nodes, leaves, outputs, reductions);

  std::vector<size_t> packed_outputs;
  for (const size_t k : outputs) {
    if (KindOf(problem_.OutputOperand(k)) == PackKind::kConsecutive) packed_outputs.push_back(k);
  }
  for (const Leaf& leaf : leaves) WritePackLeaf(leaf);
  for (const size_t k : packed_outputs) {
    text_.Line(ValueType(problem_.outputs[k].dtype), " y", k, "[", schedule_.pack, has_count_ ? "] = {};" : "];");
  }
  text_.Directive(kUnrollAll);
  text_.Open("for (int e = 0; e < ", schedule_.pack, "; ++e)");
  if (has_count_) text_.Line("if (e >= count) continue;");
  if (!scattered.empty()) text_.Line("const Index s = r + e;");
  for (const std::string& line : index_.Coordinates(schedule_.reduced, scattered, "s")) text_.Line(line);
  WriteElement(nodes, leaves, outputs, reductions);
  text_.Close();
  for (const size_t k : packed_outputs) {
    text_.Line("StorePack(", ElementAt(problem_.OutputOperand(k), Offset(problem_.OutputOperand(k), "r")), ", y", k,
               ", aligned, ", PackCount(), ");");
  }
}

void PhaseWriter::WriteElement(const NodeSet& nodes, const std::vector<Leaf>& leaves,
                               const std::vector<size_t>& outputs, const std::vector<int>& reductions) {
  for (const Leaf& leaf : leaves) WriteElementLeaf(leaf);
  for (int i = 0; i < problem_.NumNodes(); ++i) {
    const ExprNode& node = problem_.node(i);
    if (nodes[static_cast<size_t>(i)] && !IsLeaf(node) && !IsNumber(node)) WriteNode(i);
  }
  for (const int i : reductions) {
    text_.Line("t", i, " = ", ReductionType(problem_.node(i)), "::Add(t", i, ", ", Value(problem_.OperandsOf(i)[0]),
               ");");
  }
  for (const size_t k : outputs) {
    const size_t operand = problem_.OutputOperand(k);
    stores_ = true;
    const std::string value = Value(problem_.Stored(k));
    if (IsPacked() && KindOf(operand) == PackKind::kConsecutive) {
      text_.Line("y", k, "[e] = ", value, ";");
    } else {
      text_.Line("Store(", ElementAt(operand, ElementOffset(operand)), ", ", value, ");");
    }
  }
}

std::string PhaseWriter::PackCount() const { return has_count_ ? "count" : absl::StrCat(schedule_.pack); }

std::string PhaseWriter::LeafValue(const Leaf& leaf, const std::string& offset) {
  const ExprNode& node = problem_.node(leaf.node);
  const std::string position = offset.empty() ? "0" : offset;
  switch (node.fn) {
    case FN_INPUT:
      return absl::StrCat("Load(", ElementAt(leaf.operand, offset), ")");
    case FN_IOTA:
      return PositionText(node.dtype, position);
    default:
      return absl::StrCat("random", leaf.node, ".Uniform(", position, ")");
  }
}

// Of a pack: what one access or one block of draws gives.
void PhaseWriter::WritePackLeaf(const Leaf& leaf) {
  const std::string offset = Offset(leaf.operand, "r");
  if (leaf.kind == PackKind::kSame) text_.Line(Declared(leaf.node), " = ", LeafValue(leaf, offset), ";");
  if (leaf.kind != PackKind::kConsecutive) return;
  const ExprNode& node = problem_.node(leaf.node);
  const std::string step = StepSubscript(leaf.node);
  const std::string array = absl::StrCat(leaf.name, step);
  if (step.empty()) text_.Line(ValueType(node.dtype), " ", leaf.name, "[", schedule_.pack, "];");
  if (node.fn == FN_RANDOM_UNIFORM) {
    text_.Line("random", leaf.node, ".UniformPack(", array, ", ", offset.empty() ? "0" : offset, ");");
  } else {
    text_.Line("LoadPack(", array, ", ", ElementAt(leaf.operand, offset), ", aligned, ", PackCount(), ");");
  }
}

// Of one element.
void PhaseWriter::WriteElementLeaf(const Leaf& leaf) {
  if (IsPacked() && (leaf.kind == PackKind::kConsecutive || leaf.kind == PackKind::kSame)) return;
  text_.Line(Declared(leaf.node), " = ", LeafValue(leaf, ElementOffset(leaf.operand)), ";");
}

bool PhaseWriter::DividesByReduced(int i) const {
  const ExprNode& node = problem_.node(i);
  if (node.fn != FN_DIV || IsPointwise() || !problem_.IsFull(i) || ValueType(node.dtype) != "float") return false;
  const int divisor = problem_.OperandsOf(i)[1];
  return !problem_.IsFull(divisor) && !IsNumber(problem_.node(divisor));
}

void PhaseWriter::WriteDivisor(int i) {
  for (int user = i + 1; user < problem_.NumNodes(); ++user) {
    if (!problem_.IsNeeded(user) || !DividesByReduced(user) || problem_.OperandsOf(user)[1] != i) continue;
    text_.Line("const Divisor divisor", i, "(", Value(i), ");");
    return;
  }
}

void PhaseWriter::WriteNode(int i) {
  const ExprNode& node = problem_.node(i);
  if (DividesByReduced(i)) {
    const std::string quotient =
        absl::StrCat("Quotient(", Value(problem_.OperandsOf(i)[0]), ", divisor", problem_.OperandsOf(i)[1], ")");
    text_.Line(Declared(i), " = ", RoundedText(node.dtype, quotient), ";");
    return;
  }
  std::vector<std::string> operands;
  for (const int operand : problem_.OperandsOf(i)) operands.push_back(Value(operand));
  const DType operand_dtype = problem_.node(problem_.OperandsOf(i).back()).dtype;
  has_special_ |= IsSpecial(node.fn, operand_dtype);
  text_.Line(Declared(i), " = ", FunctionText(node, operand_dtype, operands), ";");
}

void PhaseWriter::FinishPart(KernelPart& part) const {
  part.wide = schedule_.wide;
  part.headers = {"expr"};
  if (has_special_) part.headers.push_back("math_special");
  if (has_random_) part.headers.push_back("philox");
  for (const size_t operand : used_operands_) {
    const Operand& of = problem_.operands[operand];
    const bool is_input = of.kind == Operand::Kind::kInput;
    part.parameters.push_back({absl::StrCat(is_input ? "const " : "", ElementType(of.dtype), "*"),
                               absl::StrCat(is_input ? "in" : "out", of.index),
                               is_input ? InputArgument(of.index) : OutputArgument(of.index)});
  }
  part.guarded = stores_ && problem_.guarded_outputs;
}

}  // namespace cotan::cuda::expr
