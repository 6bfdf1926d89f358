// SPDX-License-Identifier: Apache-2.0

// Exchanges of host memory with the other ranks, which engines make for the collectives of a plan.
#ifndef COTAN_RUNTIME_DISTRIBUTED_EXCHANGE_H_
#define COTAN_RUNTIME_DISTRIBUTED_EXCHANGE_H_

#include <cstddef>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"
#include "base/dtype.h"

namespace cotan {

// A bucket is W * shard_elements elements: W shards, one per rank.
struct ExchangeSpec {
  enum class Kind : uint8_t {
    kAllReduce,      // input: a bucket; output: its sum over all ranks
    kReduceScatter,  // input: a bucket; output: the rank's shard of its sum over all ranks
    kAllGather,      // input: the rank's shard; output: the bucket
  };
  Kind kind = Kind::kAllReduce;
  DType dtype = DType::kFloat32;  // f32 or f64
  int64_t shard_elements = 0;
  bool mean = false;  // sums are divided by the number of ranks
  // Identifies the op: equal on all ranks, and most likely different for ops of different plans. An engine reports a
  // rank that runs another op in place of mixing the data.
  uint32_t op = 0;

  size_t shard_bytes() const { return static_cast<size_t>(shard_elements) * ByteSize(dtype); }
};

// An exchange with buffers that every run uses. Not thread-safe. The engine outlives it.
class Exchange {
 public:
  virtual ~Exchange() = default;

  // Return the memory of the input, which is written before Start(), and of the output, which is valid from the end of
  // Wait() to the next Start(). They may be the same memory. The input is zero at first; a run may change it.
  virtual char* input() = 0;
  virtual const char* output() const = 0;

  // Starts to exchange. Does not wait for other ranks and allocates nothing.
  // Unavailable: a rank has ended, or did not answer before.
  // FailedPrecondition: the exchange has been started and not waited for, since a call failed in between.
  virtual absl::Status Start() = 0;
  // Waits until the output is complete.
  // Unavailable: a rank has ended or does not answer; the message names it. All later calls return this error, too.
  virtual absl::Status Wait() = 0;
};

// Writes to `sum` the sum of `parts`, one per rank, in the order of the ranks; divided by their number if `mean`. Each
// has `elements` elements of f32 or f64. `sum` may be one of the parts.
void SumParts(DType dtype, absl::Span<const char* const> parts, int64_t elements, bool mean, char* sum);

}  // namespace cotan

#endif  // COTAN_RUNTIME_DISTRIBUTED_EXCHANGE_H_
