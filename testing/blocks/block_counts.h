// SPDX-License-Identifier: Apache-2.0

// Counts blocks and their calls in a compiled artifact.
#ifndef COTAN_TESTING_BLOCKS_BLOCK_COUNTS_H_
#define COTAN_TESTING_BLOCKS_BLOCK_COUNTS_H_

#include <cstddef>
#include <map>
#include <string>

#include "aot/compiled_model.h"
#include "serialization/schema/program.pb.h"

namespace cotan::testing {

struct BlockCounts {
  int blocks = 0;                    // stored
  std::map<std::string, int> calls;  // by method that calls
  size_t program_bytes = 0;          // values and ops of methods and blocks
};

// Returns the artifact as it is stored, with its calls.
serialization::Artifact StoredArtifact(const aot::CompiledModel& model);
BlockCounts CountBlocks(const aot::CompiledModel& model);

// Returns the number of ops of a kind in a method or block.
int CountOps(const serialization::Method& method, serialization::Op::KindCase kind);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_BLOCKS_BLOCK_COUNTS_H_
