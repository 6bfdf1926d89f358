// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/amx_bf16_gemm.h"

#include <algorithm>
#include <cstdint>

#include "base/rounding.h"
#include "kernels/cpu/simd/amx_tiles.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {
namespace {

using amx::kBlock;
using amx::kStepElements;

constexpr int64_t kBlockSums = kBlock * kBlock;

// What stays in the first-level cache while panels of 32 columns pass: 8 steps of 32 rows, 16 KiB.
constexpr int64_t kStepsAtOnce = 8;
// What stays in the second-level cache while rows pass.
constexpr int64_t kMaxPanels = 8;
constexpr int64_t kMaxSteps = 64;  // of a panel, 128 KiB
constexpr int64_t kMaxRightElements = 256 << 10;

constexpr int64_t kMaxRows = 512;  // whose sums are kept if there are more steps
constexpr int64_t kMinRows = 128;  // of a thread that packs columns for itself
constexpr double kRate = 8;        // of AMX, relative to what ThreadsWorthwhile() expects

class AmxBf16Gemm final : public Kernel {
 public:
  AmxBf16Gemm(const MatmulGeometry& geometry, Addend addend, int threads)
      : g_(geometry),
        addend_(addend),
        threads_(ThreadsWorthwhile(threads, geometry.Flops() / kRate)),
        row_blocks_(CeilDiv(g_.m, kBlock)),
        panels_(CeilDiv(g_.n, kBlock)),
        steps_(CeilDiv(g_.k, amx::kDepth)),
        packs_left_(g_.a.column != 1 || g_.k % amx::kDepth != 0),
        parallel_items_(g_.BatchSize() >= threads_),
        config_(amx::ConfigOf(kBlock)),
        last_config_(amx::ConfigOf(g_.m - (row_blocks_ - 1) * kBlock)) {
    part_steps_ = std::min(steps_, kMaxSteps);
    const int64_t most = std::clamp<int64_t>(kMaxRightElements / (part_steps_ * kStepElements), 1, kMaxPanels);
    // Each thread gets columns of its own, or else rows of the same columns.
    const int64_t team = parallel_items_ ? 1 : threads_;
    part_panels_ = CeilDiv(panels_, std::max(CeilDiv(panels_, most), std::min(panels_, team)));
    column_parts_ = CeilDiv(panels_, part_panels_);
    int64_t row_parts = std::clamp<int64_t>(g_.m / kMinRows, 1, CeilDiv(team, column_parts_));
    if (part_steps_ < steps_) row_parts = std::max(row_parts, CeilDiv(g_.m, kMaxRows));
    part_blocks_ = CeilDiv(row_blocks_, row_parts);
    row_parts_ = CeilDiv(row_blocks_, part_blocks_);

    left_bytes_ = packs_left_ ? row_blocks_ * steps_ * kStepElements * 2 : 0;
    right_bytes_ = part_panels_ * part_steps_ * kStepElements * 2;
    panel_sums_ = steps_ > kStepsAtOnce ? kBlockSums : 0;
    block_sums_ = steps_ > part_steps_ ? part_panels_ * kBlockSums : 0;
    sums_bytes_ = std::max({part_blocks_ * block_sums_, part_panels_ * panel_sums_, kBlockSums}) * 4;
    const int64_t unit_bytes = right_bytes_ + sums_bytes_;
    scratch_bytes_ = static_cast<size_t>(parallel_items_ ? threads_ * (left_bytes_ + unit_bytes)
                                                         : left_bytes_ + threads_ * unit_bytes);
  }

  absl::Status Run(const KernelArgs& args) override {
    char* const scratch = static_cast<char*>(args.scratch);
    const int64_t items = g_.BatchSize();
    if (!parallel_items_) {
      for (int64_t item = 0; item < items; ++item) RunOnTeam(MatricesOf(args, item, scratch), scratch + left_bytes_);
      return absl::OkStatus();
    }
    const int64_t bytes = left_bytes_ + right_bytes_ + sums_bytes_;
    ParallelForWorker(threads_, items, CeilDiv(items, int64_t{threads_}), [&](int worker, int64_t begin, int64_t end) {
      char* const own = scratch + worker * bytes;
      amx::Registers tiles;
      for (int64_t item = begin; item < end; ++item) {
        const Matrices matrices = MatricesOf(args, item, own);
        if (packs_left_) PackLeft(matrices, 0, row_blocks_);
        RunUnits(matrices, 0, column_parts_ * row_parts_, own + left_bytes_, tiles);
      }
    });
    return absl::OkStatus();
  }

