// SPDX-License-Identifier: Apache-2.0

// Resolved dynamic dimensions: symbols and their ranges, and the sizes of the inputs as expressions
// of the symbols. No LibTorch.
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
  int64_t example = 0;  // its value in the example inputs; 0 = not determined by them
  // The size depends on data: no input has it. `min` may be 0.
  bool from_data = false;
};

struct DynamicShapes {
  // Symbol s_i of size expressions is symbols[i].
  std::vector<DynamicSymbol> symbols;
  // By argument: its sizes, each a constant or an expression.
  std::vector<SymIntVector> sizes;

  // Returns text such as "batch=7, time=12".
  std::string ToString(absl::Span<const int64_t> values) const;
};

// Returns the shapes that `dims` declare for arguments of the sizes `examples`.
// InvalidArgument: a dimension does not exist or is declared twice, a symbol has an invalid name, a
// range is empty, or the examples give a symbol two values or one outside its range. The message
// names the symbol and the argument.
absl::StatusOr<DynamicShapes> ResolveDynamicDims(absl::Span<const DynamicDim> dims,
                                                 absl::Span<const DimVector> examples);

// Sets the example value of each symbol of `shapes` from the sizes `examples`.
// InvalidArgument: the sizes do not match `shapes`, give a symbol two values, or are outside its
// range.
absl::Status SolveExamples(absl::Span<const DimVector> examples, DynamicShapes& shapes);

// Returns `shapes` with a wider range of each size that depends on data, in which programs are traced: the `attempt`-th
// is wide enough for many such sizes that differ from each other.
DynamicShapes WithWideDataSizes(DynamicShapes shapes, int attempt);

// Returns `shapes` without symbols that no size uses.
DynamicShapes KeepUsedSymbols(DynamicShapes shapes);

// Returns `shapes` with the names and ranges of `dims`; each dimension must already have a symbol.
// InvalidArgument: a dimension has no symbol, or a range is empty.
absl::StatusOr<DynamicShapes> DeclareSymbols(absl::Span<const DynamicDim> dims, DynamicShapes shapes);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_DYNAMIC_SHAPES_H_
