// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/matmul_update.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "kernels/cpu/matmul/update_chain.h"
#include "kernels/cpu/threading/parallel.h"

#if defined(__x86_64__) && defined(__GNUC__)
#include <immintrin.h>
#define COTAN_HAS_UPDATE_TILES 1
#define COTAN_TILE_TARGET __attribute__((target("avx512f")))
#endif

namespace cotan::cpu {

#ifdef COTAN_HAS_UPDATE_TILES
namespace {

constexpr int kPanelRows = 8;
constexpr int kTileVectors = 3;
constexpr int64_t kVector = 16;  // floats
// With fewer terms, a tile's product takes less time than memory to answer: later tiles are prefetched in its place.
constexpr int64_t kShortDepth = 64;
constexpr int64_t kTilesAhead = 4;

// A step of the chain with its pointers at a tile.
struct TileStep {
  float product = 1;
  float operand = 1;
  const float* input = nullptr;
  int64_t input_row = 0;
  float* output = nullptr;  // null: not stored
  int64_t output_row = 0;
};

// A tile of the result: some rows and vectors of columns, the last vector masked.
struct Tile {
  const float* a = nullptr;  // packed: [depth, rows]
  const float* b = nullptr;
  int64_t b_row = 0;
  int64_t depth = 0;
  int64_t ahead = 0;  // floats from the operands of the chain to those that are prefetched
  uint16_t mask = 0xffff;
  std::array<TileStep, kMaxChainSteps> steps;
};

template <int kRows, int kVectors, int kSteps>
COTAN_TILE_TARGET void MakeTile(const Tile& tile) {
  __m512 sum[kRows][kVectors];
  const auto mask_of = [&](int v) { return static_cast<__mmask16>(v == kVectors - 1 ? tile.mask : 0xffff); };
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_setzero_ps();
  }
  const float* a = tile.a;
  const float* b = tile.b;
  int64_t k = 0;
  // The operands of the chain, or of a later tile's, are not in cache: they are prefetched a row at a time during the
  // product.
#pragma GCC unroll 1
  for (int row = 0; row < kRows; ++row) {
    for (int s = 0; s < kSteps; ++s) {
      const float* input =
          tile.steps[static_cast<size_t>(s)].input + row * tile.steps[static_cast<size_t>(s)].input_row;
      for (int v = 0; v < kVectors; ++v) __builtin_prefetch(input + tile.ahead + v * kVector, 1);
    }
    const int64_t end = tile.depth * (row + 1) / kRows;
#pragma GCC unroll 1
    for (; k < end; ++k, a += kRows, b += tile.b_row) {
      __m512 right[kVectors];
#pragma GCC unroll 3
      for (int v = 0; v < kVectors; ++v) right[v] = _mm512_maskz_loadu_ps(mask_of(v), b + v * kVector);
#pragma GCC unroll 8
      for (int i = 0; i < kRows; ++i) {
        const __m512 left = _mm512_set1_ps(a[i]);
#pragma GCC unroll 3
        for (int v = 0; v < kVectors; ++v) sum[i][v] = _mm512_fmadd_ps(left, right[v], sum[i][v]);
      }
    }
  }
#pragma GCC unroll 8
  for (int i = 0; i < kRows; ++i) {
#pragma GCC unroll 3
    for (int v = 0; v < kVectors; ++v) {
      // All loads precede the first store: an output may share the memory of any input.
      __m512 inputs[kSteps];
#pragma GCC unroll 3
      for (int s = 0; s < kSteps; ++s) {
        const TileStep& step = tile.steps[static_cast<size_t>(s)];
        inputs[s] = _mm512_maskz_loadu_ps(mask_of(v), step.input + i * step.input_row + v * kVector);
      }
      __m512 value = sum[i][v];
#pragma GCC unroll 3
      for (int s = 0; s < kSteps; ++s) {
        const TileStep& step = tile.steps[static_cast<size_t>(s)];
        const __m512 operand = _mm512_mul_ps(_mm512_set1_ps(step.operand), inputs[s]);
        value = _mm512_fmadd_ps(_mm512_set1_ps(step.product), value, operand);
        if (step.output != nullptr) {
          _mm512_mask_storeu_ps(step.output + i * step.output_row + v * kVector, mask_of(v), value);
        }
      }
    }
  }
}

using TileFn = void (*)(const Tile& tile);

template <int kRows, int kVectors>
TileFn TileOfSteps(size_t steps) {
  if (steps == 1) return MakeTile<kRows, kVectors, 1>;
  return steps == 2 ? MakeTile<kRows, kVectors, 2> : MakeTile<kRows, kVectors, 3>;
}

template <int kRows>
std::array<TileFn, kTileVectors> TilesOfRows(size_t steps) {
  return {TileOfSteps<kRows, 1>(steps), TileOfSteps<kRows, 2>(steps), TileOfSteps<kRows, 3>(steps)};
}

bool HasDenseRows(const TensorSpec& spec) {
  return spec.dtype == DType::kFloat32 && spec.layout.rank() == 2 &&
         (spec.layout.strides[1] == 1 || spec.layout.sizes[1] <= 1);
}

class UpdateKernel final : public Kernel {
 public:
  UpdateKernel(const KernelRequest& request, std::vector<ChainStep> chain)
      : chain_(std::move(chain)),
        wide_tiles_(TilesOfRows<kPanelRows>(chain_.size())),
        row_tiles_(TilesOfRows<1>(chain_.size())) {
    const StridedLayout& a = request.inputs[0].layout;
    const StridedLayout& b = request.inputs[1].layout;
    rows_ = a.sizes[0];
    depth_ = a.sizes[1];
    columns_ = b.sizes[1];
    a_row_ = a.strides[0];
    a_column_ = a.strides[1];
    tile_.b_row = b.strides[0];
    tile_.depth = depth_;
    tile_.ahead = depth_ < kShortDepth ? kTilesAhead * kTileVectors * kVector : 0;
    for (size_t s = 0; s < chain_.size(); ++s) {
      tile_.steps[s].input_row = request.inputs[OpInput(chain_[s].input)].layout.strides[0];
      if (chain_[s].output < 0) continue;
      tile_.steps[s].output_row = request.outputs[static_cast<size_t>(chain_[s].output)].layout.strides[0];
    }
    const double flops = 2.0 * static_cast<double>(rows_) * static_cast<double>(columns_) * static_cast<double>(depth_);
    threads_ = ThreadsWorthwhile(request.threads, flops);
    panel_bytes_ = (static_cast<size_t>(depth_) * kPanelRows * sizeof(float) + 63) / 64 * 64;
    scratch_bytes_ = panel_bytes_ * static_cast<size_t>(threads_);
  }

