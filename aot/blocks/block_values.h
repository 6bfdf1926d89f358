// SPDX-License-Identifier: Apache-2.0

// Computes the real values of calls of blocks while the caller is traced.
#ifndef COTAN_AOT_BLOCKS_BLOCK_VALUES_H_
#define COTAN_AOT_BLOCKS_BLOCK_VALUES_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "absl/types/span.h"
#include "aot/blocks/block_table.h"
#include "aot/blocks/traced_block.h"

namespace cotan::aot {

// Returns the results of a block on real operands, with their strides, and in `values` what its backward reads. `slice`
// is the call's first Philox block. Throws c10::Error if an op does.
std::vector<at::Tensor> ComputeResults(const TracedBlock& block, absl::Span<const at::Tensor> operands, int64_t slice,
                                       BlockTable::Values& values);

// Returns the gradients of the operands in `block.gradient_operands`. `values` are those of the same call.
std::vector<at::Tensor> ComputeGradients(const TracedBlock& block, absl::Span<const at::Tensor> tangents,
                                         BlockTable::Values& values);

// Return zeros of the types of the results, or gradients.
std::vector<at::Tensor> ZeroResults(const TracedBlock& block);
std::vector<at::Tensor> ZeroGradients(const TracedBlock& block);

}  // namespace cotan::aot

#endif  // COTAN_AOT_BLOCKS_BLOCK_VALUES_H_
