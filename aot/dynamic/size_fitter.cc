// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/size_fitter.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace cotan::aot {
namespace {

__extension__ using Int128 = __int128;

// More known sizes than this are not multiplied with each other.
constexpr size_t kMaxFactors = 64;
constexpr int64_t kMaxDivisor = 64;

using Samples = std::vector<int64_t>;

// slope = numerator / denominator, reduced, denominator > 0.
struct Slope {
  int64_t numerator = 0;
  int64_t denominator = 1;
};

// Returns the slope of y over x, if all points are on one line that is not constant.
std::optional<Slope> SlopeOf(const Samples& x, absl::Span<const int64_t> y) {
  size_t other = 1;
  while (other < x.size() && x[other] == x[0]) ++other;
  if (other == x.size()) return std::nullopt;
  const Int128 dx = Int128{x[other]} - x[0];
  const Int128 dy = Int128{y[other]} - y[0];
  if (dy == 0) return std::nullopt;
  for (size_t k = 1; k < x.size(); ++k) {
    if ((Int128{y[k]} - y[0]) * dx != dy * (Int128{x[k]} - x[0])) return std::nullopt;
  }
  const auto numerator = static_cast<int64_t>(dx < 0 ? -dy : dy);
  const auto denominator = static_cast<int64_t>(dx < 0 ? -dx : dx);
  const int64_t common = std::gcd(numerator, denominator);
  return Slope{numerator / common, denominator / common};
}

SymInt FloorDiv(const SymInt& a, int64_t b) { return SymInt::Binary(SymInt::Kind::kFloorDiv, a, b); }

// Returns (slope.numerator * expression + offset) // slope.denominator, with the offset that gives
// y at x.
SymInt Line(const SymInt& expression, const Slope& slope, int64_t x, int64_t y) {
  const int64_t offset = slope.denominator * y - slope.numerator * x;
  return FloorDiv(expression * SymInt(slope.numerator) + SymInt(offset), slope.denominator);
}

// Fits y = (a x + b) // c with the smallest c for which a and b exist.
std::optional<SymInt> RoundedLine(const SymInt& expression, const Samples& x, absl::Span<const int64_t> y) {
  const auto [low, high] = std::minmax_element(x.begin(), x.end());
  if (*low == *high) return std::nullopt;
  const auto rise =
      static_cast<double>(y[static_cast<size_t>(high - x.begin())] - y[static_cast<size_t>(low - x.begin())]);
  const double slope = rise / static_cast<double>(*high - *low);
  if (slope <= 0) return std::nullopt;
  for (int64_t c = 2; c <= kMaxDivisor; ++c) {
    const auto guess = std::llround(slope * static_cast<double>(c));
    for (const int64_t a : {guess, guess - 1, guess + 1}) {
      if (a <= 0 || std::gcd(a, c) != 1) continue;
      // The range of offsets that all points allow.
      int64_t from = std::numeric_limits<int64_t>::min();
      int64_t to = std::numeric_limits<int64_t>::max();
      for (size_t k = 0; k < x.size(); ++k) {
        from = std::max(from, c * y[k] - a * x[k]);
        to = std::min(to, c * y[k] - a * x[k] + c - 1);
      }
      if (from > to) continue;
      // Prefers the offsets of rounding down and up.
      int64_t offset = from;
      for (const int64_t usual : {int64_t{0}, c - 1}) {
        if (usual >= from && usual <= to) {
          offset = usual;
          break;
        }
      }
      return FloorDiv(expression * SymInt(a) + SymInt(offset), c);
    }
  }
  return std::nullopt;
}

// Returns the factor with values = factor * a * b at all points; none if there is none.
std::optional<int64_t> FactorOf(const Samples& a, const Samples& b, const Samples& values) {
  const Int128 unit = Int128{a[0]} * b[0];
  if (values[0] == 0 || unit == 0 || values[0] % unit != 0) return std::nullopt;
  const auto factor = static_cast<int64_t>(values[0] / unit);
  for (size_t k = 1; k < values.size(); ++k) {
    if (values[k] != Int128{factor} * a[k] * b[k]) return std::nullopt;
  }
  return factor;
}

// Returns factor and offset with y = offset + factor * x at all points; none if there are none.
std::optional<std::pair<double, double>> FloatLine(const std::vector<double>& x, const std::vector<double>& y,
                                                   double tolerance) {
  const auto fits = [&](double factor, double offset) {
    for (size_t k = 0; k < x.size(); ++k) {
      const double value = offset + factor * x[k];
      if (!(std::abs(value - y[k]) <= tolerance * std::abs(y[k]))) return false;
    }
    return true;
  };
  const double ratio = y[0] / x[0];
  const double whole = std::round(ratio);
  if (whole != 0 && fits(whole, 0)) return std::make_pair(whole, 0.0);
  if (fits(ratio, 0)) return std::make_pair(ratio, 0.0);
  const auto far = static_cast<size_t>(
      std::max_element(x.begin() + 1, x.end(),
                       [&](double a, double b) { return std::abs(a - x[0]) < std::abs(b - x[0]); }) -
      x.begin());
  if (x[far] == x[0]) return std::nullopt;
  const double factor = (y[far] - y[0]) / (x[far] - x[0]);
  const double offset = y[0] - factor * x[0];
  if (fits(std::round(factor), std::round(offset))) return std::make_pair(std::round(factor), std::round(offset));
  if (fits(factor, offset)) return std::make_pair(factor, offset);
  return std::nullopt;
}

}  // namespace

