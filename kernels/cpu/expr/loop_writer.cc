// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/loop_writer.h"

#include <algorithm>
#include <limits>
#include <vector>

#include "kernels/cpu/expr/loop_body.h"

namespace cotan::cpu::expr {
namespace {

using Xbyak::Address;
using Xbyak::Reg64;
using Zmm = VectorCode::Zmm;

// Accumulators of a reduction of rows.
constexpr int64_t kRowAccumulators = 4;
// Vectors of a row for which there is no loop.
constexpr int64_t kMaxUnrolled = 16;
// Accumulators of all reductions of columns.
constexpr int64_t kMaxAccumulators = 16;

// How a loop that reduces columns goes over a tile: over rows of `width` elements, each several rows of the tile if
// these are short, as ReduceColsOf() of tile_reduce.h does; first the first `block` vectors of all rows, then the next.
struct ColumnShape {
  int64_t block = 1;
  int64_t width = 0;
  int64_t stacked = 1;  // rows of the tile in one row
  bool has_blocks() const { return block * kCodeLanes != width; }
};

// Returns the greatest divisor of n that is at most `most`.
int64_t GreatestDivisor(int64_t n, int64_t most) {
  int64_t divisor = std::max<int64_t>(std::min(n, most), 1);
  while (n % divisor != 0) --divisor;
  return divisor;
}

ColumnShape ColumnShapeOf(const TileLoop& loop) {
  ColumnShape shape;
  if (loop.reductions.empty() || loop.reduces_rows) return shape;
  shape.stacked = StackedRows(loop.rows, loop.cols);
  shape.width = shape.stacked * loop.cols;
  shape.block =
      GreatestDivisor(shape.width / kCodeLanes, kMaxAccumulators / static_cast<int64_t>(loop.reductions.size()));
  return shape;
}

// Writes the function of one loop: slots in rdi, registers in rsi, totals in rdx.
class LoopWriter {
 public:
  LoopWriter(VectorCode& code, const TileLoop& loop, int64_t interleaved, absl::Span<const int64_t> register_offsets)
      : code_(code),
        loop_(loop),
        shape_(ColumnShapeOf(loop)),
        register_offsets_(register_offsets),
        body_(code, loop, interleaved, register_offsets) {}

  bool Write() {
    code_.ResetRegisters();
    if (shape_.stacked > 1 && shape_.has_blocks()) return false;
    if (!body_.AssignPointers(FreeRegisters())) return false;
    const std::vector<Reg64> saved = SavedRegisters();
    for (const Reg64& r : saved) code_.push(r);
    if (!body_.LoadInvariants()) return false;
    if (GoesByRows()) {
      WriteRows();
    } else if (loop_.reductions.empty()) {
      WriteElements();
    } else {
      WriteColumns();
    }
    code_.vzeroupper();
    for (auto r = saved.rbegin(); r != saved.rend(); ++r) code_.pop(*r);
    code_.ret();
    return !code_.Failed();
  }

 private:
  bool ReducesColumns() const { return !loop_.reductions.empty() && !loop_.reduces_rows; }
  bool ReducesRows() const { return !loop_.reductions.empty() && loop_.reduces_rows; }
  bool GoesByRows() const {
    return ReducesRows() ||
           std::any_of(loop_.ops.begin(), loop_.ops.end(), [](const LoopOp& op) { return op.fn == LoopFn::kRowValue; });
  }
  // Returns true if a row has so many vectors that there is a loop for them.
  bool HasRowLoop() const { return loop_.cols / kCodeLanes > kMaxUnrolled; }
  bool UsesR14() const { return ReducesColumns() || ReducesRows(); }
  bool UsesR15() const { return ReducesColumns() || (GoesByRows() && HasRowLoop()); }

  // Returns the registers that addresses may have.
  std::vector<Reg64> FreeRegisters() const {
    std::vector<Reg64> free = {code_.rcx, code_.r8,  code_.r9,  code_.r10, code_.r11,
                               code_.rbx, code_.rbp, code_.r12, code_.r13};
    if (!ReducesColumns()) free.push_back(code_.rdx);
    if (!UsesR14()) free.push_back(code_.r14);
    if (!UsesR15()) free.push_back(code_.r15);
    return free;
  }

