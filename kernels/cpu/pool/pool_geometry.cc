// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/pool/pool_geometry.h"

#include <algorithm>

namespace cotan::cpu {

WindowRange PoolAxis::Window(int64_t output_position) const {
  const int64_t origin = output_position * step - padding;
  const int64_t begin = origin >= 0 ? 0 : (-origin + dilation - 1) / dilation;
  const int64_t end = origin >= input ? 0 : (input - 1 - origin) / dilation + 1;
  return {origin, begin, std::max(begin, std::min(kernel, end))};
}

int64_t PoolAxis::PaddedSize(int64_t output_position) const {
  const int64_t origin = output_position * step - padding;
  return std::min(kernel, input + padding - origin);
}

PoolGeometry::PoolGeometry(const serialization::Pool& op, const StridedLayout& input, const StridedLayout& output,
                           const StridedLayout& index) {
  const int spatial = op.kernel_size();
  const auto leading = input.sizes.size() - static_cast<size_t>(spatial);
  for (int d = 0; d < spatial; ++d) {
    const size_t at = leading + static_cast<size_t>(d);
    PoolAxis& axis = axes[static_cast<size_t>(3 - spatial + d)];
    axis = {input.sizes[at],   output.sizes[at],
            op.kernel(d),      op.stride(d),
            op.padding(d),     op.dilation_size() == 0 ? 1 : op.dilation(d),
            input.strides[at], output.strides[at],
            index.strides[at], {}};
    for (int64_t o = 0; o < axis.output; ++o) axis.windows.push_back(axis.Window(o));
  }
  for (int d = 0; d < 3 - spatial; ++d) axes[static_cast<size_t>(d)].windows = {{0, 0, 1}};
  for (size_t d = 0; d < leading; ++d) {
    const PoolLoop loop{input.sizes[d], input.strides[d], output.strides[d], index.strides[d]};
    if (loop.size == 1) continue;
    // Strides of an empty tensor may repeat.
    if (loop.size > 1 && loop.input == 1 && loop.output == 1 && loop.index == 1) {
      lanes = loop;
    } else {
      outer.push_back(loop);
    }
  }
}

bool PoolGeometry::WindowsAreDisjoint() const {
  return std::all_of(axes.begin(), axes.end(),
                     [](const PoolAxis& axis) { return axis.step >= axis.kernel && axis.dilation == 1; });
}

bool PoolGeometry::WindowsTile() const {
  return WindowsAreDisjoint() && std::all_of(axes.begin(), axes.end(), [](const PoolAxis& axis) {
           return axis.step == axis.kernel && axis.padding == 0 && axis.output * axis.step >= axis.input;
         });
}

int64_t PoolGeometry::OuterCount() const {
  int64_t count = 1;
  for (const PoolLoop& loop : outer) count *= loop.size;
  return count;
}

PoolOffsets PoolGeometry::OuterOffsets(int64_t position) const {
  PoolOffsets offsets{0, 0, 0};
  for (size_t d = outer.size(); d-- > 0;) {
    const int64_t i = position % outer[d].size;
    position /= outer[d].size;
    offsets.input += i * outer[d].input;
    offsets.output += i * outer[d].output;
    offsets.index += i * outer[d].index;
  }
  return offsets;
}

int64_t PoolGeometry::OutputCount() const {
  return OuterCount() * lanes.size * axes[0].output * axes[1].output * axes[2].output;
}

double PoolGeometry::Work() const {
  return static_cast<double>(OutputCount()) * static_cast<double>(axes[0].kernel * axes[1].kernel * axes[2].kernel);
}

}  // namespace cotan::cpu
