// Numbers that were seen at several sizes as functions of those sizes.
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

// The number offset + factor * x, or 1 over it, where x is size, 1 / size,
// sqrt(size) or 1 / sqrt(size).
struct NumberFit {
  SymInt size;
  bool of_root = false;
  bool of_reciprocal = false;
  bool is_reciprocal = false;
  double factor = 1;
  double offset = 0;

  double Evaluate(int64_t size_value) const;
};

// Finds, for numbers given at each of some points (values of all symbols), an
// expression that yields them there. Simple ones go first: a symbol or another
// known size, then such sizes times and plus constants, products, multiples of
// quotients, sums of two.
// The more points, the less is left to chance: three are the least for one
// symbol, four for more. Not thread-safe.
class SizeFitter {
 public:
  // points[k][i]: value of symbol s_i at point k.
  explicit SizeFitter(std::vector<DimVector> points);

  size_t num_points() const { return points_.size(); }
  absl::Span<const DimVector> points() const { return points_; }

  // A size that is known to occur; further ones may depend on it. What cannot
  // be evaluated at the points is left out.
  void AddKnown(const SymInt& expression);

  // An expression that Fit() yields for its values from now on, if it is not
  // known by another.
  void Remember(const SymInt& expression);

  // values[k] at point k; as many as points. None: nothing fits.
  std::optional<SymInt> Fit(absl::Span<const int64_t> values);

  // The same, but only multiples of known sizes and products, plus constants.
  std::optional<SymInt> FitLine(absl::Span<const int64_t> values) const;

  // `tolerance`: relative error of the values.
  std::optional<NumberFit> FitNumber(absl::Span<const double> values, double tolerance);

 private:
  using Samples = std::vector<int64_t>;
  struct Known {
    SymInt expression;
    Samples samples;
  };

  std::optional<Samples> SamplesOf(const SymInt& expression) const;
  std::optional<SymInt> Search(const Samples& values) const;
  // Multiples of what is rounded and products of four or more.
  std::optional<SymInt> FitLongProduct(const Samples& values) const;
  void AddProducts(size_t first_new);
  void AddProduct(const SymInt& a, const SymInt& b, std::vector<Known>& to);

  std::vector<DimVector> points_;
  size_t num_symbols_ = 0;
  // Symbols first; then what AddKnown() brought; distinct samples.
  std::vector<Known> known_;
  std::vector<Known> products_;  // of two and three known ones
  std::vector<Known> rounded_;   // those of Remember() that are quotients
  absl::flat_hash_map<Samples, bool> seen_;
  absl::flat_hash_map<Samples, std::optional<SymInt>> found_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_SIZE_FITTER_H_
