// SPDX-License-Identifier: Apache-2.0

// Fits numbers that were observed at several trace points by expressions of sizes.
#ifndef COTAN_AOT_DYNAMIC_SIZE_FITTER_H_
#define COTAN_AOT_DYNAMIC_SIZE_FITTER_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/types/span.h"
#include "base/layout.h"
#include "base/sym_int.h"

namespace cotan::aot {

// The number offset + factor * x, or its reciprocal, where x is size, 1 / size, sqrt(size) or 1 /
// sqrt(size).
struct NumberFit {
  SymInt size;
  bool of_root = false;
  bool of_reciprocal = false;
  bool is_reciprocal = false;
  double factor = 1;
  double offset = 0;

  double Evaluate(int64_t size_value) const;
};

// Finds an expression that has given values at the trace points. Tries, in this order: known sizes
// (symbols first), a known size times plus constants, products of known sizes, multiples of
// quotients, sums of two known sizes.
// More points make coincidences less likely: use at least three for one symbol and four for
// several. Not thread-safe.
class SizeFitter {
 public:
  // points[k][i]: value of symbol s_i at point k.
  explicit SizeFitter(std::vector<DimVector> points);

  size_t num_points() const { return points_.size(); }
  absl::Span<const DimVector> points() const { return points_; }

  // Adds a size that occurs in the program, so that other sizes can be fitted in terms of it.
  // Ignores expressions that cannot be evaluated at the points.
  void AddKnown(const SymInt& expression);

  // Makes Fit() return `expression` for its values, unless another expression is known for them.
  void Remember(const SymInt& expression);

  // Returns an expression that has the value values[k] at point k, one value per point; none if
  // nothing fits.
  std::optional<SymInt> Fit(absl::Span<const int64_t> values);

  // Returns a multiple of a known size or product plus a constant that has the given values; none
  // if nothing fits.
  std::optional<SymInt> FitLine(absl::Span<const int64_t> values) const;

  // Returns a fit of floating point values; none if nothing fits. `tolerance`: relative error of
  // the values.
  std::optional<NumberFit> FitNumber(absl::Span<const double> values, double tolerance);

 private:
  using Samples = std::vector<int64_t>;
  struct Known {
    SymInt expression;
    Samples samples;
  };

  std::optional<Samples> SamplesOf(const SymInt& expression) const;
  std::optional<SymInt> Search(const Samples& values) const;
  // Fits multiples of quotients, and products of four or more known sizes.
  std::optional<SymInt> FitLongProduct(const Samples& values) const;
  void AddProducts(size_t first_new);
  void AddProduct(const SymInt& a, const SymInt& b, std::vector<Known>& to);

  std::vector<DimVector> points_;
  size_t num_symbols_ = 0;
  // Symbols first, then the sizes of AddKnown(); their samples are distinct.
  std::vector<Known> known_;
  std::vector<Known> products_;  // of two and three known sizes
  std::vector<Known> rounded_;   // quotients among the expressions of Remember()
  absl::flat_hash_map<Samples, bool> seen_;
  absl::flat_hash_map<Samples, std::optional<SymInt>> found_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_SIZE_FITTER_H_
