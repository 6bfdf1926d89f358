// SPDX-License-Identifier: Apache-2.0

// The ops that a block's forward calls, to find out without a trace that two calls of blocks do the same.
#ifndef COTAN_AOT_BLOCKS_OP_SEQUENCE_H_
#define COTAN_AOT_BLOCKS_OP_SEQUENCE_H_

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "absl/types/span.h"
#include "aot/blocks/tensor_shell.h"
#include "aot/capture/traced_function.h"

namespace cotan::aot {

// The calls of ops by one run of a function of tensors, on top of the dispatcher: with the arguments, the modes of the
// thread, and what the function can see of the results. If it is complete, a function that makes the same calls, gets
// such results and returns the same of them has the same trace. Tensors are numbered: inputs, states, then results in
// the order of their calls.
struct OpSequence {
  struct Result {
    int tensor = 0;  // number; -1: undefined
    bool is_new = false;
    TensorFacts facts;  // of a new tensor

    friend bool operator==(const Result&, const Result&) = default;
  };
  struct Call {
    // Op, arguments and modes, as bytes. Tensors that are not numbered are there with their contents.
    std::string text;
    std::vector<Result> results;
    std::vector<int> list_sizes;  // by return value of the op: the length of a list of results; -1: one result
  };
  std::vector<Call> calls;
  std::string returned;  // the tensors that the function returns and those that it takes, as in `Call::text`
  // False: more than these calls decides what the function does (custom autograd functions, hooks, tensors of another
  // trace, numbers that an op returns, blocks in it), or the run threw.
  bool is_complete = false;
};

// Calls the function within a trace and stores its calls of ops. Throws what the function throws.
std::vector<at::Tensor> RecordOps(const TensorFunction& function, absl::Span<const ModuleState> states,
                                  const std::vector<at::Tensor>& inputs, OpSequence& sequence);

// Returns the index of the one of `sequences`, all complete, that the function calls with these states and with inputs
// like `inputs`; -1 if there is none. Nothing is computed, and the trace in progress, the states and the modes of the
// thread stay as they are: an op returns tensors without elements that have the recorded facts, and where the function
// differs from all sequences the op throws, so that what else the function changes stays as it is at that point.
int FindSequence(const TensorFunction& function, absl::Span<const ModuleState> states,
                 absl::Span<const at::Tensor> inputs, std::vector<const OpSequence*> sequences);

// Makes the sequence in progress on this thread, if there is one, incomplete. Throws if it is compared.
void RefuseOpSequence();

}  // namespace cotan::aot

#endif  // COTAN_AOT_BLOCKS_OP_SEQUENCE_H_
