// SPDX-License-Identifier: Apache-2.0

// Tiles of attention kernels, and the constants that their text begins with.
#ifndef COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_SOURCE_H_
#define COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_SOURCE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/api/kernel.h"
#include "kernels/cuda/launch/kernel_plan.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cuda::attention {

inline constexpr int kLanes = 16;        // threads per row of a tile, as in cotan/attention_tile.cuh
inline constexpr int kThreadRows = 4;    // rows of a tile per thread
inline constexpr int kDotThreads = 256;  // threads of a block of the kernel of the dots

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
  int vector = 1;  // consecutive columns of a lane
  int groups = 1;
  int stride = 1;  // of a tile's row, in elements

  Columns(int64_t total, int compute_bytes);
  std::string Text() const;
};

// Elements from row to row of a tile of `columns` columns: an odd number of 16-byte vectors.
int TileStride(int columns, int compute_bytes);

struct Tile {
  int rows = 64;
  int columns = 64;
  unsigned Threads() const { return static_cast<unsigned>(rows / kThreadRows * kLanes); }
};

// Returns a tile for `rows` x `columns` scores of each of `parts` heads or chunks of heads: one that is not much larger
// than the matrix, leaves enough blocks to fill a GPU, and whose shared_bytes(tile) are at most kSharedLimit.
template <typename SharedBytes>
Tile ChooseTile(int64_t rows, int64_t columns, int64_t parts, const SharedBytes& shared_bytes);

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
std::string TypeText(const Geometry& geometry, const std::vector<NamedOperand>& operands, Blocks blocks,
                     absl::string_view constants);

// Returns the text of a kernel "<entry>" that calls cotan::attention::<function><X>(`passed`) with `parameters`. If
// guarded, the kernel ends at once after an error.
KernelSource MakeSource(absl::string_view header, absl::string_view type_text, absl::string_view entry,
                        absl::string_view function, unsigned threads, const std::vector<std::string>& parameters,
                        absl::string_view passed, bool guarded);

template <typename SharedBytes>
Tile ChooseTile(int64_t rows, int64_t columns, int64_t parts, const SharedBytes& shared_bytes) {
  constexpr int64_t kBlocksToFill = 128;
  const auto fit = [](int64_t size) { return size <= 16 ? 16 : size <= 32 ? 32 : 64; };
  Tile tile{fit(rows), fit(columns)};
  while (shared_bytes(tile) > kSharedLimit && tile.columns + tile.rows > 32) {
    (tile.columns > 32 || tile.rows == 16 ? tile.columns : tile.rows) /= 2;
  }
  if (tile.rows == 64 && (rows + 63) / 64 * parts < kBlocksToFill) tile.rows = 32;
  return tile;
}

}  // namespace cotan::cuda::attention

#endif  // COTAN_KERNELS_CUDA_ATTENTION_ATTENTION_SOURCE_H_
