// SPDX-License-Identifier: Apache-2.0

// Reads the body of a PTX function.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_PTX_BODY_PARSER_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_PTX_BODY_PARSER_H_

#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "kernels/cuda/sim/ptx/ptx_module.h"
#include "kernels/cuda/sim/ptx/token_cursor.h"

namespace cotan::cuda::ptx {

// Maps a name to its meaning where it is used.
using SymbolTable = absl::flat_hash_map<std::string, Operand>;

// Adds a register to `module` and returns its index.
int AddRegister(Module& module, std::string name, ScalarType type);

// Reads from the `{` of the body to its `}` and fills in function's instructions, labels and sizes.
// `symbols` are those of the module and the function's parameters. Fails with InvalidArgument, naming
// the line, for text that is not PTX, and with Unimplemented for what the interpreter cannot hold.
absl::Status ParseBody(TokenCursor& cursor, const SymbolTable& symbols, Module& module, Function& function);

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_PTX_BODY_PARSER_H_
