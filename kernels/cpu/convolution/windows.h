// SPDX-License-Identifier: Apache-2.0

// The windows of images as the rows of a matrix (im2col), gathered block by block.
#ifndef COTAN_KERNELS_CPU_CONVOLUTION_WINDOWS_H_
#define COTAN_KERNELS_CPU_CONVOLUTION_WINDOWS_H_

#include <cstdint>
#include <vector>

namespace cotan::cpu {

// One spatial dimension: the window at position p holds the elements p * step + offsets[t] of the images, and zeros in
// place of those outside of [0, size).
struct WindowAxis {
  int64_t size = 1;
  int64_t positions = 1;
  int64_t step = 1;
  std::vector<int64_t> offsets = {0};
};

// The windows of a batch of f32 images, dense channels last, [images, rows, columns, channels].
class Windows {
 public:
  Windows(int64_t channels, WindowAxis rows, WindowAxis columns);

  // Returns the windows of an image.
  int64_t Positions() const { return rows_.positions * columns_.positions; }
  // Returns the floats of a window, [taps along the rows, taps along the columns, channels].
  int64_t Floats() const;

  // Returns true if the windows are the pixels of the images, in their order.
  bool ArePixels() const { return IsIdentity(rows_) && IsIdentity(columns_); }

  // Copies windows [begin, end) of the batch to consecutive rows of `matrix`.
  void Gather(const float* images, int64_t begin, int64_t end, float* matrix) const;

 private:
  // Taps whose offsets are consecutive, so that their elements are in one piece of an image.
  struct Run {
    int64_t offset;
    int64_t taps;
  };

  static bool IsIdentity(const WindowAxis& axis);
  void GatherRow(const float* row, int64_t begin, int64_t end, float* to) const;

  int64_t channels_;
  WindowAxis rows_;
  WindowAxis columns_;
  std::vector<Run> runs_;  // of columns_
};

// Copies `pieces` pieces of `count` floats, `from_step` and `to_step` floats apart.
void CopyPieces(const float* from, int64_t from_step, int64_t pieces, int64_t count, float* to, int64_t to_step);

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_CONVOLUTION_WINDOWS_H_
