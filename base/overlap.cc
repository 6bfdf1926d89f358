// SPDX-License-Identifier: Apache-2.0

#include "base/overlap.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <utility>
#include <vector>

namespace cotan {
namespace {

// A term `factor` * n with any n in [0, limit].
struct Term {
  int64_t factor = 0;
  int64_t limit = 0;
};

// Merges terms of equal factors and sorts by descending factor.
std::vector<Term> Merged(std::vector<Term> terms) {
  std::sort(terms.begin(), terms.end(), [](const Term& a, const Term& b) { return a.factor > b.factor; });
  std::vector<Term> merged;
  for (const Term& term : terms) {
    if (term.factor == 0 || term.limit == 0) continue;
    if (!merged.empty() && merged.back().factor == term.factor) {
      merged.back().limit += term.limit;
    } else {
      merged.push_back(term);
    }
  }
  return merged;
}

bool SameTerms(const std::vector<Term>& a, const std::vector<Term>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](const Term& x, const Term& y) { return x.factor == y.factor && x.limit == y.limit; });
}

// Decides whether a sum of the terms can be `target`. Searches from the largest factor on; only those
// counts are tried whose remainder is at most the sum of the smaller terms and a multiple of their greatest
// common divisor.
class SumSearch {
 public:
  explicit SumSearch(std::vector<Term> terms) : terms_(Merged(std::move(terms))) {
    largest_.resize(terms_.size() + 1);
    divisor_.resize(terms_.size() + 1);
    for (size_t i = terms_.size(); i-- > 0;) {
      largest_[i] = largest_[i + 1] + terms_[i].factor * terms_[i].limit;
      divisor_[i] = std::gcd(divisor_[i + 1], terms_[i].factor);
    }
  }

  bool Reaches(int64_t target, size_t first = 0) const {
    if (target == 0) return true;
    if (first == terms_.size() || target < 0 || target > largest_[first] || target % divisor_[first] != 0) return false;
    const Term& term = terms_[first];
    const int64_t rest = largest_[first + 1];
    const int64_t least = target <= rest ? 0 : (target - rest + term.factor - 1) / term.factor;
    for (int64_t n = std::min(term.limit, target / term.factor); n >= least; --n) {
      if (Reaches(target - n * term.factor, first + 1)) return true;
    }
    return false;
  }

 private:
  std::vector<Term> terms_;
  std::vector<int64_t> largest_;  // sum of the terms from here on
  std::vector<int64_t> divisor_;  // greatest common divisor of their factors; 0 at the end
};

// Adds the dimensions, in units of `unit`; returns the sum of their limits.
int64_t AddDimensions(const StridedLayout& layout, int64_t unit, std::vector<Term>& terms) {
  int64_t last = 0;
  for (size_t i = 0; i < layout.sizes.size(); ++i) {
    terms.push_back({layout.strides[i] * unit, layout.sizes[i] - 1});
    last += layout.strides[i] * unit * (layout.sizes[i] - 1);
  }
  return last;
}

// Returns whether the stride of each dimension exceeds the span of all smaller ones, as in slices and
// permutations of dense tensors. `dims` descend.
bool AreNested(const std::vector<Term>& dims) {
  int64_t span = 0;
  for (size_t i = dims.size(); i-- > 0;) {
    if (dims[i].factor <= span) return false;
    span += dims[i].factor * dims[i].limit;
  }
  return true;
}

}  // namespace

bool LayoutsOverlap(const StridedLayout& a, int64_t a_bytes, const StridedLayout& b, int64_t b_bytes) {
  if (NumElements(a.sizes) == 0 || NumElements(b.sizes) == 0) return false;
  // Elements of one size that are aligned to it overlap only as a whole.
  const bool whole = a_bytes == b_bytes;
  const int64_t a_unit = whole ? 1 : a_bytes;
  const int64_t b_unit = whole ? 1 : b_bytes;
  // a.offset + sum of a's dimensions = b.offset + sum of b's, or, counting b's
  // from their ends: all dimensions add up to b's last element - a's first.
  std::vector<Term> terms;
  AddDimensions(a, a_unit, terms);
  const int64_t b_last = AddDimensions(b, b_unit, terms);
  int64_t target = b.offset * b_unit + b_last - a.offset * a_unit;
  if (!whole) {
    terms.push_back({1, a_bytes - 1});
    terms.push_back({1, b_bytes - 1});
    target += b_bytes - 1;
  }
  return SumSearch(std::move(terms)).Reaches(target);
}

bool OverlapsItself(const StridedLayout& layout) {
  if (NumElements(layout.sizes) <= 1 || IsDenseNonOverlapping(layout)) return false;
  std::vector<Term> dims;
  for (size_t i = 0; i < layout.sizes.size(); ++i) {
    if (layout.sizes[i] == 1) continue;
    if (layout.strides[i] == 0) return true;
    dims.push_back({layout.strides[i], layout.sizes[i] - 1});
  }
  std::sort(dims.begin(), dims.end(), [](const Term& a, const Term& b) { return a.factor > b.factor; });
  if (AreNested(dims)) return false;
  // Two indexes that differ first in dimension `first`, by at least 1 there, and
  // by any number in [-limit, limit] in the later ones.
  for (size_t first = 0; first < dims.size(); ++first) {
    std::vector<Term> terms = {{dims[first].factor, dims[first].limit - 1}};
    int64_t later = 0;
    for (size_t i = first + 1; i < dims.size(); ++i) {
      terms.push_back({dims[i].factor, 2 * dims[i].limit});
      later += dims[i].factor * dims[i].limit;
    }
    // factor * (1 + n) - sum of later = 0, with later ones shifted by their
    // limits: n counts down, so that all terms are positive.
    if (SumSearch(std::move(terms)).Reaches(later + dims[first].factor * dims[first].limit)) return true;
  }
  return false;
}

bool Covers(const StridedLayout& whole, const StridedLayout& part) {
  if (NumElements(part.sizes) == 0) return true;
  if (NumElements(whole.sizes) == 0) return false;
  std::vector<Term> whole_dims, part_dims;
  AddDimensions(whole, 1, whole_dims);
  AddDimensions(part, 1, part_dims);
  if (whole.offset == part.offset && SameTerms(Merged(whole_dims), Merged(part_dims))) return true;
  const SumSearch elements(std::move(whole_dims));
  // Iterates over the indexes of `part`.
  std::vector<int64_t> index(part_dims.size(), 0);
  int64_t place = part.offset - whole.offset;
  while (elements.Reaches(place)) {
    size_t dim = index.size();
    while (dim > 0 && index[dim - 1] == part_dims[dim - 1].limit) {
      place -= part_dims[dim - 1].factor * std::exchange(index[dim - 1], 0);
      --dim;
    }
    if (dim == 0) return true;
    ++index[dim - 1];
    place += part_dims[dim - 1].factor;
  }
  return false;
}

}  // namespace cotan
