// SPDX-License-Identifier: Apache-2.0

// NanCheck: refuses a captured backward whose gradients are NaN (anomaly mode with check_nan in
// torch/_dynamo/compiled_autograd.py).
#ifndef COTAN_RUNTIME_COMPILED_AUTOGRAD_NAN_CHECK_H_
#define COTAN_RUNTIME_COMPILED_AUTOGRAD_NAN_CHECK_H_

#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/autograd/node.h"
#include "runtime/autograd/variable.h"
#include "runtime/tensor/tensor.h"

namespace cotan {

// Returns whether an element is NaN; false for integers. Copies a tensor of a device. Errors as Tensor::ToHost().
absl::StatusOr<bool> HasNan(const Tensor& tensor);

// Used for one backward. Not thread-safe.
class NanCheck {
 public:
  // Call it before the node runs. FailedPrecondition: the node is the accumulation of a leaf whose grad() is NaN.
  absl::Status Before(const autograd::Node& node);
  // Call it after the backward. FailedPrecondition: grad() of a leaf that took part, or one of `outputs`, is NaN; the
  // message says which.
  absl::Status After(absl::Span<const Tensor> outputs) const;

 private:
  std::vector<Variable> leaves_;  // in the order of their accumulations
};

}  // namespace cotan

#endif  // COTAN_RUNTIME_COMPILED_AUTOGRAD_NAN_CHECK_H_
