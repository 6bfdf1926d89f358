// SPDX-License-Identifier: Apache-2.0

// Lowers each block of a compilation once, and its calls to cotan.call nodes. No LibTorch at run time of these stages.
#ifndef COTAN_AOT_BLOCKS_LOWER_CALLS_H_
#define COTAN_AOT_BLOCKS_LOWER_CALLS_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aot/blocks/block_table.h"
#include "aot/ir/call_node.h"
#include "aot/ir/graph.h"
#include "aot/lowering/lower.h"
#include "aot/partitioner/partition.h"
#include "serialization/schema/program.pb.h"

namespace cotan::aot {

// The forward of a block, and its backward if there is one, as blocks of the artifact.
struct LoweredBlock {
  // A value in terms of a call.
  struct Ref {
    enum class Kind : uint8_t { kOperand, kTangent, kForwardOutput, kBackwardOutput };
    Kind kind = Kind::kOperand;
    size_t index = 0;
  };
  // A block of the artifact: `outputs` are the types of what its calls return.
  struct Part {
    uint32_t block = 0;
    std::vector<Ref> inputs = {};
    std::vector<TensorType> outputs = {};  // empty: there is nothing to call
  };
  Part forward, backward;
  std::vector<Ref> results;    // by result of the block
  std::vector<Ref> gradients;  // by gradient
};

// Lowers the blocks of one table on demand. The callback adds a block to the artifact and returns its index. Not
// thread-safe.
class BlockLowerer {
 public:
  using AddBlock = std::function<uint32_t(serialization::Method block)>;
  // Packs the values that a block saves for itself (PackedSelection::is_block).
  using PackBlock = std::function<absl::Status(Partitioned& block)>;

  // `table` outlives the object.
  BlockLowerer(const BlockTable& table, PartitionOptions options, const LayoutPreferences& layouts, AddBlock add,
               PackBlock pack)
      : table_(table), options_(std::move(options)), layouts_(layouts), add_(std::move(add)), pack_(std::move(pack)) {}

  // Returns the block, lowered, with the values that a backward needs if `has_backward`. The reference is valid as long
  // as this object. Errors of CleanUp(), LowerToPrims(), Partition(), the callback that packs, Optimize() and Emit().
  absl::StatusOr<const LoweredBlock*> Lowered(int block, bool has_backward);

  // Returns whether an output of a cotan.call is a value that the block's backward reads and not a result of the block.
  bool IsSavedByBlock(const Node& call, size_t output) const;

  // Optimizes a lowered graph and adds it to the artifact. Its inputs and outputs become those of the block, whatever
  // their kinds. Errors of Optimize() and Emit().
  absl::StatusOr<AddedBlock> Add(Graph graph, const std::string& name);

  // Returns an object that lowers the calls in a graph, for LowerToPrims().
  std::unique_ptr<CallLowering> ForGraph();

 private:
  // Adds a graph that is optimized.
  absl::StatusOr<AddedBlock> AddOptimized(Graph graph, const std::string& name);
  absl::StatusOr<LoweredBlock> LowerForward(int block);
  absl::StatusOr<LoweredBlock> LowerPair(int block);

  const BlockTable& table_;
  const PartitionOptions options_;
  const LayoutPreferences layouts_;
  const AddBlock add_;
  const PackBlock pack_;
  // By block of the artifact: the number of outputs that are results. Further ones are saved values.
  absl::flat_hash_map<uint32_t, size_t> num_returned_;
  absl::flat_hash_map<std::pair<int, bool>, std::unique_ptr<LoweredBlock>> lowered_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_BLOCKS_LOWER_CALLS_H_
