// SPDX-License-Identifier: Apache-2.0

#include "runtime/compiled_autograd/segment.h"

namespace cotan {

void Segment::Clear() {
  record.Clear();
  arrivals.clear();
  nodes.clear();
  outputs.clear();
  results.clear();
  num_results = 0;
}

}  // namespace cotan
