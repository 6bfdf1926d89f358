// SPDX-License-Identifier: Apache-2.0

// Windows that are gathered in parts: blocks of windows, each with some of its taps.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_WINDOW_PARTS_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_WINDOW_PARTS_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "kernels/cpu/convolution/windows.h"

namespace cotan::cpu {

// The windows of a batch, cut by taps. Blocks of them are the left or right matrices of products (avx512_gemm.h).
class WindowParts {
 public:
  // Cuts the taps of each window into parts of `row_taps` x `column_taps`, of which the last ones may have fewer.
  WindowParts(int64_t channels, const WindowAxis& rows, const WindowAxis& columns, int64_t row_taps,
              int64_t column_taps);

  // Returns the number of parts, in the order of the taps.
  int64_t Count() const { return static_cast<int64_t>(parts_.size()); }
  const Windows& operator[](int64_t part) const { return parts_[static_cast<size_t>(part)]; }
  // Returns the windows of an image.
  int64_t Positions() const { return parts_[0].Positions(); }
  // Returns the floats of a window in the first part, which has the most.
  int64_t Floats() const { return parts_[0].Floats(); }

  // Returns how many of `count` windows a block has, so that it stays in the second-level cache. The last block may
  // have fewer.
  int64_t BlockWindows(int64_t count) const;

 private:
  std::vector<Windows> parts_;
};

// The windows of a block are a multiple of it, unless there is one block only: a multiple of the rows of all tiles of
// the product.
inline constexpr int64_t kBlockMultiple = 24;

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_WINDOW_PARTS_H_
