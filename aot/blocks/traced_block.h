// SPDX-License-Identifier: Apache-2.0

// The trace of a block: a function of operands, with its backward.
#ifndef COTAN_AOT_BLOCKS_TRACED_BLOCK_H_
#define COTAN_AOT_BLOCKS_TRACED_BLOCK_H_

#include <ATen/core/Tensor.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/aotautograd/trace_options.h"
#include "aot/blocks/op_sequence.h"
#include "aot/capture/traced_function.h"
#include "aot/capture/traced_program.h"

namespace cotan::aot {

// An operand of a block: a tensor that its graph takes, besides tangents.
struct BlockOperand {
  enum class Kind : uint8_t { kState, kInput, kConstant, kRngState };
  Kind kind = Kind::kInput;
  size_t index = 0;  // among the states, inputs or constants
};

// A block as one function. Its results are the outputs of the graph that are not gradients, in order: the new contents
// of states that it writes, then the defined tensors that the body returns.
struct TracedBlock {
  TracedProgram traced;                        // a joint graph, or an inference graph if nothing requires grad
  std::vector<c10::OperatorHandle> operators;  // of the graph's nodes
  std::vector<BlockOperand> operands;          // in the order of the graph's inputs, without tangents
  std::vector<at::Tensor> constants;           // captured tensors, real
  std::vector<size_t> written_states;          // by result, as many as there are
  std::vector<bool> is_differentiable;         // by result
  std::vector<std::vector<int64_t>> strides;   // by result
  std::vector<size_t> gradient_operands;       // by gradient: the operand
  std::vector<bool> is_empty;                  // by tensor that the body returns: it is undefined, and no result

  size_t num_results() const { return is_differentiable.size(); }
};

// Traces a block on tensors of the trace in progress, which it leaves as they are. `states` are its parameters and
// buffers, as tensors of that trace, and `inputs` the other arguments, real. Also stores the ops that the block calls
// in `ops`, unless it is null. Unimplemented: it cannot be shared; the message says why.
absl::StatusOr<TracedBlock> TraceBlock(const TensorFunction& body, absl::Span<const ModuleState> states,
                                       absl::Span<const at::Tensor> inputs, const TraceOptions& options,
                                       OpSequence* ops);

// Returns a text that is equal for blocks that compute the same, with captured tensors of the same content. It does not
// include names, sources and the contents of states.
std::string FingerprintOf(const TracedBlock& block);

}  // namespace cotan::aot

#endif  // COTAN_AOT_BLOCKS_TRACED_BLOCK_H_
