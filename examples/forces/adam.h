// SPDX-License-Identifier: Apache-2.0

// Adam in the training program, for parameters that a compiled step does not update.
#ifndef COTAN_EXAMPLES_FORCES_ADAM_H_
#define COTAN_EXAMPLES_FORCES_ADAM_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace cotan::forces {

// The moments of one parameter.
class Adam {
 public:
  explicit Adam(double learning_rate) : learning_rate_(learning_rate) {}

  // Updates `values` by the gradient of a loss, as torch::optim::Adam with its default options. All calls have equally
  // many values.
  void Step(absl::Span<float> values, absl::Span<const float> gradient);

 private:
  const double learning_rate_;
  int64_t steps_ = 0;
  std::vector<float> means_, squares_;
};

}  // namespace cotan::forces

#endif  // COTAN_EXAMPLES_FORCES_ADAM_H_
