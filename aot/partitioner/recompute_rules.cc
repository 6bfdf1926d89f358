// SPDX-License-Identifier: Apache-2.0

#include "aot/partitioner/recompute_rules.h"

#include <algorithm>
#include <optional>

#include "aot/ir/prim_node.h"
#include "aot/ir/size_estimate.h"
#include "kernels/api/expr_program.h"

namespace cotan::aot {
namespace {

// Rates of one core with vectors of 8 to 16 floats.
constexpr double kFlopsPerNs = 80;
constexpr double kBytesPerNs = 8;
constexpr double kNsPerCall = 200;

// Reductions are repeated if they have at most so many terms, for at least so many results: a shorter result saves less
// than two cache lines.
constexpr double kMaxCheapTerms = 8;
constexpr double kMinCheapResults = 32;

double Elements(const Graph& graph, ValueId id) {
  return static_cast<double>(EstimatedCount(graph.value(id).type.sizes));
}

double LastSize(const Graph& graph, ValueId id) {
  const SymIntVector& sizes = graph.value(id).type.sizes;
  return sizes.empty() ? 1 : static_cast<double>(EstimatedSize(sizes.back()));
}

// Returns multiplications and additions.
double Arithmetic(const Graph& graph, const Node& node) {
  const std::optional<PrimOp> op = PrimOpOf(node);
  if (!op.has_value() || PrimInfo(*op).cost != PrimCost::kContraction) return 0;
  const std::vector<ValueId> operands = TensorOperands(node);
  const ValueId result = node.outputs[0];
  switch (PrimInfo(*op).kind) {
    case PrimKind::kMatmul:
      return 2 * Elements(graph, result) * LastSize(graph, operands[0]);
    case PrimKind::kConvolution: {
      // Each element of the weight meets each position of the result, or of the input of a transposed one.
      const SymIntVector& weight = graph.value(operands[1]).type.sizes;
      const double per_channel =
          Elements(graph, operands[1]) / std::max<double>(1, static_cast<double>(EstimatedSize(weight[0])));
      return 2 * per_channel * std::max(Elements(graph, result), Elements(graph, operands[0]));
    }
    case PrimKind::kAttention:
      return 4 * Elements(graph, operands[0]) *
             static_cast<double>(EstimatedSize(graph.value(operands[1]).type.sizes[2]));
    case PrimKind::kRecurrent:
      return 2 * Elements(graph, operands[0]) * LastSize(graph, operands[1]);
    default:
      return 0;
  }
}

// Returns true if a matrix product takes no longer than storing and loading its result: products of few terms per
// element, such as the scores of attention with small heads.
bool IsCheapProduct(const Graph& graph, const Node& node) {
  const auto bytes = static_cast<double>(EstimatedBytes(graph.value(node.outputs[0]).type));
  return Arithmetic(graph, node) / kFlopsPerNs <= 2 * bytes / kBytesPerNs;
}

// Returns true if a program reduces few elements to each of many. PyTorch's rule counts bytes: an op whose results have
// a quarter of its operands' bytes is cheap, where a variance has two results.
bool ReducesFewTerms(const Graph& graph, const Node& node) {
  const double results = Elements(graph, node.outputs[0]);
  if (results < kMinCheapResults) return false;
  double most = 0;
  for (const ValueId id : TensorOperands(node)) {
    if (id != kNoValue) most = std::max(most, Elements(graph, id));
  }
  return most <= kMaxCheapTerms * results;
}

// Returns true if all functions of a program are vectorized, and it is pointwise or reduces few terms.
bool IsCheapProgram(const Graph& graph, const Node& node) {
  const serialization::Expr& expr = *node.expr;
  const bool reduces = expr.reduce_dims_size() > 0;
  if (reduces && !ReducesFewTerms(graph, node)) return false;
  return std::all_of(expr.instructions().begin(), expr.instructions().end(),
                     [reduces](const serialization::ExprInstruction& instruction) {
                       return IsExprReduction(instruction.fn()) ? reduces
                                                                : ExprCostOf(instruction.fn()) <= ExprCost::kRandom;
                     });
}

RecomputeClass ClassOfKind(PrimKind kind) {
  switch (kind) {
    case PrimKind::kView:
      return RecomputeClass::kFree;
    case PrimKind::kCopy:
    case PrimKind::kPool:
      return RecomputeClass::kCheap;
    case PrimKind::kMatmul:
    case PrimKind::kConvolution:
    case PrimKind::kIndexing:
    case PrimKind::kScan:
    case PrimKind::kSort:
    case PrimKind::kAttention:
    case PrimKind::kRecurrent:
    case PrimKind::kLinearAlgebra:
      return RecomputeClass::kHeavy;
    case PrimKind::kEffect:
      return RecomputeClass::kNever;
  }
  return RecomputeClass::kNever;
}

// Returns the class of a node by its op and its sizes.
RecomputeClass ClassOfOp(const Graph& graph, const Node& node) {
  if (node.op == kExprOp) {
    if (TensorOperands(node).empty()) return RecomputeClass::kFree;
    return IsCheapProgram(graph, node) ? RecomputeClass::kCheap : RecomputeClass::kHeavy;
  }
  const std::optional<PrimOp> op = PrimOpOf(node);
  if (!op.has_value() || op == PrimOp::kCheckedIndex) return RecomputeClass::kNever;
  if (op == PrimOp::kGather) return RecomputeClass::kCheap;
  if (op == PrimOp::kMatmul && IsCheapProduct(graph, node)) return RecomputeClass::kCheap;
  return ClassOfKind(PrimInfo(*op).kind);
}

// Marks the values that a kernel of the backward reads, directly or through views.
std::vector<bool> ReadByKernels(const JointFacts& facts) {
  std::vector<bool> read(facts.producer.size(), false);
  for (size_t i = facts.nodes.size(); i-- > 0;) {
    const Node& node = *facts.nodes[i];
    const bool is_view = IsView(node);
    const bool is_kernel = !is_view && node.op != kExprOp && facts.RunsBackward(node);
    if (!is_kernel && !(is_view && read[JointFacts::At(node.outputs[0])])) continue;
    for (const ValueId id : TensorOperands(node)) {
      if (id != kNoValue) read[JointFacts::At(id)] = true;
    }
  }
  return read;
}

// A sum of the backward: the sizes it reads, and whether it adds up along each dimension.
struct Reduction {
  SymIntVector sizes;
  std::vector<bool> is_reduced;
};

std::vector<Reduction> ReductionsOf(const JointFacts& facts) {
  std::vector<Reduction> reductions;
  for (const Node* node : facts.nodes) {
    if (node->expr == nullptr || node->expr->reduce_dims_size() == 0 || !facts.RunsBackward(*node)) continue;
    const SymIntVector& sizes = facts.TypeOf(TensorOperands(*node)[0]).sizes;
    Reduction& reduction = reductions.emplace_back(Reduction{sizes, std::vector<bool>(sizes.size(), false)});
    for (const uint32_t dim : node->expr->reduce_dims()) {
      if (dim < sizes.size()) reduction.is_reduced[dim] = true;
    }
  }
  return reductions;
}

// Returns true if the reduction adds up along dimensions d and d + 1 of a tensor with these sizes, which it may read as
// a view in which the two are one.
bool AddsAlong(const Reduction& reduction, const SymIntVector& sizes, size_t d) {
  if (reduction.sizes == sizes) return reduction.is_reduced[d] && reduction.is_reduced[d + 1];
  const size_t inner = sizes.size() - d - 2;  // dimensions inside of the two
  if (reduction.sizes.size() >= sizes.size() || reduction.sizes.size() <= inner) return false;
  return std::equal(sizes.end() - static_cast<std::ptrdiff_t>(inner), sizes.end(),
                    reduction.sizes.end() - static_cast<std::ptrdiff_t>(inner)) &&
         EstimatedCount(reduction.sizes) == EstimatedCount(sizes) &&
         reduction.is_reduced[reduction.sizes.size() - inner - 1];
}

// Returns true if a node reads an operand that is broadcast along a dimension but not along the next one, and the
// backward sums over both. A program that has both nodes runs these dimensions as two loops instead of one and may add
// in another order, so that the sum has other bits.
bool SplitsReduction(const Node& node, const JointFacts& facts, const std::vector<Reduction>& reductions) {
  if (node.op != kExprOp || node.outputs[0] == kNoValue) return false;
  const SymIntVector& sizes = facts.TypeOf(node.outputs[0]).sizes;
  for (const ValueId id : TensorOperands(node)) {
    const SymIntVector& own = facts.TypeOf(id).sizes;
    if (own.size() > sizes.size()) continue;
    const size_t missing = sizes.size() - own.size();
    const auto is_broadcast = [&](size_t d) {
      return !(sizes[d] == SymInt(1)) && (d < missing || own[d - missing] == SymInt(1));
    };
    for (size_t d = 0; d + 1 < sizes.size(); ++d) {
      if (!is_broadcast(d) || is_broadcast(d + 1)) continue;
      for (const Reduction& reduction : reductions) {
        if (AddsAlong(reduction, sizes, d)) return true;
      }
    }
  }
  return false;
}

// Marks values that cheap programs and views compute from 8-bit states, other states and constants alone: dequantized
// weights.
std::vector<bool> DequantizedValues(const JointFacts& facts) {
  std::vector<bool> is_fixed = facts.is_state;  // computed from states and constants
  std::vector<bool> is_dequantized(facts.producer.size(), false);
  const auto reads_integers = [&](ValueId id) {
    const DType dtype = facts.TypeOf(id).dtype;
    return is_dequantized[JointFacts::At(id)] || dtype == DType::kInt8 || dtype == DType::kUInt8;
  };
  for (const Node* node : facts.nodes) {
    if (!IsView(*node) && (node->op != kExprOp || !IsCheapProgram(*facts.joint, *node))) continue;
    std::vector<ValueId> operands = TensorOperands(*node);
    operands.erase(std::remove(operands.begin(), operands.end(), kNoValue), operands.end());
    const bool fixed =
        std::all_of(operands.begin(), operands.end(), [&](ValueId id) { return is_fixed[JointFacts::At(id)]; });
    for (const ValueId id : node->outputs) {
      if (!fixed || id == kNoValue) continue;
      is_fixed[JointFacts::At(id)] = true;
      is_dequantized[JointFacts::At(id)] = std::any_of(operands.begin(), operands.end(), reads_integers);
    }
  }
  return is_dequantized;
}

// Returns the number of cheap nodes in a row that end with `node`.
int ChainOf(const Node& node, const std::vector<int>& chain) {
  int longest = 0;
  for (const ValueId id : TensorOperands(node)) {
    if (id != kNoValue) longest = std::max(longest, chain[JointFacts::At(id)]);
  }
  return longest;
}

// Returns the value that a chain of views starts from.
ValueId BaseOf(ValueId id, const JointFacts& facts) {
  while (facts.producer[JointFacts::At(id)] != nullptr && IsView(*facts.producer[JointFacts::At(id)])) {
    id = TensorOperands(*facts.producer[JointFacts::At(id)])[0];
  }
  return id;
}

// Returns true for cheap products of values that kernels of the backward read in any case, and for functions of them:
// scores and probabilities of attention. The fused backwards of attention compute them again, too.
bool FromProductAtHand(const Node& node, const JointFacts& facts, const std::vector<bool>& read_by_kernels,
                       const std::vector<bool>& from_product) {
  const std::vector<ValueId> operands = TensorOperands(node);
  if (IsPrim(node, PrimOp::kMatmul)) {
    return std::all_of(operands.begin(), operands.end(), [&](ValueId id) {
      const size_t base = JointFacts::At(BaseOf(id, facts));
      return read_by_kernels[base] || facts.is_state[base];
    });
  }
  return (node.op == kExprOp || IsView(node)) && std::any_of(operands.begin(), operands.end(), [&](ValueId id) {
           return id != kNoValue && from_product[JointFacts::At(id)];
         });
}

}  // namespace

std::vector<RecomputeClass> RecomputeClasses(const JointFacts& facts, const SavePolicyFunction& policy) {
  const std::vector<bool> read_by_kernels = ReadByKernels(facts);
  const std::vector<Reduction> reductions = ReductionsOf(facts);
  std::vector<int> chain(facts.producer.size(), 0);  // by value: cheap nodes in a row
  std::vector<bool> from_product(facts.producer.size(), false);
  const std::vector<bool> is_dequantized = DequantizedValues(facts);
  std::vector<RecomputeClass> classes;
  for (const Node* node : facts.nodes) {
    RecomputeClass& own = classes.emplace_back(RecomputeClass::kNever);
    if (facts.RunsBackward(*node)) continue;
    own = ClassOfOp(*facts.joint, *node);
    if (SplitsReduction(*node, facts, reductions)) own = RecomputeClass::kNever;
    if (own == RecomputeClass::kNever) continue;
    const SavePolicy chosen = policy == nullptr ? SavePolicy::kDefault : policy(*facts.joint, *node);
    if (chosen != SavePolicy::kDefault) {
      own = chosen == SavePolicy::kSave ? RecomputeClass::kNever : RecomputeClass::kAlways;
      continue;
    }
    if (!facts.RunsForward(*node)) own = RecomputeClass::kFree;
    // A saved one would undo what the integers save.
    if (node->outputs[0] != kNoValue && is_dequantized[JointFacts::At(node->outputs[0])]) own = RecomputeClass::kFree;
    int length = own == RecomputeClass::kHeavy ? 0 : ChainOf(*node, chain);
    if (own == RecomputeClass::kCheap) {
      const bool is_probability = FromProductAtHand(*node, facts, read_by_kernels, from_product);
      const bool is_stored =
          !is_probability && std::any_of(node->outputs.begin(), node->outputs.end(), [&](ValueId id) {
            return id != kNoValue && read_by_kernels[JointFacts::At(id)];
          });
      if (is_stored || length == kMaxRecomputedChain) {
        own = RecomputeClass::kAvoided;
        length = 0;
      } else {
        ++length;
      }
      if (is_probability) from_product[JointFacts::At(node->outputs[0])] = true;
    }
    for (const ValueId id : node->outputs) {
      if (id != kNoValue) chain[JointFacts::At(id)] = length;
    }
    if (IsView(*node) && FromProductAtHand(*node, facts, read_by_kernels, from_product)) {
      from_product[JointFacts::At(node->outputs[0])] = true;
    }
  }
  return classes;
}

double NodeCost(const Graph& graph, const Node& node) {
  if (IsView(node)) return 0;
  double bytes = 0;
  for (const ValueId id : TensorOperands(node)) {
    if (id != kNoValue) bytes += static_cast<double>(EstimatedBytes(graph.value(id).type));
  }
  for (const ValueId id : node.outputs) {
    if (id != kNoValue) bytes += static_cast<double>(EstimatedBytes(graph.value(id).type));
  }
  return kNsPerCall + Arithmetic(graph, node) / kFlopsPerNs + bytes / kBytesPerNs;
}

}  // namespace cotan::aot
