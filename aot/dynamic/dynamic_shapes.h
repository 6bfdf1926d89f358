// Declared dynamic dimensions, checked: which sizes of the inputs depend on
// which symbols. No LibTorch.
#ifndef COTAN_AOT_DYNAMIC_DYNAMIC_SHAPES_H_
#define COTAN_AOT_DYNAMIC_DYNAMIC_SHAPES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "aot/dynamic/dynamic_dim.h"
#include "base/layout.h"
#include "base/sym_int.h"

namespace cotan::aot {

struct DynamicSymbol {
  std::string name;
  int64_t min = 1;  // inclusive
  int64_t max = kNoMaximum;
  int64_t example = 0;  // its value for the example inputs; 0 = they do not tell
};

struct DynamicShapes {
  // Symbol s_i of size expressions is symbols[i].
  std::vector<DynamicSymbol> symbols;
  // By argument: its sizes, constants and expressions.
  std::vector<SymIntVector> sizes;

  // "batch=7, time=12".
  std::string ToString(absl::Span<const int64_t> values) const;
};

// The shapes that `dims` declare for arguments of the sizes `examples`.
// InvalidArgument: a dimension that does not exist or is declared twice, a
// symbol without a proper name, an empty range, examples that give one symbol
// two values, or one outside its range. The message names symbol and argument.
absl::StatusOr<DynamicShapes> ResolveDynamicDims(absl::Span<const DynamicDim> dims,
                                                 absl::Span<const DimVector> examples);

// Gives each symbol of `shapes` the value that `examples` have for it.
// InvalidArgument: as above; other sizes than the shapes allow.
absl::Status SolveExamples(absl::Span<const DimVector> examples, DynamicShapes& shapes);

// `shapes` without symbols that no size uses.
DynamicShapes KeepUsedSymbols(DynamicShapes shapes);

// `shapes` with names and ranges of `dims`, each for a dimension that is a
// symbol already.
// InvalidArgument: one that is not; an empty range.
absl::StatusOr<DynamicShapes> DeclareSymbols(absl::Span<const DynamicDim> dims, DynamicShapes shapes);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_DYNAMIC_SHAPES_H_
