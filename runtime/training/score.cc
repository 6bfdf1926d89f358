// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/score.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/tensor/scalar.h"

namespace cotan::training {
namespace {

// Appends `count` elements from element `first` on of a row-major tensor on the host.
absl::Status AppendNumbers(const Tensor& tensor, int64_t first, int64_t count, std::vector<double>& numbers) {
  if (IsComplex(tensor.dtype())) {
    return absl::UnimplementedError(absl::StrCat("scores of ", tensor.ToString(), " are not supported"));
  }
  const size_t size = ByteSize(tensor.dtype());
  const char* bytes = static_cast<const char*>(tensor.address()) + static_cast<size_t>(first) * size;
  for (int64_t i = 0; i < count; ++i, bytes += size) {
    COTAN_ASSIGN_OR_RETURN(const double number, DecodeScalar({bytes, size}, tensor.dtype()));
    numbers.push_back(number);
  }
  return absl::OkStatus();
}

// Returns -log softmax(logits)[target] of logits that are `stride` elements apart.
double CrossEntropy(const double* logits, int64_t classes, int64_t stride, int64_t target) {
  double largest = logits[0];
  for (int64_t c = 1; c < classes; ++c) largest = std::max(largest, logits[c * stride]);
  double sum = 0;
  for (int64_t c = 0; c < classes; ++c) sum += std::exp(logits[c * stride] - largest);
  return largest + std::log(sum) - logits[target * stride];
}

int64_t LargestClass(const double* outputs, int64_t classes, int64_t stride) {
  int64_t largest = 0;
  for (int64_t c = 1; c < classes; ++c) {
    if (outputs[c * stride] > outputs[largest * stride]) largest = c;
  }
  return largest;
}

absl::Status DoesNotFit(const Tensor& output, const Column& targets, int64_t batch) {
  return absl::InvalidArgumentError(absl::StrCat("output ", output.ToString(), " of a batch of ", batch,
                                                 " does not fit the targets '", targets.name, "', ",
                                                 targets.values.ToString(), "; is --metric the right one?"));
}

}  // namespace

absl::string_view MetricName(Metric metric) {
  switch (metric) {
    case Metric::kAccuracy:
      return "accuracy";
    case Metric::kCrossEntropy:
      return "cross_entropy";
    case Metric::kMeanSquaredError:
      return "mse";
  }
  return "";
}

absl::StatusOr<Metric> ParseMetric(absl::string_view name) {
  for (const Metric metric : {Metric::kAccuracy, Metric::kCrossEntropy, Metric::kMeanSquaredError}) {
    if (MetricName(metric) == name) return metric;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("there is no metric '", name, "'; there are: accuracy, cross_entropy, mse"));
}

absl::Status Score::Add(const Tensor& output, int64_t batch, const Column& targets, absl::Span<const int64_t> rows) {
  COTAN_ASSIGN_OR_RETURN(const Tensor host, output.ToHost());
  const int64_t per_example = targets.example_elements();
  std::vector<double> outputs, expected;
  COTAN_RETURN_IF_ERROR(AppendNumbers(host, 0, host.num_elements(), outputs));
  for (const int64_t row : rows) {
    COTAN_RETURN_IF_ERROR(AppendNumbers(targets.values, row * per_example, per_example, expected));
  }
  if (metric_ == Metric::kMeanSquaredError) {
    if (host.num_elements() != batch * per_example) return DoesNotFit(output, targets, batch);
    for (size_t i = 0; i < expected.size(); ++i) sum_ += (outputs[i] - expected[i]) * (outputs[i] - expected[i]);
    count_ += static_cast<int64_t>(expected.size());
    return absl::OkStatus();
  }
  const int64_t classes = host.sizes().size() < 2 ? 0 : host.sizes()[1];
  if (classes == 0 || host.num_elements() != batch * per_example * classes) return DoesNotFit(output, targets, batch);
  const int64_t stride = NumElements(host.sizes().subspan(2));
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!(expected[i] >= 0 && expected[i] < static_cast<double>(classes)) || std::floor(expected[i]) != expected[i]) {
      const int64_t example = rows[i / static_cast<size_t>(per_example)];
      return absl::InvalidArgumentError(absl::StrCat("targets '", targets.name, "', example ", example, ": class ",
                                                     expected[i], " is not an integer in [0, ", classes, ")"));
    }
    const auto place = static_cast<int64_t>(i), target = static_cast<int64_t>(expected[i]);
    const double* first = &outputs[static_cast<size_t>(place / stride * stride * classes + place % stride)];
    sum_ += metric_ == Metric::kAccuracy ? static_cast<double>(LargestClass(first, classes, stride) == target)
                                         : CrossEntropy(first, classes, stride, target);
  }
  count_ += static_cast<int64_t>(expected.size());
  return absl::OkStatus();
}

}  // namespace cotan::training
