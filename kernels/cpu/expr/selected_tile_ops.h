// SPDX-License-Identifier: Apache-2.0

// A TileOps that references some inner loops only, so that the linker drops the others. Sources that
// //kernels/selective writes include this file, one per instruction set; the rules of tile_ops_impl.h apply.
//
//   struct Selection {
//     static constexpr FunctionLoops kFunctions[] = {{}, Function(FN_ADD, DType::kFloat32)};
//     ...  // the other arrays, which begin with {}, too
//     static constexpr bool kRandom = false;
//   };
//   const TileOps ops = SelectedTileOps<Selection>("avx2");
#ifndef COTAN_KERNELS_CPU_EXPR_SELECTED_TILE_OPS_H_
#define COTAN_KERNELS_CPU_EXPR_SELECTED_TILE_OPS_H_

#include <cstdint>

#include "kernels/cpu/expr/tile_ops_impl.h"

namespace cotan::cpu::expr {
namespace {

// Elements of the arrays of a selection. Their lookups are evaluated by the compiler.
struct FunctionLoops {
  ScalarFn fn = SCALAR_FN_UNSPECIFIED;
  DType dtype = DType::kUndefined;
  TileFn loops[5] = {};  // by `scalars`
};
struct ReductionLoops {
  ScalarFn fn = SCALAR_FN_UNSPECIFIED;
  DType dtype = DType::kUndefined;
  ReduceFns loops;
};
struct CastLoops {
  DType from = DType::kUndefined;
  DType to = DType::kUndefined;
  TileFn loop = nullptr;
};
struct ContractionLoops {
  DType dtype = DType::kUndefined;
  TileFn loops[3][6] = {};  // by contraction - 1 and `scalars`
};
struct RoundLoops {
  DType dtype = DType::kUndefined;
  TileFn loop = nullptr;
};
struct CopyLoops {
  DType dtype = DType::kUndefined;
  CopyFn loop = nullptr;
};

constexpr FunctionLoops Function(ScalarFn fn, DType dtype) {
  FunctionLoops entry{fn, dtype, {}};
  for (int scalars = 0; scalars < 5; ++scalars) entry.loops[scalars] = Find(fn, dtype, scalars);
  return entry;
}
constexpr ReductionLoops Reduction(ScalarFn fn, DType dtype) { return {fn, dtype, FindReduce(fn, dtype)}; }
constexpr CastLoops Cast(DType from, DType to) { return {from, to, FindCast(from, to)}; }
constexpr ContractionLoops ContractionOf(DType dtype) {
  ContractionLoops entry{dtype, {}};
  constexpr Contraction kKinds[] = {Contraction::kMulAdd, Contraction::kMulSub, Contraction::kSubMul};
  for (int kind = 0; kind < 3; ++kind) {
    for (int scalars = 0; scalars < 6; ++scalars) {
      entry.loops[kind][scalars] = FindContraction(kKinds[kind], dtype, scalars);
    }
  }
  return entry;
}
constexpr RoundLoops Round(DType dtype) { return {dtype, FindRound(dtype)}; }
constexpr CopyLoops LoadOf(DType dtype) { return {dtype, FindLoad(dtype)}; }
constexpr CopyLoops StoreOf(DType dtype) { return {dtype, FindStore(dtype)}; }

// The functions of TileOps for a selection, without chains: their code is larger than that of all its loops.
template <typename Selection>
struct Lookup {
  static TileFn FindFunction(ScalarFn fn, DType dtype, int scalars) {
    for (const FunctionLoops& entry : Selection::kFunctions) {
      if (entry.fn == fn && entry.dtype == dtype) return scalars < 5 ? entry.loops[scalars] : nullptr;
    }
    return nullptr;
  }
  static TileFn FindProduct(Contraction contraction, DType dtype, int scalars) {
    if (contraction == Contraction::kNone || scalars >= 6) return nullptr;
    for (const ContractionLoops& entry : Selection::kContractions) {
      if (entry.dtype == dtype) return entry.loops[static_cast<int>(contraction) - 1][scalars];
    }
    return nullptr;
  }
  static TileFn FindConversion(DType from, DType to) {
    for (const CastLoops& entry : Selection::kCasts) {
      if (entry.from == from && entry.to == to) return entry.loop;
    }
    return nullptr;
  }
  static TileFn FindRounding(DType dtype) {
    for (const RoundLoops& entry : Selection::kRounds) {
      if (entry.dtype == dtype) return entry.loop;
    }
    return nullptr;
  }
  static CopyFn FindLoading(DType dtype) {
    for (const CopyLoops& entry : Selection::kLoads) {
      if (entry.dtype == dtype) return entry.loop;
    }
    return nullptr;
  }
  static CopyFn FindStoring(DType dtype) {
    for (const CopyLoops& entry : Selection::kStores) {
      if (entry.dtype == dtype) return entry.loop;
    }
    return nullptr;
  }
  static ReduceFns FindReduction(ScalarFn fn, DType dtype) {
    for (const ReductionLoops& entry : Selection::kReductions) {
      if (entry.fn == fn && entry.dtype == dtype) return entry.loops;
    }
    return {};
  }
};

template <typename Selection>
TileOps SelectedTileOps(const char* name) {
  using L = Lookup<Selection>;
  void (*random)(float*, const RandomRequest&) = nullptr;
  if constexpr (Selection::kRandom) random = Random;
  return {name,           L::FindFunction,  L::FindProduct, L::FindConversion, L::FindRounding, L::FindLoading,
          L::FindStoring, L::FindReduction, random,         nullptr,           nullptr};
}

}  // namespace
}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_SELECTED_TILE_OPS_H_
