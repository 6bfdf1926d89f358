// SPDX-License-Identifier: Apache-2.0

// Tiles of the operands of matrix products: global memory -> registers -> shared memory -> registers of the threads
// that multiply. Everything moves in quads: four neighbours along the dimension that is nearer in memory.
//
// An operand is `lines` (rows of a, columns of b) of `steps`. Whichever of the two is nearer in global memory is so in
// shared memory, too. In both forms a thread reads the values of four steps as one quad for each of its lines, or as
// one quad of lines for each step.
#pragma once

#include "cotan/multiply_add.cuh"
#include "cotan/types.cuh"

namespace cotan::matmul {

// The type in which an element type is summed.
template <typename Element>
struct SumOf {
  using Type = uint32;  // Overflow is defined, and the low bits are those of any wider type.
};
template <>
struct SumOf<int64> {
  using Type = uint64;
};
template <>
struct SumOf<float16> {
  using Type = float;
};
template <>
struct SumOf<bfloat16> {
  using Type = float;
};
template <>
struct SumOf<float> {
  using Type = float;
};
template <>
struct SumOf<double> {
  using Type = double;
};

template <typename Element>
__device__ inline typename SumOf<Element>::Type Load(Element x) {
  return static_cast<typename SumOf<Element>::Type>(x);
}
__device__ inline float Load(float16 x) { return ToFloat(x); }
__device__ inline float Load(bfloat16 x) { return ToFloat(x); }

// Four neighbours, which move together.
template <typename T>
struct alignas(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) Quad {
  T at[4];
};

// The operands of a product of geometry S (matmul.cuh).
template <typename S>
struct LeftOperand {
  using Index = typename S::Index;
  static constexpr Index kLines = S::kRows;
  static constexpr Index kLineStride = S::kARow;
  static constexpr Index kStepStride = S::kAStep;
  static constexpr bool kStepInner = S::kAStepInner;
  static constexpr bool kHasQuads = S::kAHasQuads;
};
template <typename S>
struct RightOperand {
  using Index = typename S::Index;
  static constexpr Index kLines = S::kColumns;
  static constexpr Index kLineStride = S::kBColumn;
  static constexpr Index kStepStride = S::kBStep;
  static constexpr bool kStepInner = !S::kBColumnInner;
  static constexpr bool kHasQuads = S::kBHasQuads;
};

// A tile of kLines x kSteps of an operand, which kThreads threads load, and of which a thread multiplies kThreadLines
// lines; kLanes threads share the lines. kSteps is 8, 16 or 32.
template <typename S, typename Operand, int kLines, int kSteps, int kThreads, int kThreadLines, int kLanes>
class OperandTile {
 public:
  using Element = typename S::Element;
  using Sum = typename S::Sum;
  using Index = typename S::Index;
  static constexpr int kSize = kLines * kSteps;
  // Whether the lines of a thread are quads of neighbours.
  static constexpr bool kHasThreadQuads = !Operand::kStepInner && kThreadLines % 4 == 0;

  // Loads quads from `from`, which points to line 0 of step 0 and is aligned to them. Those beyond the ends are 0.
  __device__ void Load(const Element* from, Index line0, Index step0, int thread) {
    const Index line = line0 + LineOf(thread);
    const Index step = step0 + StepOf(thread);
    const Element* const at = from + (line * Operand::kLineStride + step * Operand::kStepStride);
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      next_[i] = {};
      if (!Has(thread, i)) continue;
      if (Operand::kLines % kLines != 0 && line + i * kPassLines >= Operand::kLines) continue;
      if (S::kSteps % kSteps != 0 && step + i * kPassSteps >= S::kSteps) continue;
      constexpr Index kPass = kPassLines * Operand::kLineStride + kPassSteps * Operand::kStepStride;
      const auto loaded = *reinterpret_cast<const Quad<Element>*>(at + i * kPass);
#pragma unroll
      for (int j = 0; j < 4; ++j) next_[i].at[j] = matmul::Load(loaded.at[j]);
    }
  }

