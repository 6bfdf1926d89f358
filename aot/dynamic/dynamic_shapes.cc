// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/dynamic_shapes.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "aot/frontend/pt2/symbolic.h"
#include "base/solve.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

bool IsNameCharacter(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_'; }

bool IsName(const std::string& text) {
  return !text.empty() && absl::ascii_isalpha(static_cast<unsigned char>(text[0])) &&
         std::all_of(text.begin(), text.end(), IsNameCharacter);
}

// Parses an expression of declared symbols.
absl::StatusOr<SymInt> ParseExpression(const std::string& text, const DynamicShapes& shapes) {
  std::string unknown;
  const auto index_of = [&](absl::string_view name) {
    for (size_t i = 0; i < shapes.symbols.size(); ++i) {
      if (shapes.symbols[i].name == name) return static_cast<int>(i);
    }
    unknown = std::string(name);
    return 0;
  };
  COTAN_ASSIGN_OR_RETURN(SymInt size, pt2::ParseSymbolic(text, index_of));
  if (unknown.empty()) return size;
  return absl::InvalidArgumentError(absl::StrCat("'", text, "': no dimension is '", unknown, "' as such; declare one"));
}

std::string RangeText(const DynamicSymbol& symbol) {
  return absl::StrCat("[", symbol.min, ", ", symbol.max == kNoMaximum ? "unbounded" : absl::StrCat(symbol.max), "]");
}

// Returns the index of the symbol of `dim`, and narrows its range to that of `dim`.
absl::StatusOr<int> SymbolOf(const DynamicDim& dim, DynamicShapes& shapes) {
  if (!IsName(dim.symbol)) {
    return absl::InvalidArgumentError(absl::StrCat("'", dim.symbol,
                                                   "' is not a name for a dynamic dimension: a name is a ",
                                                   "letter, then letters, digits and '_'"));
  }
  auto found = std::find_if(shapes.symbols.begin(), shapes.symbols.end(),
                            [&](const DynamicSymbol& symbol) { return symbol.name == dim.symbol; });
  if (found == shapes.symbols.end()) found = shapes.symbols.insert(found, {.name = dim.symbol});
  found->min = std::max(found->min, dim.min);
  found->max = std::min(found->max, dim.max);
  if (dim.min < 1 || found->min > found->max) {
    return absl::InvalidArgumentError(absl::StrCat("the dynamic dimension '", dim.symbol, "' has the range ",
                                                   RangeText({dim.symbol, std::min(dim.min, found->min), found->max}),
                                                   "; it must hold a number, and none below 1"));
  }
  return static_cast<int>(found - shapes.symbols.begin());
}

}  // namespace

std::string DynamicShapes::ToString(absl::Span<const int64_t> values) const {
  std::string text;
  for (size_t i = 0; i < symbols.size(); ++i) {
    absl::StrAppend(&text, i == 0 ? "" : ", ", symbols[i].name, "=", values[i]);
  }
  return text;
}

absl::StatusOr<DynamicShapes> ResolveDynamicDims(absl::Span<const DynamicDim> dims,
                                                 absl::Span<const DimVector> examples) {
  DynamicShapes shapes;
  for (const DimVector& sizes : examples) shapes.sizes.emplace_back(sizes.begin(), sizes.end());
  std::set<std::pair<int, int>> declared;
  std::vector<std::pair<SymInt*, const std::string*>> expressions;
  for (const DynamicDim& dim : dims) {
    if (dim.argument < 0 || dim.argument >= static_cast<int>(examples.size())) {
      return absl::InvalidArgumentError(absl::StrCat("the dynamic dimension '", dim.symbol, "' is one of argument ",
                                                     dim.argument, ", and there are ", examples.size(), " arguments"));
    }
    SymIntVector& sizes = shapes.sizes[static_cast<size_t>(dim.argument)];
    const auto rank = static_cast<int>(sizes.size());
    const int at = dim.dim < 0 ? dim.dim + rank : dim.dim;
    if (at < 0 || at >= rank) {
      return absl::InvalidArgumentError(absl::StrCat("the dynamic dimension '", dim.symbol, "' is dimension ", dim.dim,
                                                     " of argument ", dim.argument, ", which has ", rank));
    }
    if (!declared.insert({dim.argument, at}).second) {
      return absl::InvalidArgumentError(absl::StrCat("dimension ", at, " of argument ", dim.argument,
                                                     " is declared dynamic twice, again as '", dim.symbol, "'"));
    }
    SymInt& size = sizes[static_cast<size_t>(at)];
    if (!std::all_of(dim.symbol.begin(), dim.symbol.end(), IsNameCharacter)) {
      expressions.emplace_back(&size, &dim.symbol);
      continue;
    }
    COTAN_ASSIGN_OR_RETURN(const int symbol, SymbolOf(dim, shapes));
    size = SymInt::Symbol(symbol);
  }
  for (const auto& [size, text] : expressions) {
    COTAN_ASSIGN_OR_RETURN(*size, ParseExpression(*text, shapes));
  }
  COTAN_RETURN_IF_ERROR(SolveExamples(examples, shapes));
  return shapes;
}

DynamicShapes WithWideDataSizes(DynamicShapes shapes, int attempt) {
  // A trace may have more elements than the data ever has. In the declared range sizes are those that the model
  // expects, but there may be too few that differ from each other.
  constexpr int64_t kLeastWidth = 24, kWider = 32;
  for (DynamicSymbol& symbol : shapes.symbols) {
    const bool is_narrow = symbol.max - std::max<int64_t>(symbol.min, 2) < kLeastWidth;
    if (symbol.from_data && (is_narrow || attempt > 0)) symbol.max += kWider << (4 * std::min(attempt, 3));
  }
  return shapes;
}