  // Returns the registers that are used and belong to the caller.
  std::vector<Reg64> SavedRegisters() const {
    std::vector<Reg64> saved;
    if (UsesR14()) saved.push_back(code_.r14);
    if (UsesR15()) saved.push_back(code_.r15);
    for (const Reg64& r : body_.pointers()) {
      if (r == code_.rbx || r == code_.rbp || r.getIdx() >= code_.r12.getIdx()) saved.push_back(r);
    }
    return saved;
  }

  // --- Loops; rax is the element that an iteration begins with ---

  void WriteElements() {
    const int64_t count = loop_.rows * loop_.cols;
    const int64_t whole = count / kCodeLanes * kCodeLanes;
    if (whole < count) SetMask((1u << (count - whole)) - 1);
    code_.xor_(code_.eax, code_.eax);
    if (whole > 0) {
      const int64_t vectors = GreatestDivisor(whole / kCodeLanes, kMaxInterleaved);
      Xbyak::Label begin;
      code_.L(begin);
      body_.Write(0, vectors);
      code_.add(code_.rax, Imm(vectors * kCodeLanes));
      code_.cmp(code_.rax, Imm(whole));
      code_.jb(begin, Xbyak::CodeGenerator::T_NEAR);
    }
    if (whole < count) body_.WriteMasked();
  }

  // Sets k1; replaces rax.
  void SetMask(uint32_t mask) {
    code_.mov(code_.eax, mask);
    code_.kmovw(code_.k1, code_.eax);
  }

  static uint32_t Imm(int64_t value) { return static_cast<uint32_t>(value); }

  // --- Rows and reductions ---

  // Takes `count` accumulators for each reduction.
  void TakeAccumulators(int64_t count) {
    for (size_t r = 0; r < loop_.reductions.size(); ++r) {
      accumulators_.emplace_back();
      for (int64_t k = 0; k < count; ++k) accumulators_[r].push_back(code_.TakeVector());
    }
    body_.SetAccumulators(accumulators_);
  }

  void ClearAccumulators() {
    for (size_t r = 0; r < loop_.reductions.size(); ++r) {
      for (const Zmm& a : accumulators_[r]) {
        if (loop_.reductions[r].is_maximum) {
          code_.Splat(a, -std::numeric_limits<float>::infinity());
        } else {
          code_.vpxord(a, a, a);
        }
      }
    }
  }

  // The order is that of ReduceToVector() in tile_reduce.h: four partial results, which the last vectors of a row do
  // not take part in. The last elements of a row, if they do not fill a vector, are the last of one that begins before
  // them. r14 is the row, as an offset among the results.
  void WriteRows() {
    const int64_t vectors = loop_.cols / kCodeLanes;
    const int64_t in_groups = vectors / kRowAccumulators * kRowAccumulators;
    const int64_t tail = loop_.cols % kCodeLanes;
    if (tail > 0) SetMask(0xffffu & ~0u << (kCodeLanes - tail));
    TakeAccumulators(in_groups > 0 ? kRowAccumulators : 1);
    Xbyak::Label begin;
    code_.xor_(code_.eax, code_.eax);
    if (ReducesRows()) code_.xor_(code_.r14d, code_.r14d);
    code_.L(begin);
    body_.LoadRowValues();
    ClearAccumulators();
    const int64_t done = WriteGroups(in_groups);
    Accumulators first;
    for (const std::vector<Zmm>& totals : accumulators_) first.push_back({totals[0]});
    body_.SetAccumulators(first);
    body_.Write(in_groups - done, vectors - in_groups);
    const int64_t left = loop_.cols - done * kCodeLanes;
    if (tail > 0) body_.WriteTail(left - kCodeLanes);
    body_.SetAccumulators(accumulators_);
    if (left > 0) code_.add(code_.rax, Imm(left));
    for (size_t r = 0; r < loop_.reductions.size(); ++r) {
      const auto offset = static_cast<int>(register_offsets_[loop_.reductions[r].slot]);
      code_.vmovups(code_.zword[code_.rsi + code_.r14 + offset], accumulators_[r][0]);
    }
    if (ReducesRows()) code_.add(code_.r14, Imm(kCodeLanes * 4));
    code_.cmp(code_.rax, Imm(loop_.rows * loop_.cols));
    code_.jb(begin, Xbyak::CodeGenerator::T_NEAR);
  }

