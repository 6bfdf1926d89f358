// SPDX-License-Identifier: Apache-2.0

#include "aot/fusion/expr_merge.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/ir/expr_text.h"

namespace cotan::aot {
namespace {

using serialization::Expr;
using serialization::ExprInstruction;

bool IsConstant(const ExprInstruction& instruction) { return instruction.fn() == serialization::FN_CONSTANT; }

bool IsFloatProto(serialization::DTypeProto dtype) {
  return dtype == serialization::DTYPE_F32 || dtype == serialization::DTYPE_F64;
}

// Rounds a number as an instruction of this dtype does.
double RoundTo(serialization::DTypeProto dtype, double value) {
  return dtype == serialization::DTYPE_F32 ? static_cast<double>(static_cast<float>(value)) : value;
}

// Returns fn(a, b) for float constants; none if it is not folded. For these functions double
// arithmetic on two floats, rounded to float, gives the correctly rounded result.
std::optional<double> FoldBinary(serialization::ScalarFn fn, double a, double b) {
  switch (fn) {
    case serialization::FN_ADD:
      return a + b;
    case serialization::FN_SUB:
      return a - b;
    case serialization::FN_MUL:
      return a * b;
    case serialization::FN_DIV:
      return a / b;
    default:
      return std::nullopt;
  }
}

bool IsPowerOfTwo(double value) {
  int exponent = 0;
  return std::isnormal(value) && std::frexp(std::abs(value), &exponent) == 0.5 && std::abs(exponent) < 100;
}

// Rewrites `instruction`, whose operands are already simplified, to a cheaper one of equal value.
// Returns the position of an instruction with equal value, if there is one.
std::optional<uint32_t> Rewrite(const std::vector<ExprInstruction>& done, ExprInstruction& instruction) {
  if (!IsFloatProto(instruction.dtype()) || instruction.operands_size() == 0) return std::nullopt;
  const ExprInstruction& a = done[instruction.operands(0)];
  const auto become = [&](double value) {
    const serialization::DTypeProto dtype = instruction.dtype();
    instruction.Clear();
    instruction.set_fn(serialization::FN_CONSTANT);
    instruction.set_dtype(dtype);
    instruction.set_float_value(RoundTo(dtype, value));
  };
  if (instruction.operands_size() == 1) {
    if (!IsConstant(a)) return std::nullopt;
    if (instruction.fn() == serialization::FN_NEG) become(-a.float_value());
    if (instruction.fn() == serialization::FN_CAST) {
      become(IsFloatProto(a.dtype()) ? a.float_value() : static_cast<double>(a.int_value()));
    }
    return std::nullopt;
  }
  if (instruction.operands_size() != 2) return std::nullopt;
  const ExprInstruction& b = done[instruction.operands(1)];
  if (IsConstant(a) && IsConstant(b)) {
    if (const std::optional<double> value = FoldBinary(instruction.fn(), a.float_value(), b.float_value()))
      become(*value);
    return std::nullopt;
  }
  const bool times_one = instruction.fn() == serialization::FN_MUL || instruction.fn() == serialization::FN_DIV;
  if (times_one && IsConstant(b) && b.float_value() == 1) return instruction.operands(0);
  if (instruction.fn() == serialization::FN_MUL && IsConstant(a) && a.float_value() == 1)
    return instruction.operands(1);
  return std::nullopt;
}

std::string KeyOf(const ExprInstruction& instruction) {
  std::string key = absl::StrCat(instruction.fn(), " ", instruction.dtype(), " ",
                                 absl::StrJoin(instruction.operands(), ","), " ", instruction.index(), " ",
                                 instruction.int_value(), " ", instruction.size(), " ", instruction.slice(), " ");
  const double value = instruction.float_value();
  key.append(reinterpret_cast<const char*>(&value), sizeof(value));
  return key;
}

bool UsesInput(const ExprInstruction& instruction) {
  return instruction.fn() == serialization::FN_INPUT || instruction.fn() == serialization::FN_RANDOM_UNIFORM;
}

bool DependsOnPlace(const FusedExpr& fused) {
  return std::any_of(fused.instructions.begin(), fused.instructions.end(), [](const ExprInstruction& instruction) {
    return instruction.fn() == serialization::FN_IOTA || instruction.fn() == serialization::FN_RANDOM_UNIFORM;
  });
}

bool IsOne(const SymInt& size) { return size == SymInt(1); }

bool AllOnes(const SymIntVector& sizes) { return std::all_of(sizes.begin(), sizes.end(), IsOne); }

// Appends the instructions of `from` to `to`; loads of values in `known` become
// uses of those instructions. Returns the new positions.
std::vector<uint32_t> Append(const FusedExpr& from, const absl::flat_hash_map<ValueId, uint32_t>& known,
                             FusedExpr& to) {
  std::vector<uint32_t> positions;
  for (ExprInstruction instruction : from.instructions) {
    if (instruction.fn() == serialization::FN_INPUT) {
      if (const auto it = known.find(from.inputs[instruction.index()]); it != known.end()) {
        positions.push_back(it->second);
        continue;
      }
    }
    if (UsesInput(instruction)) {
      const ValueId value = from.inputs[instruction.index()];
      const auto it = std::find(to.inputs.begin(), to.inputs.end(), value);
      instruction.set_index(static_cast<uint32_t>(it - to.inputs.begin()));
      if (it == to.inputs.end()) to.inputs.push_back(value);
    }
    for (int k = 0; k < instruction.operands_size(); ++k)
      instruction.set_operands(k, positions[instruction.operands(k)]);
    positions.push_back(static_cast<uint32_t>(to.instructions.size()));
    to.instructions.push_back(std::move(instruction));
  }
  return positions;
}

// Groups of dimensions of two index spaces whose products of sizes are equal.
struct Group {
  std::vector<size_t> from, to;
};

std::optional<std::vector<Group>> GroupDims(const SymIntVector& from, const SymIntVector& to) {
  std::vector<Group> groups;
  size_t i = 0, j = 0;
  while (i < from.size() || j < to.size()) {
    Group group;
    SymInt left = 1, right = 1;
    if (i < from.size()) {
      left = from[i];
      group.from.push_back(i++);
    }
    if (j < to.size()) {
      right = to[j];
      group.to.push_back(j++);
    }
    while (!(left == right)) {
      const bool grow_left = left.is_constant() && right.is_constant()
                                 ? left.constant() < right.constant()
                                 : i < from.size() && (left.is_constant() || j >= to.size());
      if (grow_left ? i >= from.size() : j >= to.size()) return std::nullopt;
      if (grow_left) {
        left = left * from[i];
        group.from.push_back(i++);
      } else {
        right = right * to[j];
        group.to.push_back(j++);
      }
    }
    groups.push_back(std::move(group));
  }
  return groups;
}

bool Contains(absl::Span<const uint32_t> dims, size_t dim) {
  return std::find(dims.begin(), dims.end(), dim) != dims.end();
}

bool LoadsInput(const FusedExpr& fused, size_t input) {
  return std::any_of(fused.instructions.begin(), fused.instructions.end(), [&](const ExprInstruction& instruction) {
    return instruction.fn() == serialization::FN_INPUT && instruction.index() == input;
  });
}

// Returns the reduce dims of `fused` as dims of the other index space. Returns none if a group of
// dims is reduced in part, or if no dim is left to reduce.
std::optional<std::vector<uint32_t>> MapReduceDims(const FusedExpr& fused, const std::vector<Group>& groups) {
  std::vector<uint32_t> reduce_dims;
  for (const Group& group : groups) {
    size_t wide = 0, wide_reduced = 0, reduced = 0;
    for (const size_t dim : group.from) {
      const bool is_wide = !IsOne(fused.domain[dim]);
      const bool is_reduced = Contains(fused.reduce_dims, dim);
      wide += is_wide;
      wide_reduced += is_wide && is_reduced;
      reduced += is_reduced;
    }
    if (wide_reduced != 0 && wide_reduced != wide) return std::nullopt;
    if ((wide == 0 ? reduced : wide_reduced) == 0) continue;
    for (const size_t dim : group.to) reduce_dims.push_back(static_cast<uint32_t>(dim));
  }
  if (!fused.reduce_dims.empty() && reduce_dims.empty()) return std::nullopt;
  return reduce_dims;
}

// Returns the sizes of input number `input`, now `input_sizes`, in the index space `sizes`. The
// input that is only the state of a random draw keeps its sizes. Returns none if a group of dims is
// broadcast in part.
std::optional<SymIntVector> MapInputSizes(const FusedExpr& fused, size_t input, const SymIntVector& input_sizes,
                                          const std::vector<Group>& groups, const SymIntVector& sizes) {
  if (!LoadsInput(fused, input)) return input_sizes;
  SymIntVector mapped(sizes.size(), SymInt(1));
  const size_t lead = fused.domain.size() - std::min(fused.domain.size(), input_sizes.size());
  for (const Group& group : groups) {
    size_t wide = 0, present = 0;
    for (const size_t dim : group.from) {
      const bool is_wide = !IsOne(fused.domain[dim]);
      wide += is_wide;
      present += is_wide && dim >= lead && !IsOne(input_sizes[dim - lead]);
    }
    if (present != 0 && present != wide) return std::nullopt;
    if (present == 0) continue;
    for (const size_t dim : group.to) mapped[dim] = sizes[dim];
  }
  return mapped;
}

// Returns the dim of the index space `sizes` that an iota over `dim` of `domain` counts. Returns
// none if the group of `dim` has another dim above size 1 in either index space.
std::optional<uint32_t> MapIotaDim(const SymIntVector& domain, uint32_t dim, const std::vector<Group>& groups,
                                   const SymIntVector& sizes) {
  if (IsOne(domain[dim])) return std::nullopt;
  const auto group = std::find_if(groups.begin(), groups.end(), [&](const Group& candidate) {
    return std::find(candidate.from.begin(), candidate.from.end(), dim) != candidate.from.end();
  });
  if (group == groups.end()) return std::nullopt;
  const auto is_wide_from = [&](size_t other) { return !IsOne(domain[other]); };
  const auto is_wide_to = [&](size_t other) { return !IsOne(sizes[other]); };
  if (std::count_if(group->from.begin(), group->from.end(), is_wide_from) != 1) return std::nullopt;
  if (std::count_if(group->to.begin(), group->to.end(), is_wide_to) != 1) return std::nullopt;
  return static_cast<uint32_t>(*std::find_if(group->to.begin(), group->to.end(), is_wide_to));
}

}  // namespace

FusedExpr FusedExpr::FromNode(const Node& node) {
  FusedExpr fused;
  std::vector<uint32_t> index;  // of each tensor operand among the distinct inputs
  for (const ValueId id : TensorOperands(node)) {
    const auto it = std::find(fused.inputs.begin(), fused.inputs.end(), id);
    index.push_back(static_cast<uint32_t>(it - fused.inputs.begin()));
    if (it == fused.inputs.end()) fused.inputs.push_back(id);
  }
  fused.outputs = node.outputs;
  for (const std::string& size : node.expr->domain_sizes()) fused.domain.push_back(*SymInt::Parse(size));
  fused.reduce_dims.assign(node.expr->reduce_dims().begin(), node.expr->reduce_dims().end());
  for (ExprInstruction instruction : node.expr->instructions()) {
    if (UsesInput(instruction)) instruction.set_index(index[instruction.index()]);
    fused.instructions.push_back(std::move(instruction));
  }
  fused.stores.assign(node.expr->outputs().begin(), node.expr->outputs().end());
  return fused;
}

void FusedExpr::ToNode(Node& node) const {
  node.op = std::string(kExprOp);
  node.arguments.clear();
  for (const ValueId id : inputs) node.arguments.push_back(Use{id});
  node.outputs = outputs;
  auto expr = std::make_shared<Expr>();
  for (const SymInt& size : domain) expr->add_domain_sizes(size.ToString());
  for (const uint32_t dim : reduce_dims) expr->add_reduce_dims(dim);
  for (const ExprInstruction& instruction : instructions) *expr->add_instructions() = instruction;
  for (const uint32_t store : stores) expr->add_outputs(store);
  node.expr = std::move(expr);
}

SymIntVector ReducedSizes(const SymIntVector& domain, absl::Span<const uint32_t> reduce_dims) {
  SymIntVector sizes = domain;
  for (const uint32_t dim : reduce_dims) sizes[dim] = SymInt(1);
  return sizes;
}

void Simplify(FusedExpr& fused) {
  std::vector<ExprInstruction> done;
  std::vector<uint32_t> positions;
  absl::flat_hash_map<std::string, uint32_t> seen;
  for (ExprInstruction instruction : fused.instructions) {
    for (int k = 0; k < instruction.operands_size(); ++k)
      instruction.set_operands(k, positions[instruction.operands(k)]);
    if (const std::optional<uint32_t> copy = Rewrite(done, instruction)) {
      positions.push_back(*copy);
      continue;
    }
    if (instruction.fn() == serialization::FN_DIV && IsFloatProto(instruction.dtype())) {
      const ExprInstruction& divisor = done[instruction.operands(1)];
      if (IsConstant(divisor) && IsPowerOfTwo(divisor.float_value())) {
        ExprInstruction inverse = divisor;
        inverse.set_float_value(1 / divisor.float_value());
        const auto [it, is_new] = seen.try_emplace(KeyOf(inverse), static_cast<uint32_t>(done.size()));
        if (is_new) done.push_back(inverse);
        instruction.set_fn(serialization::FN_MUL);
        instruction.set_operands(1, it->second);
      }
    }
    const auto [it, is_new] = seen.try_emplace(KeyOf(instruction), static_cast<uint32_t>(done.size()));
    if (is_new) done.push_back(std::move(instruction));
    positions.push_back(it->second);
  }
  std::vector<bool> live(done.size(), false);
  for (uint32_t& store : fused.stores) {
    store = positions[store];
    live[store] = true;
  }
  for (size_t i = done.size(); i-- > 0;) {
    if (!live[i]) continue;
    for (const uint32_t operand : done[i].operands()) live[operand] = true;
  }
  FusedExpr result;
  std::vector<uint32_t> final_positions(done.size(), 0);
  for (size_t i = 0; i < done.size(); ++i) {
    if (!live[i]) continue;
    ExprInstruction& instruction = done[i];
    for (int k = 0; k < instruction.operands_size(); ++k)
      instruction.set_operands(k, final_positions[instruction.operands(k)]);
    if (UsesInput(instruction)) {
      const ValueId value = fused.inputs[instruction.index()];
      const auto it = std::find(result.inputs.begin(), result.inputs.end(), value);
      instruction.set_index(static_cast<uint32_t>(it - result.inputs.begin()));
      if (it == result.inputs.end()) result.inputs.push_back(value);
    }
    final_positions[i] = static_cast<uint32_t>(result.instructions.size());
    result.instructions.push_back(std::move(instruction));
  }
  for (uint32_t& store : fused.stores) store = final_positions[store];
  fused.inputs = std::move(result.inputs);
  fused.instructions = std::move(result.instructions);
}

std::optional<FusedExpr> Merge(const FusedExpr& first, const FusedExpr& second) {
  FusedExpr merged;
  const bool same_reduction =
      first.reduce_dims == second.reduce_dims || first.reduce_dims.empty() || second.reduce_dims.empty();
  if (first.domain == second.domain && same_reduction) {
    merged.domain = first.domain;
    merged.reduce_dims = first.reduce_dims.empty() ? second.reduce_dims : first.reduce_dims;
  } else if (!first.reduce_dims.empty() && second.reduce_dims.empty() && !DependsOnPlace(second) &&
             ReducedSizes(first.domain, first.reduce_dims) == second.domain) {
    merged.domain = first.domain;
    merged.reduce_dims = first.reduce_dims;
  } else if (!second.reduce_dims.empty() && first.reduce_dims.empty() && !DependsOnPlace(first) &&
             ReducedSizes(second.domain, second.reduce_dims) == first.domain) {
    merged.domain = second.domain;
    merged.reduce_dims = second.reduce_dims;
  } else if (first.reduce_dims.empty() && AllOnes(first.domain) && first.domain.size() <= second.domain.size() &&
             !DependsOnPlace(first)) {
    merged.domain = second.domain;
    merged.reduce_dims = second.reduce_dims;
  } else {
    return std::nullopt;
  }
  const std::vector<uint32_t> first_positions = Append(first, {}, merged);
  absl::flat_hash_map<ValueId, uint32_t> known;
  for (size_t k = 0; k < first.outputs.size(); ++k) {
    known[first.outputs[k]] = first_positions[first.stores[k]];
    merged.outputs.push_back(first.outputs[k]);
    merged.stores.push_back(first_positions[first.stores[k]]);
  }
  const std::vector<uint32_t> second_positions = Append(second, known, merged);
  for (size_t k = 0; k < second.outputs.size(); ++k) {
    merged.outputs.push_back(second.outputs[k]);
    merged.stores.push_back(second_positions[second.stores[k]]);
  }
  return merged;
}

std::vector<bool> FullLevels(const FusedExpr& fused, absl::Span<const TensorType> input_types) {
  std::vector<bool> full;
  for (const ExprInstruction& instruction : fused.instructions) {
    bool is_full = fused.reduce_dims.empty() || instruction.fn() == serialization::FN_IOTA ||
                   instruction.fn() == serialization::FN_RANDOM_UNIFORM;
    if (instruction.fn() == serialization::FN_INPUT) {
      const SymIntVector& sizes = input_types[instruction.index()].sizes;
      const size_t lead = fused.domain.size() - sizes.size();
      for (const uint32_t dim : fused.reduce_dims) is_full = is_full || (dim >= lead && !IsOne(sizes[dim - lead]));
    }
    for (const uint32_t operand : instruction.operands()) is_full = is_full || full[operand];
    if (instruction.fn() >= serialization::FN_REDUCE_SUM) is_full = false;
    full.push_back(is_full);
  }
  return full;
}

std::optional<Reshaped> Reshape(const FusedExpr& fused, absl::Span<const TensorType> input_types,
                                const SymIntVector& sizes) {
  const std::optional<std::vector<Group>> groups = GroupDims(fused.domain, sizes);
  if (!groups.has_value()) return std::nullopt;
  std::optional<std::vector<uint32_t>> reduce_dims = MapReduceDims(fused, *groups);
  if (!reduce_dims.has_value()) return std::nullopt;
  Reshaped result{fused, {}, {}};
  result.fused.domain = sizes;
  result.fused.reduce_dims = *std::move(reduce_dims);
  for (size_t k = 0; k < input_types.size(); ++k) {
    std::optional<SymIntVector> input_sizes = MapInputSizes(fused, k, input_types[k].sizes, *groups, sizes);
    if (!input_sizes.has_value()) return std::nullopt;
    result.input_sizes.push_back(*std::move(input_sizes));
  }
  for (ExprInstruction& instruction : result.fused.instructions) {
    if (instruction.fn() != serialization::FN_IOTA) continue;
    const std::optional<uint32_t> dim = MapIotaDim(fused.domain, instruction.index(), *groups, sizes);
    if (!dim.has_value()) return std::nullopt;
    instruction.set_index(*dim);
  }
  const std::vector<bool> full = FullLevels(fused, input_types);
  const SymIntVector reduced = ReducedSizes(sizes, result.fused.reduce_dims);
  for (const uint32_t store : fused.stores) result.output_sizes.push_back(full[store] ? sizes : reduced);
  return result;
}

}  // namespace cotan::aot
