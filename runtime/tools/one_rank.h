// SPDX-License-Identifier: Apache-2.0

// Runs programs that were compiled for data parallel training in one process.
#ifndef COTAN_RUNTIME_TOOLS_ONE_RANK_H_
#define COTAN_RUNTIME_TOOLS_ONE_RANK_H_

#include "runtime/distributed/single_rank.h"
#include "runtime/execution/program.h"
#include "runtime/session/session.h"

namespace cotan::tools {

// Returns the options, with `rank` as the communicator if the program has collectives. `rank` outlives the session.
SessionOptions WithOneRank(const Program& program, SessionOptions options, SingleRank& rank);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_ONE_RANK_H_