namespace {

// Marks the symbols in `size`.
void FindSymbols(const SymInt& size, std::vector<bool>& used) {
  if (size.is_constant()) return;
  if (size.kind() == SymInt::Kind::kSymbol) {
    used[static_cast<size_t>(size.symbol())] = true;
    return;
  }
  FindSymbols(size.lhs(), used);
  FindSymbols(size.rhs(), used);
}

SymInt Renumbered(const SymInt& size, absl::Span<const int> index) {
  if (size.is_constant()) return size;
  if (size.kind() == SymInt::Kind::kSymbol) return SymInt::Symbol(index[static_cast<size_t>(size.symbol())]);
  return SymInt::Binary(size.kind(), Renumbered(size.lhs(), index), Renumbered(size.rhs(), index));
}

}  // namespace

DynamicShapes KeepUsedSymbols(DynamicShapes shapes) {
  std::vector<bool> used(shapes.symbols.size(), false);
  for (const SymIntVector& sizes : shapes.sizes) {
    for (const SymInt& size : sizes) FindSymbols(size, used);
  }
  DynamicShapes result;
  std::vector<int> index;
  for (size_t i = 0; i < used.size(); ++i) {
    index.push_back(static_cast<int>(result.symbols.size()));
    if (used[i]) result.symbols.push_back(std::move(shapes.symbols[i]));
  }
  for (const SymIntVector& sizes : shapes.sizes) {
    SymIntVector& renumbered = result.sizes.emplace_back();
    for (const SymInt& size : sizes) renumbered.push_back(Renumbered(size, index));
  }
  return result;
}

absl::StatusOr<DynamicShapes> DeclareSymbols(absl::Span<const DynamicDim> dims, DynamicShapes shapes) {
  for (const DynamicDim& dim : dims) {
    const auto argument = static_cast<size_t>(dim.argument);
    const int rank =
        dim.argument < 0 || argument >= shapes.sizes.size() ? 0 : static_cast<int>(shapes.sizes[argument].size());
    const int at = dim.dim < 0 ? dim.dim + rank : dim.dim;
    const bool exists = at >= 0 && at < rank;
    if (!exists || shapes.sizes[argument][static_cast<size_t>(at)].kind() != SymInt::Kind::kSymbol) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the dynamic dimension '", dim.symbol, "' is dimension ", dim.dim, " of argument ", dim.argument, ", which ",
          exists ? "the model was exported with a fixed size of; export it with dynamic_shapes" : "does not exist"));
    }
    DynamicSymbol& symbol =
        shapes.symbols[static_cast<size_t>(shapes.sizes[argument][static_cast<size_t>(at)].symbol())];
    symbol.name = dim.symbol;
    symbol.min = std::max(symbol.min, dim.min);
    symbol.max = std::min(symbol.max, dim.max);
    if (symbol.min > symbol.max || symbol.example < symbol.min || symbol.example > symbol.max) {
      return absl::InvalidArgumentError(absl::StrCat("the dynamic dimension '", dim.symbol, "' has the range ",
                                                     RangeText(symbol), ", and ", symbol.example, " in the examples"));
    }
  }
  return shapes;
}

absl::Status SolveExamples(absl::Span<const DimVector> examples, DynamicShapes& shapes) {
  const auto misfit = [&](size_t argument, const std::string& what) {
    return absl::InvalidArgumentError(absl::StrCat("example ", argument, ": ", what));
  };
  for (size_t i = 0; i < examples.size(); ++i) {
    if (examples[i].size() != shapes.sizes[i].size()) {
      return misfit(i, absl::StrCat("it has ", examples[i].size(), " dimensions, not ", shapes.sizes[i].size()));
    }
    for (size_t d = 0; d < examples[i].size(); ++d) {
      const std::optional<SymbolValue> solved = SolveForSymbol(shapes.sizes[i][d], examples[i][d]);
      if (!solved.has_value()) continue;
      DynamicSymbol& symbol = shapes.symbols[static_cast<size_t>(solved->symbol)];
      const int64_t found = solved->value;
      if (found < symbol.min || found > symbol.max) {
        return misfit(i, absl::StrCat("dimension ", d, " has ", examples[i][d], " elements, so that '", symbol.name,
                                      "' is ", found, ", and not in ", RangeText(symbol)));
      }
      if (symbol.example != 0 && symbol.example != found) {
        return misfit(i, absl::StrCat("dimension ", d, " has ", examples[i][d], " elements, so that '", symbol.name,
                                      "' is ", found, ", and it is ", symbol.example, " elsewhere"));
      }
      symbol.example = found;
    }
  }
  DimVector values;
  for (const DynamicSymbol& symbol : shapes.symbols) values.push_back(symbol.example);
  for (size_t i = 0; i < examples.size(); ++i) {
    for (size_t d = 0; d < examples[i].size(); ++d) {
      COTAN_ASSIGN_OR_RETURN(const int64_t expected, shapes.sizes[i][d].Evaluate(values));
      if (expected == examples[i][d]) continue;
      return misfit(i, absl::StrCat("dimension ", d, " has ", examples[i][d], " elements, and ",
                                    shapes.sizes[i][d].ToString(), " is ", expected));
    }
  }
  return absl::OkStatus();
}

}  // namespace cotan::aot
