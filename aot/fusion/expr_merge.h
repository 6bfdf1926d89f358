// SPDX-License-Identifier: Apache-2.0

// Operations on expression programs: parse, simplify, merge, reshape, build.
#ifndef COTAN_AOT_FUSION_EXPR_MERGE_H_
#define COTAN_AOT_FUSION_EXPR_MERGE_H_

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "aot/ir/graph.h"
#include "serialization/schema/expr.pb.h"

namespace cotan::aot {

// A parsed cotan.expr node. expr.outputs(k) is stored to outputs[k]; FN_INPUT indexes `inputs`,
// which has no duplicates.
struct FusedExpr {
  // Parses a cotan.expr node that VerifyGraph() accepts.
  static FusedExpr FromNode(const Node& node);
  // Sets the op, the arguments, the outputs and the program of `node`.
  void ToNode(Node& node) const;

  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  SymIntVector domain;
  std::vector<uint32_t> reduce_dims;  // ascending
  std::vector<serialization::ExprInstruction> instructions;
  std::vector<uint32_t> stores;  // instruction of each output
};

// Returns `domain` with size 1 in every dimension of `reduce_dims`.
SymIntVector ReducedSizes(const SymIntVector& domain, absl::Span<const uint32_t> reduce_dims);

// Folds constants, merges equal instructions, and drops dead instructions and unused inputs.
// Results stay equal bit for bit.
void Simplify(FusedExpr& fused);

// Returns one program that computes both. `first` must not read an output of `second`. Loads of
// first's outputs in `second` become uses of instructions. All outputs are kept; the caller drops
// unused ones. Returns none if the two have no common index space: the domains must be equal with
// equal (or no) reduce dims, or one domain must be the reduced index space of the other.
std::optional<FusedExpr> Merge(const FusedExpr& first, const FusedExpr& second);

// A program over another index space. Each operand has the same elements in row-major order, viewed
// with the sizes given here.
struct Reshaped {
  FusedExpr fused;                        // inputs and outputs keep their ids
  std::vector<SymIntVector> input_sizes;  // one per input
  std::vector<SymIntVector> output_sizes;
};

// Returns the program over the index space `sizes`, which has as many elements as its domain, in
// the same row-major order. `input_types` has one type per input. Returns none if `sizes` cannot
// express the broadcast of an operand, the reduce dims or an iota.
std::optional<Reshaped> Reshape(const FusedExpr& fused, absl::Span<const TensorType> input_types,
                                const SymIntVector& sizes);

// Returns, for each instruction, true if it has one value per index of the domain, and false if it
// has one per index of the reduced index space.
std::vector<bool> FullLevels(const FusedExpr& fused, absl::Span<const TensorType> input_types);

}  // namespace cotan::aot

#endif  // COTAN_AOT_FUSION_EXPR_MERGE_H_
