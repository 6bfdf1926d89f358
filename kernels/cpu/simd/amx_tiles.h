// SPDX-License-Identifier: Apache-2.0

// Products of tiles of bf16 with AMX (Advanced Matrix Extensions), which Intel's processors have since Sapphire Rapids.
// See Intel's Software Developer's Manual, volume 1, chapter 18. Sums are made in f32, in the order of pairs of k, and
// subnormal numbers count as zeros. Other processors: IsAvailable() is false, and nothing else may be called.
#ifndef COTAN_KERNELS_CPU_SIMD_AMX_TILES_H_
#define COTAN_KERNELS_CPU_SIMD_AMX_TILES_H_

#include <array>
#include <cstdint>

namespace cotan::cpu::amx {

// A tile register has 16 rows of 64 bytes: of the left matrix, 16 rows of 32 elements; of the right matrix, 16 pairs of
// k of 16 columns; of the result, 16 x 16 sums.
inline constexpr int64_t kLines = 16;
inline constexpr int64_t kDepth = 32;
inline constexpr int64_t kTileElements = 512;

// A block of the result has 2 x 2 tiles, whose sums stay in registers beside two tiles of either matrix.
inline constexpr int64_t kBlock = 2 * kLines;
// Elements of 32 packed lines, for 32 k.
inline constexpr int64_t kStepElements = 2 * kTileElements;

// Returns true if the processor has AMX for bf16 and the operating system lets this process use its registers, which
// the first call asks for.
bool IsAvailable();

// How the registers are divided.
struct alignas(64) Config {
  uint8_t palette = 1;
  uint8_t start_row = 0;
  std::array<uint8_t, 14> reserved{};
  std::array<uint16_t, 16> row_bytes{};
  std::array<uint8_t, 16> rows{};
};

// Returns the division for blocks of 1 to 32 rows.
Config ConfigOf(int64_t block_rows);

// The tile registers of the calling thread, which are in use while this lives: the operating system saves those that
// are.
class Registers {
 public:
  Registers() = default;
  ~Registers();
  Registers(const Registers&) = delete;
  Registers& operator=(const Registers&) = delete;

  // Prepares them for `config`, which must outlive this. Their contents are lost, unless they are prepared already.
  void Use(const Config& config);

 private:
  const Config* config_ = nullptr;
};

// A block of the result and its operands.
struct Block {
  const uint16_t* a = nullptr;      // its rows
  int64_t a_row = 0;                // bytes from row to row of a tile
  int64_t a_lower = 0;              // elements from the first 16 rows to the others
  int64_t a_step = 0;               // elements from 32 k to the next
  const uint16_t* b = nullptr;      // packed columns, `kStepElements` for each step
  int64_t b_row = 64;               // bytes from pair to pair of k
  int64_t b_right = kTileElements;  // elements from the first 16 columns to the others
  int64_t steps = 0;                // of 32 k
  bool continues = false;           // from the sums, which are zeros otherwise
  float* sums = nullptr;            // 32 rows of 32
  int64_t sums_row = kBlock;        // elements from row to row
};

// Returns the block without `sums` whose rows PackLines() packed.
Block BlockOfPacked(const uint16_t* rows, const uint16_t* columns, int64_t steps);

// Adds the products of a block of `rows` rows, those of the configuration in use, and `columns` columns. The sums of
// other rows, or of the last 16 columns if there are none, are not accessed.
void Multiply(const Block& block, int64_t rows = kBlock, int64_t columns = kBlock);

// A matrix whose lines are the rows of a left matrix or the columns of a right one. One of the strides is 1.
struct Lines {
  const uint16_t* data = nullptr;
  int64_t line = 0;   // elements from line to line
  int64_t depth = 0;  // elements from k to the next
};

// Packs at most 32 lines as [steps, 2, tile], from k = 0 to `depths`, with zeros for the lines and k that are missing
// in a tile; a second tile without lines is not written. Rows of a tile are lines, those of a left matrix, or pairs of
// k, if `pairs_are_rows`, those of a right one.
void PackLines(const Lines& from, int64_t lines, int64_t depths, bool pairs_are_rows, uint16_t* to);

// Lines whose k are anywhere in memory: that of line i is at terms[k] + first + i.
struct ScatteredLines {
  const uint16_t* const* terms = nullptr;
  int64_t first = 0;
};

// Packs a step of at most 32 lines as rows of a left matrix, [2, tile], with zeros for the lines that are missing in a
// tile. `from` has 32 k. A second tile without lines is not written.
void PackRowsOf(const ScatteredLines& from, int64_t lines, uint16_t* to);

// Packs at most 32 columns of a right matrix, [pairs, 2, 16 pairs of elements], with zeros for the columns that are
// missing. Pairs begin at each even k in `even`, and at each odd k in `odd`, unless it is null, for which `from` has
// one k more.
void PackColumnsOf(const ScatteredLines& from, int64_t pairs, int64_t columns, uint16_t* even, uint16_t* odd);

// Rounds `rows` rows of `columns` sums of a block, [32, 32], each plus a row of `bias` unless it is null, plus what is
// in `c` if `adds`, to the nearest bf16, ties to even.
void StoreBlock(const float* sums, int64_t rows, int64_t columns, const uint16_t* bias, bool adds, uint16_t* c,
                int64_t c_row);

// Rounds rows of `columns` elements to the nearest bf16, ties to even, and writes zeros behind them up to `width`
// elements, a multiple of 32.
void RoundRows(const float* from, int64_t from_row, int64_t rows, int64_t columns, int64_t width, uint16_t* to,
               int64_t to_row);

// Rounds `rows` rows, at most 16, of 16 sums to the nearest bf16, ties to even, and stores the first `columns` columns
// as rows.
void RoundTransposed(const float* from, int64_t from_row, int64_t rows, int64_t columns, uint16_t* to, int64_t to_row);

// Rounds `count` sums, `stride` apart, to the nearest bf16, ties to even. None behind the last one is read.
void RoundStrided(const float* from, int64_t stride, int64_t count, uint16_t* to);

}  // namespace cotan::cpu::amx

#endif  // COTAN_KERNELS_CPU_SIMD_AMX_TILES_H_