  // Writes the vectors of a row that are in groups, and reduces the accumulators to the first of each reduction.
  // Returns by how many vectors rax moves on.
  int64_t WriteGroups(int64_t vectors) {
    if (vectors == 0) return 0;
    if (HasRowLoop()) {
      Xbyak::Label group;
      code_.lea(code_.r15, code_.ptr[code_.rax + static_cast<int>(vectors * kCodeLanes)]);
      code_.L(group);
      body_.Write(0, kRowAccumulators);
      code_.add(code_.rax, Imm(kRowAccumulators * kCodeLanes));
      code_.cmp(code_.rax, code_.r15);
      code_.jb(group, Xbyak::CodeGenerator::T_NEAR);
    } else {
      for (int64_t k = 0; k < vectors; k += kRowAccumulators) body_.Write(k, kRowAccumulators);
    }
    for (size_t r = 0; r < loop_.reductions.size(); ++r) {
      body_.Accumulate(r, accumulators_[r][0], accumulators_[r][1]);
      body_.Accumulate(r, accumulators_[r][2], accumulators_[r][3]);
      body_.Accumulate(r, accumulators_[r][0], accumulators_[r][2]);
    }
    return HasRowLoop() ? vectors : 0;
  }

  void WriteColumns() {
    TakeAccumulators(shape_.block);
    // r15 is the first column of the block.
    Xbyak::Label begin;
    code_.xor_(code_.eax, code_.eax);
    code_.xor_(code_.r15d, code_.r15d);
    code_.L(begin);
    if (shape_.has_blocks()) code_.mov(code_.rax, code_.r15);
    WriteBlock();
    if (!shape_.has_blocks()) return;
    code_.add(code_.r15, Imm(shape_.block * kCodeLanes));
    code_.cmp(code_.r15, Imm(shape_.width));
    code_.jb(begin, Xbyak::CodeGenerator::T_NEAR);
  }

  // Writes the loop over the rows of the block that begins at rax.
  void WriteBlock() {
    ClearAccumulators();
    code_.lea(code_.r14, code_.ptr[code_.r15 + static_cast<int>(loop_.rows * loop_.cols)]);
    Xbyak::Label begin;
    code_.L(begin);
    body_.Write(0, shape_.block);
    code_.add(code_.rax, Imm(shape_.width));
    code_.cmp(code_.rax, code_.r14);
    code_.jb(begin, Xbyak::CodeGenerator::T_NEAR);
    for (size_t r = 0; r < loop_.reductions.size(); ++r) WriteTotals(r);
  }

  // Adds up the rows that were processed as one, and adds the sums to the totals.
  void WriteTotals(size_t r) {
    const std::vector<Zmm>& sums = accumulators_[r];
    for (int64_t half = shape_.stacked / 2; half > 0; half /= 2) {
      const auto vectors = static_cast<size_t>(half * loop_.cols / kCodeLanes);
      for (size_t k = 0; k < vectors; ++k) body_.Accumulate(r, sums[k], sums[k + vectors]);
    }
    const Zmm wide = code_.TakeVector();
    const Xbyak::Ymm upper(wide.getIdx());
    const int64_t vectors = std::min(shape_.block, loop_.cols / kCodeLanes);
    for (int64_t k = 0; k < vectors; ++k) {
      const Zmm sum = sums[static_cast<size_t>(k)];
      for (int part = 0; part < 2; ++part) {
        const int offset = static_cast<int>(loop_.reductions[r].total_offset + (2 * k + part) * 64);
        const Address total = code_.zword[code_.rdx + code_.r15 * 8 + offset];
        if (part == 1) code_.vextractf64x4(upper, sum, 1);
        code_.vcvtps2pd(wide, part == 0 ? Xbyak::Ymm(sum.getIdx()) : upper);
        code_.vaddpd(wide, wide, total);
        code_.vmovupd(total, wide);
      }
    }
    code_.Give(wide);
  }

  VectorCode& code_;
  const TileLoop& loop_;
  const ColumnShape shape_;
  const absl::Span<const int64_t> register_offsets_;
  LoopBody body_;
  Accumulators accumulators_;
};

}  // namespace

bool WriteLoop(VectorCode& code, const TileLoop& loop, int64_t interleaved,
               absl::Span<const int64_t> register_offsets) {
  return LoopWriter(code, loop, interleaved, register_offsets).Write();
}

}  // namespace cotan::cpu::expr
