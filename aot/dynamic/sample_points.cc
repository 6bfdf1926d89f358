// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/sample_points.h"

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/container/flat_hash_set.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"

namespace cotan::aot {
namespace {

// Smaller sizes often coincide with kernel sizes and other counts.
constexpr int64_t kLeastSize = 11;

bool IsPrime(int64_t value) {
  if (value < 2) return false;
  for (int64_t d = 2; d * d <= value; ++d) {
    if (value % d == 0) return false;
  }
  return true;
}

// Returns true for a prime, or if `even`, twice a prime.
bool IsFit(int64_t value, bool even) {
  return even ? value % 2 == 0 && IsPrime(value / 2) : value % 2 != 0 && IsPrime(value);
}

class Chooser {
 public:
  Chooser(const DynamicShapes& shapes, const absl::btree_set<int64_t>& fixed) : fixed_(fixed) {
    for (const SymIntVector& sizes : shapes.sizes) {
      for (const SymInt& size : sizes) {
        if (size.is_constant()) taken_.insert(size.constant());
      }
    }
  }

  // Returns the next size for the symbol, at least `from`, if possible a preferred one; otherwise
  // another size of the range, its ends last, because other sizes of a model often equal them.
  int64_t Next(const DynamicSymbol& symbol, int64_t from, bool even) {
    const int64_t least = std::max<int64_t>(symbol.min, 2);
    const int64_t start = std::max(least, from);
    const int64_t end = symbol.max - start > kWindow ? start + kWindow : symbol.max - 1;
    for (int64_t value = start; value <= end; ++value) {
      if (IsFit(value, even) && !DividesFixed(value) && taken_.insert(value).second) return value;
    }
    for (int64_t value = start; value <= end; ++value) {
      if (taken_.insert(value).second) return value;
    }
    for (int64_t value = std::min(start, end); value > least; --value) {
      if (taken_.insert(value).second) return value;
    }
    for (const int64_t value : {least, symbol.max}) {
      if (taken_.insert(value).second) return value;
    }
    return symbol.max;
  }

 private:
  static constexpr int64_t kWindow = 1000;

  bool DividesFixed(int64_t value) const {
    return absl::c_any_of(fixed_, [&](int64_t size) { return size % value == 0; });
  }

  const absl::btree_set<int64_t>& fixed_;
  absl::flat_hash_set<int64_t> taken_;
};

// Returns true if the values of symbols a and b at the points are collinear.
bool OnOneLine(const std::vector<DimVector>& points, size_t a, size_t b) {
  for (size_t k = 2; k < points.size(); ++k) {
    if ((points[k][a] - points[0][a]) * (points[1][b] - points[0][b]) !=
        (points[k][b] - points[0][b]) * (points[1][a] - points[0][a])) {
      return false;
    }
  }
  return true;
}

// Returns whether the symbol has one value at all points, because its range has too few.
bool IsSame(const std::vector<DimVector>& points, size_t symbol) {
  return absl::c_all_of(points, [&](const DimVector& point) { return point[symbol] == points[0][symbol]; });
}

// Returns the number of elements of the largest argument.
double LargestArgument(const DynamicShapes& shapes, const DimVector& point) {
  double largest = 0;
  for (const SymIntVector& sizes : shapes.sizes) {
    double elements = 1;
    for (const SymInt& size : sizes) elements *= static_cast<double>(size.Evaluate(point).value_or(0));
    largest = std::max(largest, elements);
  }
  return largest;
}

// Reduces the sizes of `point`, down to `least`, until no argument has too many elements to trace
// quickly.
void LimitArguments(const DynamicShapes& shapes, const DimVector& least, DimVector& point) {
  constexpr double kMaxElements = 1 << 22;
  DimVector example;
  for (const DynamicSymbol& symbol : shapes.symbols) example.push_back(symbol.example);
  const double limit = std::max(kMaxElements, 4 * LargestArgument(shapes, example));
  while (LargestArgument(shapes, point) > limit && point != least) {
    for (size_t i = 0; i < point.size(); ++i) point[i] = std::max(least[i], point[i] / 2);
  }
}

}  // namespace

absl::StatusOr<std::vector<DimVector>> ChooseSamplePoints(const DynamicShapes& shapes, int attempt,
                                                          const absl::btree_set<int64_t>& fixed) {
  for (const DynamicSymbol& symbol : shapes.symbols) {
    if (symbol.min < symbol.max) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("the dynamic dimension '", symbol.name, "' can only be ", symbol.min, "; leave it fixed"));
  }
  const size_t num_points = shapes.symbols.size() > 1 ? 4 : 3;
  std::vector<DimVector> points(num_points, DimVector(shapes.symbols.size(), 0));
  Chooser chooser(shapes, fixed);
  // The symbol with the narrowest range is chosen first.
  std::vector<size_t> order(shapes.symbols.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
    return shapes.symbols[a].max - shapes.symbols[a].min < shapes.symbols[b].max - shapes.symbols[b].min;
  });
  for (size_t n = 0; n < order.size(); ++n) {
    const size_t i = order[n];
    const int64_t from = kLeastSize + 12 * attempt;
    for (size_t k = 0; k < num_points; ++k) points[k][i] = chooser.Next(shapes.symbols[i], from, k == 1);
    for (size_t m = 0; m < n; ++m) {
      const size_t j = order[m];
      while (!IsSame(points, j) && OnOneLine(points, j, i)) {
        const int64_t last = points.back()[i];
        points.back()[i] = chooser.Next(shapes.symbols[i], last + 1, false);
        if (points.back()[i] <= last) break;  // the range has no further value
      }
    }
  }
  return points;
}

std::vector<DimVector> ChooseEndPoints(const DynamicShapes& shapes) {
  constexpr int64_t kRound = 24;  // detects rounding to multiples of 2, 3, 4, 6, 8
  DimVector least, most, round;
  for (const DynamicSymbol& symbol : shapes.symbols) {
    least.push_back(std::max<int64_t>(symbol.min, 2));
    most.push_back(std::max(least.back(), std::min(symbol.max, std::max<int64_t>(128, 4 * symbol.example))));
    const int64_t multiple = (least.back() + kRound - 1) / kRound * kRound;
    round.push_back(std::min(multiple, most.back()));
  }
  LimitArguments(shapes, least, most);
  LimitArguments(shapes, least, round);
  return {std::move(least), std::move(most), std::move(round)};
}

}  // namespace cotan::aot
