// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/captured_layout.h"

#include <utility>

#include "base/status_macros.h"

namespace cotan::autograd {

view::AsStrided ReadLayout(const CaptureEmitter& emitter, int rank, int& next) {
  view::AsStrided layout = {.sizes = emitter.Sizes(next, rank),
                            .strides = emitter.Sizes(next + rank, rank),
                            .offset = emitter.Size(next + 2 * rank)};
  next += 2 * rank + 1;
  return layout;
}

}  // namespace cotan::autograd
