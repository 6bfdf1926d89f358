// SPDX-License-Identifier: Apache-2.0

// The blocks of one compilation, traced once each, and their values in the trace in progress.
#ifndef COTAN_AOT_BLOCKS_BLOCK_TABLE_H_
#define COTAN_AOT_BLOCKS_BLOCK_TABLE_H_

#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "aot/aotautograd/trace_options.h"
#include "aot/blocks/op_sequence.h"
#include "aot/blocks/traced_block.h"
#include "aot/capture/proxy_tensor.h"

namespace cotan::aot {

// Arguments of a call of a block: tensors of the trace in progress and the caller's claim about their use.
struct BlockArguments {
  std::vector<ModuleState> states = {};  // parameters, then buffers
  std::vector<at::Tensor> inputs = {};   // functional
  TensorFunction body = {};
  const torch::nn::Module* module = nullptr;  // of `body`, or null
  std::string key = {};                       // of BlockCall
  std::string signature = {};                 // types of states and inputs, and the modes of the thread
};

// Blocks are numbered in the order of their first calls. Not thread-safe.
class BlockTable {
 public:
  // `options`: those of the traces of blocks; name, backward, grad_enabled and autocast are those of the call.
  // With `computes_values` the real values of results are computed, which reference runs need; else they are zeros.
  BlockTable(TraceOptions options, bool computes_values) : options_(std::move(options)), computes_(computes_values) {}
  BlockTable(const BlockTable&) = delete;
  BlockTable& operator=(const BlockTable&) = delete;

  // Begins the trace of another method.
  void StartMethod();

  // Returns the number of the block that a call runs. Traces it if no block with its key or, without a key, with its
  // sequence of ops is known. The second run of a function takes the blocks that its first run found.
  // Unimplemented: the call has to be inlined. The reason is in refusals().
  absl::StatusOr<int> Find(const BlockArguments& arguments);

  const TracedBlock& block(int number) const { return *blocks_[static_cast<size_t>(number)]; }
  int num_blocks() const { return static_cast<int>(blocks_.size()); }
  // Returns the calls that were inlined, each once: "block 'layers.3': it has effects".
  const std::vector<std::string>& refusals() const { return refusals_; }
  void AddRefusal(const std::string& path, absl::string_view reason);
  // Inlines all calls, for this reason.
  void RefuseAll(std::string reason) { refusal_of_all_ = std::move(reason); }
  const std::string& refusal_of_all() const { return refusal_of_all_; }
  // Returns whether calls compute real values now: not in the first run of a function, which only finds its metadata.
  bool computes_values() const { return computes_ && frames_[0].second != nullptr; }

  // Real values of a call, from its forward until its backward or the next trace.
  using Values = std::vector<at::Tensor>;
  // Stores the values of a call and returns its number.
  int64_t AddValues(Values values);
  Values& ValuesOf(int64_t call) { return values_.at(call); }

 private:
  // The calls of one function, which is run twice.
  struct Frame {
    std::shared_ptr<TraceEpoch> first, second;  // of the two runs
    std::vector<int> blocks;                    // by call of the first run; -1: inlined
    std::vector<std::string> signatures;        // by call
    size_t next = 0;                            // call of the second run
  };

  // The ops of a traced block, and the block or why it cannot be shared.
  struct TracedOps {
    OpSequence ops;
    absl::StatusOr<int> block = absl::UnknownError("");
  };

  absl::StatusOr<int> FindWithKey(const BlockArguments& arguments);
  // Returns the block that calls the same ops, or traces it.
  absl::StatusOr<int> FindWithoutKey(const BlockArguments& arguments);
  // `ops` may be null; see TraceBlock().
  absl::StatusOr<int> Trace(const BlockArguments& arguments, OpSequence* ops);

  const TraceOptions options_;
  const bool computes_;
  std::vector<std::unique_ptr<TracedBlock>> blocks_;
  absl::flat_hash_map<std::string, absl::StatusOr<int>> by_key_;  // key and signature
  // By signature, those whose sequence of ops is complete.
  absl::flat_hash_map<std::string, std::vector<std::unique_ptr<TracedOps>>> by_signature_;
  absl::flat_hash_map<std::string, int> by_fingerprint_;  // signature and fingerprint
  std::vector<Frame> frames_ = std::vector<Frame>(1);     // a frame for each block whose trace is in progress
  std::vector<std::string> refusals_;
  std::string refusal_of_all_;  // empty: calls may be shared
  absl::flat_hash_map<int64_t, Values> values_;
  int64_t next_call_ = 0;
};

// Makes `table`, unless null, the one that RunBlock() uses on this thread within its scope.
class BlockScope {
 public:
  explicit BlockScope(BlockTable* table);
  ~BlockScope();
  BlockScope(const BlockScope&) = delete;
  BlockScope& operator=(const BlockScope&) = delete;

  // Returns the table of the innermost scope; null if there is none.
  static BlockTable* Current();

 private:
  BlockTable* previous_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_BLOCKS_BLOCK_TABLE_H_
