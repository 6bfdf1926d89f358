// SPDX-License-Identifier: Apache-2.0

// Sliding windows along a dimension, of convolution and pooling.
#ifndef COTAN_AOT_DYNAMIC_WINDOW_H_
#define COTAN_AOT_DYNAMIC_WINDOW_H_

#include <cstdint>

#include "base/sym_int.h"

namespace cotan::aot {

struct Window {
  int64_t kernel = 1;
  int64_t stride = 1;
  int64_t padding = 0;  // on both sides
  int64_t dilation = 1;
  bool ceil_mode = false;
};

// Returns the number of windows in a dimension of `size`. In ceil_mode it includes a last window
// that is entirely in the padding, which LibTorch drops.
inline SymInt WindowCount(const SymInt& size, const Window& window) {
  const int64_t reach = window.dilation * (window.kernel - 1) + 1;
  const int64_t round_up = window.ceil_mode ? window.stride - 1 : 0;
  const SymInt room = size + SymInt(2 * window.padding - reach + round_up);
  return SymInt::Binary(SymInt::Kind::kFloorDiv, room, window.stride) + SymInt(1);
}

}  // namespace cotan::aot

#endif  // COTAN_AOT_DYNAMIC_WINDOW_H_
