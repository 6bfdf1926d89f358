// SPDX-License-Identifier: Apache-2.0

// Runs //testing/distributed:worker on several ranks and reads what it wrote.
#ifndef COTAN_TESTING_DISTRIBUTED_RANKS_H_
#define COTAN_TESTING_DISTRIBUTED_RANKS_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace cotan::testing {

// All batches that the ranks train on. A step's batch is the parts of the ranks, one after another.
struct RankData {
  int64_t batch = 0;           // rows of one rank's part
  int64_t steps = 0;           // batches
  std::vector<int64_t> sizes;  // of one input
  std::vector<float> inputs;
  std::vector<int64_t> labels;
};

struct RankResult {
  std::vector<float> losses;  // of the calls that have one
  std::string error;          // the status of a failed call; empty: none
  bool is_done = false;       // neither failed nor killed
};

// Transport of the messages between ranks.
enum class Transport { kSharedMemory, kLoopbackTcp };

// Runs the worker on `ranks` ranks of this machine. `folder` is a new folder for its files; `program` the path of the
// compiled model (%r is the rank); `flags` are the worker's other ones. Returns a result for each rank.
std::vector<RankResult> RunRanks(int ranks, const std::string& folder, const std::string& program, const RankData& data,
                                 const std::vector<std::string>& flags = {},
                                 Transport transport = Transport::kSharedMemory);

// Returns the bytes of a file; empty if there is none.
std::string BytesOf(const std::string& path);

// Returns the tensors of a checkpoint, which are f32, by name; others are omitted.
std::map<std::string, std::vector<float>> StatesOf(const std::string& path);

// Returns a new folder of the test.
std::string NewFolder();

}  // namespace cotan::testing

#endif  // COTAN_TESTING_DISTRIBUTED_RANKS_H_
