// SPDX-License-Identifier: Apache-2.0

// The ops that stand for calls of blocks (aot/blocks).
#ifndef COTAN_AOT_IR_CALL_NODE_H_
#define COTAN_AOT_IR_CALL_NODE_H_

#include "absl/strings/string_view.h"

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

}  // namespace cotan::aot

#endif  // COTAN_AOT_IR_CALL_NODE_H_
