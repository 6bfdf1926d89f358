// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/capture.h"

namespace cotan::autograd {

void CaptureRecord::Sizes(absl::Span<const int64_t> values) {
  uint64_t classes = 1;  // two bits each: 0, 1, another number
  for (const int64_t value : values) {
    classes = classes * 4 + (value == 0 ? 0 : value == 1 ? 1 : 2);
    sizes_.push_back(value);
  }
  key_.push_back(values.size());
  key_.push_back(classes);
}

void CaptureRecord::Clear() {
  key_.clear();
  sizes_.clear();
  has_dynamic_sizes_ = false;
  inputs_.clear();
  outputs_.clear();
}

}  // namespace cotan::autograd