  absl::Status Run(const KernelArgs& args) override {
    Tile tile = tile_;
    tile.b = static_cast<const float*>(args.inputs[1]);
    for (size_t s = 0; s < chain_.size(); ++s) {
      tile.steps[s].product = Evaluate(chain_[s].product, args);
      tile.steps[s].operand = Evaluate(chain_[s].operand, args);
      tile.steps[s].input = static_cast<const float*>(args.inputs[OpInput(chain_[s].input)]);
      if (chain_[s].output >= 0) tile.steps[s].output = static_cast<float*>(args.outputs[chain_[s].output]);
    }
    const int64_t panels = (rows_ + kPanelRows - 1) / kPanelRows;
    const int64_t grain = std::max<int64_t>((panels + threads_ - 1) / threads_, 1);
    ParallelForWorker(threads_, panels, grain, [&](int worker, int64_t begin, int64_t end) {
      auto* const packed =
          reinterpret_cast<float*>(static_cast<char*>(args.scratch) + panel_bytes_ * static_cast<size_t>(worker));
      const auto* const a = static_cast<const float*>(args.inputs[0]);
      for (int64_t panel = begin; panel < end; ++panel) RunPanel(a, tile, panel * kPanelRows, packed);
    });
    return absl::OkStatus();
  }

 private:
  // Returns the op's input for an input of the expression, whose input 0 is the product of the op's inputs 0
  // and 1.
  static size_t OpInput(int expr_input) { return static_cast<size_t>(expr_input) + 1; }

