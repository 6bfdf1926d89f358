// SPDX-License-Identifier: Apache-2.0

// Ops whose results have as many elements as the data decides, in terms of cotan::leading_rows:
//
//   nonzero                    -> nonzero_static of the maximum, cut to the count
//   masked_select, x[mask], x[mask] = values -> gathers and scatters at the indices of nonzero
//   unique, unique_consecutive -> sort, and nonzero of where a new value begins
//   repeat_interleave          -> where each element ends
//
// cotan::leading_rows(Tensor buffer, Tensor count, SymInt size, str name) -> Tensor is the first `count` rows of
// `buffer`. A trace has `size` rows in their place (capture/data_sizes.h). The compiler cuts the program there
// (partitioner/cut_at_sizes.h). `name` says what is counted.
#ifndef COTAN_AOT_DECOMPOSITIONS_DATA_SIZE_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_DATA_SIZE_OPS_H_

#include <ATen/core/stack.h>

#include "aot/capture/recorder.h"

namespace c10 {
class OperatorHandle;
}
namespace torch {
class Library;
}

namespace cotan::aot {

// Calls an op whose result's size depends on data, if a maximum is declared for it: pops its arguments and pushes its
// results. Returns false, with the stack unchanged, for all other calls.
bool CallWithDataSize(const c10::OperatorHandle& op, torch::jit::Stack& stack, Recorder& recorder);

// Defines cotan::leading_rows.
void DefineLeadingRows(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_DATA_SIZE_OPS_H_