double NumberFit::Evaluate(int64_t size_value) const {
  auto x = static_cast<double>(size_value);
  if (of_root) x = std::sqrt(x);
  if (of_reciprocal) x = 1 / x;
  const double value = offset + factor * x;
  return is_reciprocal ? 1 / value : value;
}

SizeFitter::SizeFitter(std::vector<DimVector> points) : points_(std::move(points)) {
  num_symbols_ = points_.empty() ? 0 : points_[0].size();
  for (size_t i = 0; i < num_symbols_; ++i) AddKnown(SymInt::Symbol(static_cast<int>(i)));
}

std::optional<Samples> SizeFitter::SamplesOf(const SymInt& expression) const {
  Samples samples;
  for (const DimVector& point : points_) {
    const absl::StatusOr<int64_t> value = expression.Evaluate(point);
    if (!value.ok()) return std::nullopt;
    samples.push_back(*value);
  }
  return samples;
}

void SizeFitter::AddProduct(const SymInt& a, const SymInt& b, std::vector<Known>& to) {
  const SymInt product = a * b;
  std::optional<Samples> samples = SamplesOf(product);
  if (!samples.has_value() || !seen_.try_emplace(*samples, true).second) return;
  to.push_back({product, *std::move(samples)});
}

void SizeFitter::AddKnown(const SymInt& expression) {
  if (expression.is_constant()) return;
  std::optional<Samples> samples = SamplesOf(expression);
  if (!samples.has_value()) return;
  const bool is_known =
      std::any_of(known_.begin(), known_.end(), [&](const Known& k) { return k.samples == *samples; });
  if (is_known) return;
  // Keeps an expression that was found for these values before.
  const auto found = found_.find(*samples);
  const SymInt& known = found != found_.end() && found->second.has_value() ? *found->second : expression;
  seen_.try_emplace(*samples, true);
  found_[*samples] = known;
  known_.push_back({known, *std::move(samples)});
  // Values that did not fit may fit now.
  absl::erase_if(found_, [](const auto& entry) { return !entry.second.has_value(); });
  if (known_.size() <= kMaxFactors) AddProducts(known_.size() - 1);
}

void SizeFitter::AddProducts(size_t first_new) {
  const SymInt added = known_[first_new].expression;
  std::vector<Known> pairs;
  for (size_t i = 0; i <= first_new; ++i) AddProduct(known_[i].expression, added, pairs);
  std::vector<Known> triples;
  for (size_t i = 0; i < num_symbols_ && i <= first_new; ++i) {
    for (const Known& pair : pairs) AddProduct(known_[i].expression, pair.expression, triples);
  }
  products_.insert(products_.end(), pairs.begin(), pairs.end());
  products_.insert(products_.end(), triples.begin(), triples.end());
}

std::optional<SymInt> SizeFitter::Fit(absl::Span<const int64_t> values) {
  if (std::all_of(values.begin(), values.end(), [&](int64_t value) { return value == values[0]; })) {
    return SymInt(values[0]);
  }
  const Samples samples(values.begin(), values.end());
  const auto [entry, is_new] = found_.try_emplace(samples);
  if (is_new) entry->second = Search(samples);
  return entry->second;
}

void SizeFitter::Remember(const SymInt& expression) {
  const std::optional<Samples> samples = SamplesOf(expression);
  if (!samples.has_value() || expression.is_constant()) return;
  std::optional<SymInt>& found = found_[*samples];
  if (!found.has_value()) found = expression;
  if (expression.kind() == SymInt::Kind::kFloorDiv) rounded_.push_back({expression, *samples});
}

