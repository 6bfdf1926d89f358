// SPDX-License-Identifier: Apache-2.0

// The index space of a pool as loops: outer dimensions, lanes, three spatial axes.
#ifndef COTAN_KERNELS_CPU_POOL_POOL_GEOMETRY_H_
#define COTAN_KERNELS_CPU_POOL_POOL_GEOMETRY_H_

#include <array>
#include <cstdint>
#include <vector>

#include "base/layout.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cpu {

// The taps [begin, end) of a window that are inside the input along one axis, and the input position of tap 0
// (negative within the padding).
struct WindowRange {
  int64_t origin;
  int64_t begin;
  int64_t end;
};

// One spatial axis: sizes of input, output and kernel, the attributes of the pool, and the strides of the
// operands in elements.
struct PoolAxis {
  int64_t input = 1;
  int64_t output = 1;
  int64_t kernel = 1;
  int64_t step = 1;
  int64_t padding = 0;
  int64_t dilation = 1;
  int64_t input_stride = 0;
  int64_t output_stride = 0;
  int64_t index_stride = 0;

  // Window() of each output position; filled by the constructor of PoolGeometry.
  std::vector<WindowRange> windows;

  // Returns the taps of the window of an output position.
  WindowRange Window(int64_t output_position) const;
  // Returns the size of the window, cut at the end of the padded input: the divisor along this axis with
  // count_include_pad (pool_size in ATen's AvgPoolKernel.cpp).
  int64_t PaddedSize(int64_t output_position) const;
};

// A dimension before the spatial ones: its size and its strides in input, output and index, in elements.
struct PoolLoop {
  int64_t size = 1;
  int64_t input = 0;
  int64_t output = 0;
  int64_t index = 0;
};

// Offsets into input, output and index, in elements.
struct PoolOffsets {
  int64_t input;
  int64_t output;
  int64_t index;
};

// The loops of a pool. `lanes` is the dimension before the spatial ones that has stride 1 in all operands
// (the channels of channels-last operands); its size is 1 if there is none.
struct PoolGeometry {
  std::vector<PoolLoop> outer;
  PoolLoop lanes;
  std::array<PoolAxis, 3> axes;  // depth, height, width; missing ones have size 1

  // Describes `op` on the layouts of the pool's input and output; `index` is the layout of the indices, or
  // `output` if there are none.
  PoolGeometry(const serialization::Pool& op, const StridedLayout& input, const StridedLayout& output,
               const StridedLayout& index);

  // Returns true if each input element is in at most one window.
  bool WindowsAreDisjoint() const;
  // Returns true if each input element is in exactly one window.
  bool WindowsTile() const;

  // Returns the number of iterations of the outer loops.
  int64_t OuterCount() const;
  // Returns the offsets of iteration `position` of the outer loops.
  PoolOffsets OuterOffsets(int64_t position) const;
  // Returns the number of elements of the output.
  int64_t OutputCount() const;
  // Returns the number of comparisons or additions in one run.
  double Work() const;
};

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_POOL_POOL_GEOMETRY_H_
