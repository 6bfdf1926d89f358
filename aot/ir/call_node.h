// SPDX-License-Identifier: Apache-2.0

// The ops that stand for calls of blocks (aot/blocks), and what a call needs to know of a block.
#ifndef COTAN_AOT_IR_CALL_NODE_H_
#define COTAN_AOT_IR_CALL_NODE_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "aot/ir/graph.h"

namespace cotan::aot {

// Traced: cotan.block(Tensor[] operands, int block, int slice, str path) -> Tensor[], the block's results and a ticket,
// which its backward takes.
inline constexpr absl::string_view kBlockOp = "cotan.block.default";
// Traced: cotan.block_backward(Tensor ticket, Tensor[] tangents, int block, int slice, str path) -> Tensor[], the
// gradients.
inline constexpr absl::string_view kBlockBackwardOp = "cotan.block_backward.default";
// Lowered: cotan.call(Tensor[] inputs, int block, SymInt slice, str path) -> Tensor[]; `block` is an index into
// Artifact.blocks.
inline constexpr absl::string_view kCallOp = "cotan.call";

inline bool IsTracedCall(absl::string_view op) { return op == kBlockOp || op == kBlockBackwardOp; }

// A graph that was added to the artifact as a block.
struct AddedBlock {
  uint32_t block = 0;                    // index in the artifact; unused if there are no outputs
  std::vector<size_t> inputs = {};       // graph inputs that it takes; others are unused
  std::vector<TensorType> outputs = {};  // types of what it returns
  // By graph output with a value: {it is an input, index among inputs of the graph or outputs of the block}.
  std::vector<std::pair<bool, size_t>> values = {};
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_CALL_NODE_H_