std::optional<SymInt> SizeFitter::FitLine(absl::Span<const int64_t> values) const {
  if (std::all_of(values.begin(), values.end(), [&](int64_t value) { return value == values[0]; })) {
    return SymInt(values[0]);
  }
  for (const bool with_offset : {false, true}) {
    for (const std::vector<Known>* list : {&known_, &products_}) {
      for (const Known& known : *list) {
        const std::optional<Slope> slope = SlopeOf(known.samples, values);
        if (!slope.has_value() || slope->denominator != 1) continue;
        const bool is_multiple = values[0] == slope->numerator * known.samples[0];
        if (is_multiple || with_offset) return Line(known.expression, *slope, known.samples[0], values[0]);
      }
    }
  }
  return std::nullopt;
}

std::optional<SymInt> SizeFitter::FitLongProduct(const Samples& values) const {
  for (const std::vector<Known>* first : {&rounded_, &products_}) {
    if (first->size() > kMaxFactors) continue;
    for (const Known& a : *first) {
      for (const std::vector<Known>* second : {&known_, &products_}) {
        for (const Known& b : *second) {
          const std::optional<int64_t> factor = FactorOf(a.samples, b.samples, values);
          if (factor.has_value()) return a.expression * b.expression * SymInt(*factor);
        }
      }
    }
  }
  return std::nullopt;
}

std::optional<SymInt> SizeFitter::Search(const Samples& values) const {
  if (std::optional<SymInt> line = FitLine(values)) return line;
  for (const std::vector<Known>* list : {&known_, &products_}) {
    for (const Known& known : *list) {
      if (const auto line = RoundedLine(known.expression, known.samples, values)) return line;
    }
  }
  if (std::optional<SymInt> product = FitLongProduct(values)) return product;
  // Sums of two: three unknowns.
  if (points_.size() < 4) return std::nullopt;
  for (size_t i = 0; i < known_.size(); ++i) {
    for (const std::vector<Known>* list : {&known_, &products_}) {
      for (const Known& other : *list) {
        const Samples& u = known_[i].samples;
        const Samples& v = other.samples;
        const Int128 du1 = u[1] - u[0], du2 = u[2] - u[0], dv1 = v[1] - v[0], dv2 = v[2] - v[0];
        const Int128 dy1 = values[1] - values[0], dy2 = values[2] - values[0];
        const Int128 determinant = du1 * dv2 - du2 * dv1;
        if (determinant == 0) continue;
        const Int128 a = dy1 * dv2 - dy2 * dv1;
        const Int128 b = du1 * dy2 - du2 * dy1;
        if (a == 0 || b == 0 || a % determinant != 0 || b % determinant != 0) continue;
        const auto factor = static_cast<int64_t>(a / determinant);
        const auto other_factor = static_cast<int64_t>(b / determinant);
        const int64_t offset = values[0] - factor * u[0] - other_factor * v[0];
        bool fits = true;
        for (size_t k = 3; k < values.size(); ++k) {
          fits = fits && values[k] == factor * u[k] + other_factor * v[k] + offset;
        }
        if (fits) {
          return known_[i].expression * SymInt(factor) + other.expression * SymInt(other_factor) + SymInt(offset);
        }
      }
    }
  }
  return std::nullopt;
}

std::optional<NumberFit> SizeFitter::FitNumber(absl::Span<const double> values, double tolerance) {
  const auto is_usable = [](double value) { return std::isfinite(value) && value != 0; };
  if (!std::all_of(values.begin(), values.end(), is_usable)) return std::nullopt;
  std::vector<double> number(values.begin(), values.end());
  std::vector<double> reciprocal;
  for (const double value : values) reciprocal.push_back(1 / value);
  struct Form {
    bool is_reciprocal, of_root, of_reciprocal;
  };
  constexpr Form kForms[] = {{true, false, false}, {false, false, false}, {true, false, true}, {false, false, true},
                             {true, true, false},  {false, true, false},  {true, true, true},  {false, true, true}};
  // Prefers a plain multiple to a multiple plus a constant.
  for (const bool with_offset : {false, true}) {
    for (const Form& form : kForms) {
      for (const std::vector<Known>* list : {&known_, &products_}) {
        for (const Known& known : *list) {
          std::vector<double> x;
          for (const int64_t sample : known.samples) {
            const double root = form.of_root ? std::sqrt(static_cast<double>(sample)) : static_cast<double>(sample);
            x.push_back(form.of_reciprocal ? 1 / root : root);
          }
          const auto line = FloatLine(x, form.is_reciprocal ? reciprocal : number, tolerance);
          if (!line.has_value() || (line->second != 0) != with_offset) continue;
          return NumberFit{known.expression,   form.of_root, form.of_reciprocal,
                           form.is_reciprocal, line->first,  line->second};
        }
      }
    }
  }
  return std::nullopt;
}

}  // namespace cotan::aot
