// A pool's index space as loops: outer dimensions, lanes, three spatial axes.
#ifndef COTAN_KERNELS_CPU_POOL_POOL_GEOMETRY_H_
#define COTAN_KERNELS_CPU_POOL_POOL_GEOMETRY_H_

#include <array>
#include <cstdint>
#include <vector>

#include "base/layout.h"
#include "serialization/schema/program.pb.h"

namespace cotan::cpu {

// Taps [begin, end) of a window that lie inside the input along one axis, and
// the input position of tap 0 (negative within the padding).
struct WindowRange {
  int64_t origin;
  int64_t begin;
  int64_t end;
};

// One spatial axis. Strides of memory count elements.
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

  // Window() of each output position; filled by PoolGeometry.
  std::vector<WindowRange> windows;

  WindowRange Window(int64_t output_position) const;
  // Size of the window cut at the padded input's end, as count_include_pad
  // counts it.
  int64_t PaddedSize(int64_t output_position) const;
};

// A dimension in front of the spatial ones.
struct PoolLoop {
  int64_t size = 1;
  int64_t input = 0;
  int64_t output = 0;
  int64_t index = 0;
};

struct PoolOffsets {
  int64_t input;
  int64_t output;
  int64_t index;
};

// `lanes` is the dimension in front of the spatial ones that is dense in all
// operands; of size 1 if there is none.
struct PoolGeometry {
  std::vector<PoolLoop> outer;
  PoolLoop lanes;
  std::array<PoolAxis, 3> axes;  // depth, height, width; unused ones have size 1

  // Geometry of `op` on layouts of the pool's input and output; `index` is the
  // layout of the indices or equals `output`.
  PoolGeometry(const serialization::Pool& op, const StridedLayout& input, const StridedLayout& output,
               const StridedLayout& index);

  // Whether each input element lies in one window at most, and in exactly one.
  bool WindowsAreDisjoint() const;
  bool WindowsTile() const;

  int64_t OuterCount() const;
  PoolOffsets OuterOffsets(int64_t position) const;
  // Elements of the output.
  int64_t OutputCount() const;
  // Comparisons or additions of one run.
  double Work() const;
};

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_POOL_POOL_GEOMETRY_H_