 private:
  // One product of the batch.
  struct Matrices {
    const uint16_t* a;
    const uint16_t* b;
    const uint16_t* bias;  // null: none
    uint16_t* c;
    uint16_t* left;  // packed rows: [row blocks, steps, 2, tile]
  };

  // A part of a product for one thread, whose columns are packed, and whose sums are kept between parts of k.
  struct Unit {
    int64_t first_block;
    int64_t first_panel;
    int64_t blocks;
    int64_t panels;
    uint16_t* right;  // [panels, steps, 2, tile]
    float* sums;
  };

  // A range of steps of 32 k.
  struct Steps {
    int64_t begin;
    int64_t end;
    int64_t size() const { return end - begin; }
  };

  Matrices MatricesOf(const KernelArgs& args, int64_t item, char* left) const {
    const BatchOffsets at = g_.OffsetsOf(item);
    return {.a = static_cast<const uint16_t*>(args.inputs[0]) + at.a,
            .b = static_cast<const uint16_t*>(args.inputs[1]) + at.b,
            .bias = addend_ == Addend::kBias ? static_cast<const uint16_t*>(args.inputs[2]) : nullptr,
            .c = static_cast<uint16_t*>(args.outputs[0]) + at.c,
            .left = reinterpret_cast<uint16_t*>(left)};
  }

  void RunOnTeam(const Matrices& matrices, char* scratch) const {
    if (packs_left_) {
      ParallelFor(threads_, row_blocks_, CeilDiv(row_blocks_, int64_t{threads_}),
                  [&](int64_t begin, int64_t end) { PackLeft(matrices, begin, end); });
    }
    const int64_t units = column_parts_ * row_parts_;
    ParallelForWorker(threads_, units, CeilDiv(units, int64_t{threads_}), [&](int worker, int64_t begin, int64_t end) {
      amx::Registers tiles;
      RunUnits(matrices, begin, end, scratch + worker * (right_bytes_ + sums_bytes_), tiles);
    });
  }

  void PackLeft(const Matrices& matrices, int64_t begin, int64_t end) const {
    for (int64_t block = begin; block < end; ++block) {
      const amx::Lines rows = {matrices.a + block * kBlock * g_.a.row, g_.a.row, g_.a.column};
      amx::PackLines(rows, g_.m - block * kBlock, g_.k, /*pairs_are_rows=*/false,
                     matrices.left + block * steps_ * kStepElements);
    }
  }

  void RunUnits(const Matrices& matrices, int64_t begin, int64_t end, char* scratch, amx::Registers& tiles) const {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t block = i % row_parts_ * part_blocks_;
      const int64_t panel = i / row_parts_ * part_panels_;
      const Unit unit = {.first_block = block,
                         .first_panel = panel,
                         .blocks = std::min(part_blocks_, row_blocks_ - block),
                         .panels = std::min(part_panels_, panels_ - panel),
                         .right = reinterpret_cast<uint16_t*>(scratch),
                         .sums = reinterpret_cast<float*>(scratch + right_bytes_)};
      for (int64_t step = 0; step < steps_; step += part_steps_) {
        RunUnit(matrices, unit, {step, std::min(step + part_steps_, steps_)}, tiles);
      }
    }
  }