  static float Evaluate(const ChainFactor& factor, const KernelArgs& args) {
    if (factor.input < 0) return factor.constant;
    return factor.constant * *static_cast<const float*>(args.inputs[OpInput(factor.input)]);
  }

  void RunPanel(const float* a, const Tile& whole, int64_t row, float* packed) const {
    if (row + kPanelRows <= rows_) return RunRows<kPanelRows>(a, whole, row, packed, wide_tiles_);
    for (; row < rows_; ++row) RunRows<1>(a, whole, row, packed, row_tiles_);
  }

  template <int kRows>
  void RunRows(const float* a, const Tile& whole, int64_t row, float* packed,
               const std::array<TileFn, kTileVectors>& tiles) const {
    Tile tile = whole;
    a += row * a_row_;
    for (int64_t k = 0; k < depth_; ++k) {
      for (int64_t i = 0; i < kRows; ++i) packed[k * kRows + i] = a[k * a_column_ + i * a_row_];
    }
    tile.a = packed;
    for (size_t s = 0; s < chain_.size(); ++s) {
      tile.steps[s].input += row * tile.steps[s].input_row;
      if (tile.steps[s].output != nullptr) tile.steps[s].output += row * tile.steps[s].output_row;
    }
    for (int64_t column = 0; column < columns_;) {
      const int64_t count = std::min(kTileVectors * kVector, columns_ - column);
      const int64_t vectors = (count + kVector - 1) / kVector;
      tile.mask = static_cast<uint16_t>(0xffff >> (vectors * kVector - count));
      tiles[static_cast<size_t>(vectors) - 1](tile);
      column += count;
      tile.b += count;
      for (size_t s = 0; s < chain_.size(); ++s) {
        tile.steps[s].input += count;
        if (tile.steps[s].output != nullptr) tile.steps[s].output += count;
      }
    }
  }

  const std::vector<ChainStep> chain_;
  const std::array<TileFn, kTileVectors> wide_tiles_;  // by number of vectors - 1
  const std::array<TileFn, kTileVectors> row_tiles_;
  Tile tile_;  // the fields that do not change between runs
  int64_t rows_ = 0;
  int64_t columns_ = 0;
  int64_t depth_ = 0;
  int64_t a_row_ = 0;
  int64_t a_column_ = 0;
  int threads_ = 1;
  size_t panel_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> MakeMatmulUpdate(const KernelRequest& request, const ExprProgram& epilogue) {
  const bool are_matrices = request.inputs[0].dtype == DType::kFloat32 && request.inputs[0].layout.rank() == 2 &&
                            HasDenseRows(request.inputs[1]);
  if (!are_matrices || !__builtin_cpu_supports("avx512f")) return nullptr;
  std::vector<ChainStep> chain = FindUpdateChain(epilogue, request.inputs.subspan(1));
  if (chain.empty()) return nullptr;
  for (const ChainStep& step : chain) {
    if (!HasDenseRows(request.inputs[static_cast<size_t>(step.input) + 1])) return nullptr;
    if (step.output >= 0 && !HasDenseRows(request.outputs[static_cast<size_t>(step.output)])) return nullptr;
  }
  return std::make_unique<UpdateKernel>(request, std::move(chain));
}

#else

std::unique_ptr<Kernel> MakeMatmulUpdate(const KernelRequest& /*request*/, const ExprProgram& /*epilogue*/) {
  return nullptr;
}

#endif

}  // namespace cotan::cpu
