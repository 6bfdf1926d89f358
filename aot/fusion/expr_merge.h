// Algebra of expression programs that fusion is made of.
#ifndef COTAN_AOT_FUSION_EXPR_MERGE_H_
#define COTAN_AOT_FUSION_EXPR_MERGE_H_

#include <optional>
#include <vector>

#include "absl/types/span.h"
#include "aot/ir/graph.h"
#include "serialization/schema/expr.pb.h"

namespace cotan::aot {

// A cotan.expr node taken apart. expr.outputs(k) is stored to outputs[k];
// FN_INPUT indexes `inputs`, which has no duplicates.
struct FusedExpr {
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
  SymIntVector domain;
  std::vector<uint32_t> reduce_dims;  // ascending
  std::vector<serialization::ExprInstruction> instructions;
  std::vector<uint32_t> stores;  // instruction of each output
};

FusedExpr TakeApart(const Node& node);
// Sets arguments, outputs and program of `node`.
void PutTogether(const FusedExpr& fused, Node& node);

// Sizes with 1 in every dimension of `reduce_dims`.
SymIntVector ReducedSizes(const SymIntVector& domain, absl::Span<const uint32_t> reduce_dims);

// Folds constants, shares equal instructions, drops dead ones and inputs that
// nothing loads. Results keep their bits.
void Simplify(FusedExpr& fused);

// One program that computes both, `first` not reading what `second` makes.
// Loads of first's outputs in `second` become uses. All outputs are kept; the
// caller drops those that nobody needs any more. None if the two have no index
// space in common: equal domains with equal (or no) reduce dims, or one being
// the reduced part of the other.
std::optional<FusedExpr> Merge(const FusedExpr& first, const FusedExpr& second);

// How an operand of a reshaped program is seen: the same elements in row-major
// order under these sizes.
struct Reshaped {
  FusedExpr fused;                        // inputs and outputs keep their ids
  std::vector<SymIntVector> input_sizes;  // one per input
  std::vector<SymIntVector> output_sizes;
};

// The program over the index space `sizes`, which has as many elements as its
// domain, in the same row-major order. `input_types` has one type per input.
// None if an operand's broadcasting, the reduce dims or an index does not
// survive.
std::optional<Reshaped> Reshape(const FusedExpr& fused, absl::Span<const TensorType> input_types,
                                const SymIntVector& sizes);

// Whether each instruction has one value per index of the domain (as opposed
// to the reduced index space).
std::vector<bool> FullLevels(const FusedExpr& fused, absl::Span<const TensorType> input_types);

}  // namespace cotan::aot

#endif  // COTAN_AOT_FUSION_EXPR_MERGE_H_