  // Adds the products of some k, and stores the result after the last.
  void RunUnit(const Matrices& matrices, const Unit& unit, Steps steps, amx::Registers& tiles) const {
    PackRight(matrices, unit, steps);
    for (int64_t i = 0; i < unit.blocks; ++i) {
      const int64_t block = unit.first_block + i;
      tiles.Use(RowsOf(block) < kBlock ? last_config_ : config_);
      for (Steps now = {steps.begin, 0}; now.begin < steps.end; now.begin = now.end) {
        now.end = std::min(now.begin + kStepsAtOnce, steps.end);
        const uint16_t* right = unit.right + (now.begin - steps.begin) * kStepElements;
        for (int64_t j = 0; j < unit.panels; ++j, right += steps.size() * kStepElements) {
          float* const sums = unit.sums + i * block_sums_ + j * panel_sums_;
          Multiply(matrices, block, unit.first_panel + j, now, right, sums);
          if (now.end == steps_) Store(matrices, block, unit.first_panel + j, sums);
        }
      }
    }
  }

  void PackRight(const Matrices& matrices, const Unit& unit, Steps steps) const {
    const int64_t begin = steps.begin * amx::kDepth;
    const int64_t end = std::min(steps.end * amx::kDepth, g_.k);
    for (int64_t j = 0; j < unit.panels; ++j) {
      const int64_t column = (unit.first_panel + j) * kBlock;
      const amx::Lines columns = {matrices.b + column * g_.b.column + begin * g_.b.row, g_.b.column, g_.b.row};
      amx::PackLines(columns, g_.n - column, end - begin, /*pairs_are_rows=*/true,
                     unit.right + j * steps.size() * kStepElements);
    }
  }

  void Multiply(const Matrices& matrices, int64_t row_block, int64_t panel, Steps steps, const uint16_t* right,
                float* sums) const {
    const uint16_t* packed = matrices.left + (row_block * steps_ + steps.begin) * kStepElements;
    amx::Block block = amx::BlockOfPacked(packed, right, steps.size());
    if (!packs_left_) {
      block.a = matrices.a + row_block * kBlock * g_.a.row + steps.begin * amx::kDepth;
      block.a_row = g_.a.row * 2;
      block.a_lower = amx::kLines * g_.a.row;
      block.a_step = amx::kDepth;
    }
    block.continues = steps.begin > 0;
    block.sums = sums;
    amx::Multiply(block, RowsOf(row_block), g_.n - panel * kBlock);
  }

  void Store(const Matrices& matrices, int64_t row_block, int64_t panel, const float* sums) const {
    const int64_t column = panel * kBlock;
    amx::StoreBlock(sums, RowsOf(row_block), std::min(kBlock, g_.n - column),
                    matrices.bias == nullptr ? nullptr : matrices.bias + column, addend_ == Addend::kInOutput,
                    matrices.c + row_block * kBlock * g_.c.row + column, g_.c.row);
  }

  int64_t RowsOf(int64_t row_block) const { return std::min(kBlock, g_.m - row_block * kBlock); }

  const MatmulGeometry g_;
  const Addend addend_;
  const int threads_;
  // Of a product: blocks of 32 rows, panels of 32 columns, steps of 32 k.
  const int64_t row_blocks_;
  const int64_t panels_;
  const int64_t steps_;
  const bool packs_left_;
  const bool parallel_items_;  // products of the batch run in parallel, otherwise units of each
  const amx::Config config_;
  const amx::Config last_config_;  // of the last block of rows
  // Of a unit, and how many there are.
  int64_t part_blocks_ = 0;
  int64_t part_panels_ = 0;
  int64_t part_steps_ = 0;
  int64_t row_parts_ = 0;
  int64_t column_parts_ = 0;
  // From the sums of a block to those of the next block or panel: 0 if they are not kept.
  int64_t block_sums_ = 0;
  int64_t panel_sums_ = 0;
  // Of scratch memory: of a product, and of a thread.
  int64_t left_bytes_ = 0;
  int64_t right_bytes_ = 0;
  int64_t sums_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Kernel> MakeAmxBf16Gemm(const MatmulGeometry& geometry, Addend addend, int threads) {
  const bool is_fast = !geometry.batch.empty() || (geometry.m > 1 && geometry.k > 4);
  if (!is_fast || !amx::IsAvailable()) return nullptr;
  return std::make_unique<AmxBf16Gemm>(WithUnitStrides(geometry), addend, threads);
}

}  // namespace cotan::cpu
