// SPDX-License-Identifier: Apache-2.0

// Scores of a model's outputs on held-out data.
#ifndef COTAN_RUNTIME_TRAINING_SCORE_H_
#define COTAN_RUNTIME_TRAINING_SCORE_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "runtime/tensor/tensor.h"
#include "runtime/training/dataset.h"

namespace cotan::training {

enum class Metric : uint8_t {
  kAccuracy,          // share of predictions whose class has the largest output, in [0, 1]
  kCrossEntropy,      // mean of -log softmax(output)[class], in nats; outputs are logits
  kMeanSquaredError,  // mean of (output - target)^2
};

// Returns "accuracy", "cross_entropy" or "mse".
absl::string_view MetricName(Metric metric);
// Inverse of MetricName(). InvalidArgument: there is no such metric; the message lists all.
absl::StatusOr<Metric> ParseMetric(absl::string_view name);
inline bool LargerIsBetter(Metric metric) { return metric == Metric::kAccuracy; }

// The mean of a metric over batches, summed in order in f64. Copyable; not thread-safe.
class Score {
 public:
  explicit Score(Metric metric) : metric_(metric) {}

  // Adds the first rows.size() examples of the output of a batch of `batch` examples, whose first dimension counts
  // examples or their parts; their targets are the rows of `targets`. For classes the output is [n, classes, ...] and
  // each of the n * ... predictions has an integer in [0, classes) as target, as for LibTorch's cross_entropy().
  // InvalidArgument: the elements of output and targets do not fit, or a class is not such an integer; the message has
  // the example.
  // Unimplemented: the output or the targets are complex. Errors of Tensor::ToHost().
  absl::Status Add(const Tensor& output, int64_t batch, const Column& targets, absl::Span<const int64_t> rows);

  // Returns the mean; NaN if nothing was added.
  double value() const { return sum_ / static_cast<double>(count_); }
  int64_t count() const { return count_; }  // predictions or elements

 private:
  Metric metric_;
  double sum_ = 0;
  int64_t count_ = 0;
};

}  // namespace cotan::training

#endif  // COTAN_RUNTIME_TRAINING_SCORE_H_
