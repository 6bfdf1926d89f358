// SPDX-License-Identifier: Apache-2.0

// The curve of a training run: loss and scores by step, as a picture.
#ifndef COTAN_RUNTIME_TRAINING_LOSS_CURVE_H_
#define COTAN_RUNTIME_TRAINING_LOSS_CURVE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace cotan::training {

// Points of a curve in bounded memory: each is the mean of equally many values in a row, twice as many whenever the
// points become too many. Copyable; not thread-safe.
class CurvePoints {
 public:
  static constexpr size_t kMaxPoints = 1024;
  struct Point {
    double step = 0;
    double value = 0;
    friend bool operator==(const Point&, const Point&) = default;
  };

  // Adds a value; one that is not finite is ignored.
  void Add(int64_t step, double value);
  // Returns the points so far, the last one possibly of fewer values than the others.
  std::vector<Point> points() const;

  // Convert to numbers for a checkpoint and back. InvalidArgument: not the result of ToNumbers().
  std::vector<double> ToNumbers() const;
  static absl::StatusOr<CurvePoints> FromNumbers(absl::Span<const double> numbers);

 private:
  double values_per_point_ = 1;
  double pending_values_ = 0;  // of the sums below
  Point pending_sum_;
  std::vector<Point> points_;
};

// Returns a self-contained SVG of the losses, with the scores, if there are some, on an axis of their own at the right.
// `title` and `score_name` are any UTF-8 text.
std::string LossCurveSvg(absl::string_view title, const CurvePoints& losses, absl::string_view score_name,
                         const CurvePoints& scores);

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_LOSS_CURVE_H_
