// SPDX-License-Identifier: Apache-2.0

// Writes the machine code of the body of a tile loop: its operations for some vectors.
#ifndef COTAN_KERNELS_CPU_EXPR_LOOP_BODY_H_
#define COTAN_KERNELS_CPU_EXPR_LOOP_BODY_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "absl/types/span.h"
#include "kernels/cpu/expr/tile_loop.h"
#include "kernels/cpu/expr/vector_code.h"

namespace cotan::cpu::expr {

// Accumulators of the reductions: reduction r accumulates vector k of an iteration in accumulators[r][k % size].
using Accumulators = std::vector<std::vector<VectorCode::Zmm>>;

// In the code, rax is the element that an iteration begins with; rdi has the slots, rsi the registers of the tile.
class LoopBody {
 public:
  // The operations of `interleaved` vectors are written side by side, so that the processor need not wait for results.
  // register_offsets[s] is the offset of slot s in the registers of the tile, or negative if its address varies.
  LoopBody(VectorCode& code, const TileLoop& loop, int64_t interleaved, absl::Span<const int64_t> register_offsets);

  // Chooses one of the registers `free` for the address of each slot that varies. Returns false if there are too few.
  bool AssignPointers(absl::Span<const Xbyak::Reg64> free);
  // Returns the registers that were chosen.
  const std::vector<Xbyak::Reg64>& pointers() const { return used_; }

  // Writes loads of what does not change in the loop: addresses, and values for all elements. Returns false if these
  // and the values of rows need too many registers.
  bool LoadInvariants();

  // Writes loads of the values of the next row.
  void LoadRowValues();

  void SetAccumulators(Accumulators accumulators) { accumulators_ = std::move(accumulators); }

  // Writes the operations for `count` vectors of an iteration, from `first` on.
  void Write(int64_t first, int64_t count);
  // Writes the operations for the first vector of an iteration, for those of its elements that mask k1 has. The others
  // may not be there.
  void WriteMasked();
  // Writes the operations for the vector at element `begin` of an iteration, whose elements are all there. Only those
  // that mask k1 has are stored, and added to the first accumulators.
  void WriteTail(int64_t begin);

  // Writes one step of a reduction, of all elements.
  void Accumulate(size_t reduction, VectorCode::Zmm total, const Xbyak::Operand& x);

 private:
  using Zmm = VectorCode::Zmm;
  using Opmask = VectorCode::Opmask;

  // A value of one vector while the operations are written.
  struct Value {
    int left = 0;  // uses to come
    int vector = -1;
    int mask = -1;
  };

  const LoopOp& op(size_t value) const { return loop_.ops[value]; }
  Xbyak::Address SlotPointer(size_t slot) const { return code_.qword[code_.rdi + static_cast<int>(slot) * 8]; }
  // Returns the address of the current vector, of elements of `bytes`, in `slot`.
  Xbyak::RegExp AddressOf(uint16_t slot, int bytes, int64_t ahead = 0) const;

  // Returns true if a value is read from memory by the operation that uses it.
  bool IsInMemory(size_t v) const { return op(v).fn == LoopFn::kLoad && values_[v].vector < 0; }
  Zmm Vector(size_t v);
  Opmask Mask(size_t v) const { return Opmask(values_[v].mask); }
  // Calls `write` with the value as an operand.
  template <typename WriteFn>
  void WithOperand(size_t v, WriteFn write) {
    if (IsInMemory(v)) {
      write(code_.zword[AddressOf(op(v).slot, 4)]);
    } else {
      write(Zmm(values_[v].vector));
    }
  }
  // Returns a register for the value v: that of `x` if v is the last to use it.
  Zmm Result(size_t v, size_t x);
  // Counts the uses of the arguments of an operation, and frees registers that no other needs.
  void Release(const LoopOp& op);

  // Writes the operations for `count` vectors side by side, the first at element `begin` of an iteration.
  void WriteGroup(int64_t begin, int64_t count);
  // Writes operation v for the current vector.
  void WriteOp(size_t v);
  void Prefetch(size_t v, int bytes);
  void Load(size_t v);
  void LoadFlags(size_t v);
  void WriteStore(const LoopOp& o);
  void WriteBFloat16Store(const LoopOp& o);
  void WriteFlagsStore(const LoopOp& o);
  void WriteSelect(size_t v);
  // Writes an operation whose value is bools.
  void WriteFlags(size_t v);
  void WriteComparison(LoopFn fn, Opmask result, Zmm x, const Xbyak::Operand& y);
  void WriteBinary(size_t v);
  void WriteExtremum(size_t v, size_t first, const Xbyak::Operand& y);
  void ReplaceByExtremum(Zmm x, const Xbyak::Operand& y, bool maximum);
  // Writes one step of a reduction, of the elements that the group stores.
  void WriteReduce(const LoopOp& o);
  // Copies the argument of a function to the register of its result, unless it is there.
  Zmm CopyArgument(size_t v);
  void WriteFunction(LoopFn fn, VectorCode::Group x);

  VectorCode& code_;
  const TileLoop& loop_;
  const int64_t interleaved_;
  const absl::Span<const int64_t> register_offsets_;
  std::vector<int> uses_;      // per value
  std::vector<int> splats_;    // per value, its vector if all elements, or all of a row, have it, or -1
  std::vector<int> pointers_;  // per slot, the register of its address, or -1
  std::vector<Xbyak::Reg64> used_;
  Accumulators accumulators_;
  // The group that is written.
  bool masks_loads_ = false;
  bool masks_results_ = false;
  int64_t element_ = 0;       // of the iteration, with which the current vector begins
  absl::Span<Value> values_;  // of this vector
};

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_LOOP_BODY_H_
