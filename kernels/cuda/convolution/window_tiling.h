// SPDX-License-Identifier: Apache-2.0

// How blocks of threads compute a convolution: chosen from sizes alone, so that results do not depend on the GPU.
#ifndef COTAN_KERNELS_CUDA_CONVOLUTION_WINDOW_TILING_H_
#define COTAN_KERNELS_CUDA_CONVOLUTION_WINDOW_TILING_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/convolution/window_geometry.h"

namespace cotan::cuda {

// A box of images, rows and columns of the result; a thread has `pixels` neighbouring columns.
struct WindowBox {
  int64_t images = 1;
  int64_t rows = 1;
  int64_t columns = 1;
  int64_t pixels = 1;
};

// The parameters of WindowTiling in convolution_windows.cuh.
struct WindowTiling {
  WindowBox box;
  int64_t tile_channels = 0;
  int64_t thread_channels = 0;
  int64_t vector = 0;
  int64_t loaded = 0;
  int64_t slices = 1;
  int64_t slice_vectors = 1;
  int64_t stages = 2;

  std::string Text() const;    // the template arguments
  int64_t NumWorkers() const;  // threads of a block that multiply
  int64_t NumThreads() const;  // of a block: whole warps
  int64_t NumBlocks(const WindowGeometry& geometry) const;
  int64_t SharedBytes(const WindowGeometry& geometry) const;  // of a block
};

// The parameters of WeightTiling in convolution_weights.cuh.
struct WeightTiling {
  WindowBox box;
  int64_t tile_channels = 0;
  int64_t thread_channels = 0;
  int64_t tile_sources = 0;
  int64_t vector = 0;
  int64_t slices = 1;
  int64_t stages = 2;
  int64_t splits = 1;

  std::string Text() const;
  int64_t NumWorkers(const WindowGeometry& geometry) const;
  int64_t NumThreads(const WindowGeometry& geometry) const;
  int64_t NumTiles(const WindowGeometry& geometry) const;
  int64_t SharedBytes(const WindowGeometry& geometry) const;
  int64_t NumPartialElements(const WindowGeometry& geometry) const;  // in the scratch
};

// Return a tiling for the parts of a problem, or of the gradient of its weights. Nothing: the kernel is so large that
// none fits.
std::optional<WindowTiling> ChooseWindowTiling(const std::vector<WindowGeometry>& parts);
std::optional<WeightTiling> ChooseWeightTiling(const WindowGeometry& geometry);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_CONVOLUTION_WINDOW_TILING_H_
