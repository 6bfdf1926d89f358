// SPDX-License-Identifier: Apache-2.0

// Several vectors of f32 that go through a chain (tile_chain.h) together.
// All have internal linkage; tile_ops_impl.h gives the reason.
#ifndef COTAN_KERNELS_CPU_EXPR_TILE_PACK_H_
#define COTAN_KERNELS_CPU_EXPR_TILE_PACK_H_

#include <cstddef>
#include <cstdint>
#include <utility>

#include "kernels/cpu/expr/tile_vector_math.h"

namespace cotan::cpu::expr {
namespace {

// kSize vectors of f32, or of i32: results of comparisons, -1 where they hold and 0 elsewhere.
template <typename Vector, int kSize>
struct Pack {
  Vector v[kSize];
};
template <int kSize>
using FloatPack = Pack<FloatVector, kSize>;
template <int kSize>
using IntPack = Pack<IntVector, kSize>;

// Calls fn(0), fn(1), ...: the indexes are constants, so that packs stay in vector registers.
template <typename Fn, size_t... kIndex>
[[gnu::always_inline]] inline void ForEach(Fn fn, std::index_sequence<kIndex...>) {
  (fn(kIndex), ...);
}
template <int kSize, typename Fn>
[[gnu::always_inline]] inline void ForEach(Fn fn) {
  ForEach(fn, std::make_index_sequence<kSize>());
}

// Returns the pack of fn(0), fn(1), ...
template <typename Vector, typename Fn, size_t... kIndex>
[[gnu::always_inline]] inline Pack<Vector, sizeof...(kIndex)> Generate(Fn fn, std::index_sequence<kIndex...>) {
  return {{fn(kIndex)...}};
}
template <typename Vector, int kSize, typename Fn>
[[gnu::always_inline]] inline Pack<Vector, kSize> Generate(Fn fn) {
  return Generate<Vector>(fn, std::make_index_sequence<kSize>());
}

}  // namespace
}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TILE_PACK_H_