  // Stores what was loaded.
  __device__ void Put(Sum* tile, int thread) const {
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      if (!Has(thread, i)) continue;
      Sum* const at = tile + Offset(LineOf(thread), StepOf(thread), i * kPassLines, i * kPassSteps);
      *reinterpret_cast<Quad<Sum>*>(at) = next_[i];
    }
  }

  // Copies elements, for operands that have no quads or are not aligned to them.
  __device__ static void Copy(const Element* from, Index line0, Index step0, int thread, Sum* tile) {
#pragma unroll kCopyUnroll
    for (uint32 at = static_cast<uint32>(thread); at < kSize; at += kThreads) {
      const int line_of = static_cast<int>(Operand::kStepInner ? at / kSteps : at % kLines);
      const int step_of = static_cast<int>(Operand::kStepInner ? at % kSteps : at / kLines);
      const Index line = line0 + line_of;
      const Index step = step0 + step_of;
      tile[Offset(line_of, step_of, 0, 0)] =
          line < Operand::kLines && step < S::kSteps
              ? matmul::Load(from[line * Operand::kLineStride + step * Operand::kStepStride])
              : Sum(0);
    }
  }

  // Copies the thread's lines, of four steps from `step` on, from a tile whose first line is `line0`, a multiple of 8.
  __device__ static void Get(const Sum* tile, int line0, int lane, int step, Sum (&values)[kThreadLines][4]) {
    if constexpr (Operand::kStepInner) {
#pragma unroll
      for (int i = 0; i < kThreadLines; ++i) {
        const Sum* const at = tile + line0 * kSteps + Offset(lane, 0, i * kLanes, step);
        const auto quad = *reinterpret_cast<const Quad<Sum>*>(at);
#pragma unroll
        for (int s = 0; s < 4; ++s) values[i][s] = quad.at[s];
      }
    } else {
      const Sum* const from = tile + line0 + ThreadLine(0, lane);
#pragma unroll
      for (int s = 0; s < 4; ++s) {
        if constexpr (kHasThreadQuads) {
#pragma unroll
          for (int i = 0; i < kThreadLines; i += 4) {
            const auto quad = *reinterpret_cast<const Quad<Sum>*>(from + ((step + s) * kLines + ThreadLine(i, 0)));
#pragma unroll
            for (int j = 0; j < 4; ++j) values[i + j][s] = quad.at[j];
          }
        } else {
#pragma unroll
          for (int i = 0; i < kThreadLines; ++i) values[i][s] = from[(step + s) * kLines + ThreadLine(i, 0)];
        }
      }
    }
  }

  // Returns the i-th line of a thread.
  __device__ static int ThreadLine(int i, int lane) {
    return kHasThreadQuads ? (i / 4 * kLanes + lane) * 4 + i % 4 : lane + i * kLanes;
  }

 private:
  static constexpr int kQuads = kSize / 4;
  static constexpr int kCount = (kQuads + kThreads - 1) / kThreads;
  static constexpr int kRowQuads = (Operand::kStepInner ? kSteps : kLines) / 4;
  // Each pass of the threads is so many lines or steps behind the one before.
  static constexpr int kPassLines = Operand::kStepInner ? kThreads / kRowQuads : 0;
  static constexpr int kPassSteps = Operand::kStepInner ? 0 : kThreads / kRowQuads;
  static_assert(kCount == 1 || kThreads % kRowQuads == 0);
  static_assert(kSteps == 8 || kSteps == 16 || kSteps == 32);
  static_assert(kLines % 4 == 0);

  // Unaligned operands are rare: their code is short. Those without quads have loads in flight.
  static constexpr int kCopyUnroll = Operand::kHasQuads ? 1 : 4;

  __device__ static bool Has(int thread, int pass) {
    return kQuads % kThreads == 0 || thread + pass * kThreads < kQuads;
  }
  __device__ static int LineOf(int thread) { return Operand::kStepInner ? thread / kRowQuads : thread % kRowQuads * 4; }
  __device__ static int StepOf(int thread) { return Operand::kStepInner ? thread % kRowQuads * 4 : thread / kRowQuads; }

  // Returns the quad that holds quad 0 of a line of steps. Quads are permuted from line to line, so that threads that
  // read the same quad of neighbouring lines use different banks.
  __device__ static constexpr int FirstQuad(int line) { return line / (32 / kSteps) % (kSteps / 4); }

  // Returns the place of an element. If steps are inner, each of line and step is given as two parts without common
  // bits, of which the second ones are constants: so places have few bases that are known at compile time only.
  __device__ static int Offset(int line, int step, int line_part, int step_part) {
    if constexpr (!Operand::kStepInner) return (step + step_part) * kLines + line + line_part;
    const int constant = step_part / 4 ^ FirstQuad(line_part);
    const int quad = step / 4 ^ FirstQuad(line) ^ constant;
    return line * kSteps + quad * 4 + step % 4 + line_part * kSteps;
  }

  Quad<Sum> next_[kCount];  // on their way
};

}  // namespace cotan::matmul
