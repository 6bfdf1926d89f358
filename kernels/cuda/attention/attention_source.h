// SPDX-License-Identifier: Apache-2.0

// Tiles of attention kernels, and the constants that their text begins with.
#ifndef COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_SOURCE_H_
#define COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_SOURCE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cuda::attention {

// Shared memory that every GPU since sm_80 gives a block.
inline constexpr int64_t kSharedLimit = 99 * 1024;

// Sizes and attributes.
struct Geometry {
  int64_t batch = 0;
  int64_t heads = 0;
  int64_t queries = 0;
  int64_t keys = 0;
  int64_t size = 0;        // elements of a query or a key
  int64_t value_size = 0;  // elements of a value
  bool is_causal = false;
  double scale = 1;
  DType dtype = DType::kUndefined;

  // Unimplemented: the dtype is not a floating-point one, or there are more than 2^30 columns.
  static absl::StatusOr<Geometry> Create(const serialization::Attention& op, const TensorSpec& q, const TensorSpec& k,
                                         const TensorSpec& v);

  int64_t Heads() const { return batch * heads; }
  // Bytes of the type that sums have.
  int ComputeBytes() const { return dtype == DType::kFloat64 ? 8 : 4; }
  absl::string_view ElementType() const;
  absl::string_view ComputeType() const { return dtype == DType::kFloat64 ? "double" : "float"; }
};

// How tiles hold the columns of an operand (Columns in cotan/attention_tile.cuh).
struct Columns {
  int64_t total = 0;
  int chunks = 1;
  int chunk = 1;   // columns of a chunk
  int lanes = 1;   // threads of a row
  int vector = 1;  // consecutive columns of a lane
  int groups = 1;
  int stride = 1;  // of a tile's row, in elements

  Columns(int64_t total, int compute_bytes, int lanes);
  std::string Text() const;
};

// Elements from row to row of a tile of `columns` columns: an odd number of 16-byte vectors.
int TileStride(int columns, int compute_bytes);

struct Tile {
  int rows = 64;
  int columns = 64;
  int lanes = 16;       // threads of a row
  int thread_rows = 4;  // rows of a thread
  // Blocks that share a processor's 65,536 registers. Without a bound, ptxas chooses fewer registers and spills.
  int blocks_per_processor = 2;

  unsigned Threads() const { return static_cast<unsigned>(rows / thread_rows * lanes); }
  friend bool operator==(const Tile&, const Tile&) = default;
};

// Returns a tile for `rows` x `columns` scores of each head: one that is not much larger than the matrix, leaves enough
// blocks to fill a GPU, and whose shared_bytes(tile) are at most kSharedLimit.
Tile ChooseTile(const Geometry& geometry, int64_t rows, int64_t columns, bool has_bias,
                const std::function<int64_t(const Tile&)>& shared_bytes);

// An operand of a kernel: its name in the text (Query, ...), and geometry.
struct NamedOperand {
  absl::string_view name;
  const TensorSpec* spec;  // null: there is none
  // Columns of an output that a lane stores together; 0 for an input.
  int store_vector = 0;
};

// Blocks of a launch.
struct Blocks {
  int64_t count = 0;
  unsigned Grid() const;
};

// Returns the text of the type X that describes the kernel, with `constants` = lines of its own.
std::string TypeText(const Geometry& geometry, const std::vector<NamedOperand>& operands, const Tile& tile,
                     Blocks blocks, absl::string_view constants);

// Returns the text of a kernel "<entry>" that calls cotan::attention::<function><X>(`passed`) with `parameters`. If
// guarded, the kernel ends at once after an error.
KernelSource MakeSource(absl::string_view header, absl::string_view type_text, absl::string_view entry,
                        absl::string_view function, const Tile& tile, const std::vector<std::string>& parameters,
                        absl::string_view passed, bool guarded);

}  // namespace cotan::cuda::attention

#endif  // COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_SOURCE_H_
