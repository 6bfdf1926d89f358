// SPDX-License-Identifier: Apache-2.0

// Functions of tensors with blocks: compiled artifacts beside LibTorch eager. The test fails where they differ.
#ifndef COTAN_TESTING_BLOCKS_BLOCK_FUNCTIONS_H_
#define COTAN_TESTING_BLOCKS_BLOCK_FUNCTIONS_H_

#include <map>
#include <string>

#include "aot/compile.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {

using CallCounts = std::map<std::string, int>;

aot::CompiledModel Compiling(const aot::TensorFunction& function, const Tensors& inputs,
                             const aot::CompileOptions& options = {});
// Expects the results and gradients of the compiled function on `inputs` to be those of eager.
void ExpectEager(const aot::TensorFunction& function, const aot::CompiledModel& model, const Tensors& inputs);
// Expects the number of stored blocks and of calls in each method, and no block that could not be shared.
void ExpectBlocks(const aot::CompiledModel& model, int blocks, const CallCounts& calls);
// Compiles the function and checks both.
void ExpectEagerWithBlocks(const aot::TensorFunction& function, const Tensors& inputs, int blocks,
                           const CallCounts& calls);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_BLOCKS_BLOCK_FUNCTIONS_H_
