// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/pool/average_rows.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/simd/gemm_core.h"
#include "kernels/cpu/simd/simd.h"

namespace cotan::cpu {
namespace {

// A vector of kCount elements.
template <typename T, int64_t kCount>
struct Few {
  typedef T Values __attribute__((vector_size(kCount * sizeof(T))));
};

// The sizes of a row of the padded input and of the output.
struct Row {
  int64_t lanes;
  int64_t kernel;
  int64_t step;
  int64_t output;  // positions
};

// Adds count elements times `scale` to a row, or assigns them.
template <typename T>
[[gnu::always_inline]] inline void AddScaled(const T* __restrict from, T scale, int64_t count, bool assigns,
                                             T* __restrict to) {
  if (assigns) {
    for (int64_t i = 0; i < count; ++i) to[i] = from[i] * scale;
  } else {
    for (int64_t i = 0; i < count; ++i) to[i] += from[i] * scale;
  }
}

template <typename T>
COTAN_SIMD_VERSIONS void AddRow(const T* __restrict from, int64_t count, T* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

// Adds every kStep-th element of a row.
template <typename T, int kStep>
[[gnu::always_inline]] inline void AddEvery(const T* __restrict from, int64_t count, T* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i * kStep];
}

// Averages the windows of a row with one lane.
template <typename T>
COTAN_SIMD_VERSIONS void AverageSingle(const Row& row, const T* __restrict padded, T row_size,
                                       const T* __restrict sizes, T* __restrict result) {
  std::fill_n(result, row.output, T{0});
  for (int64_t tap = 0; tap < row.kernel; ++tap) {
    if (row.step == 1) {
      AddEvery<T, 1>(padded + tap, row.output, result);
    } else if (row.step == 2) {
      AddEvery<T, 2>(padded + tap, row.output, result);
    } else {
      for (int64_t w = 0; w < row.output; ++w) result[w] += padded[w * row.step + tap];
    }
  }
  for (int64_t w = 0; w < row.output; ++w) result[w] /= row_size * sizes[w];
}

// Averages the windows of a row. A vector may go beyond the lanes of a window: the next window overwrites what it wrote
// there, and the result has room for one vector more.
template <typename T, int64_t kCount>
COTAN_SIMD_VERSIONS void AverageLanes(const Row& row, const T* padded, T row_size, const T* sizes, T* result) {
  using Values = typename Few<T, kCount>::Values;
  for (int64_t w = 0; w < row.output; ++w, padded += row.step * row.lanes, result += row.lanes) {
    const T size = row_size * sizes[w];
    for (int64_t lane = 0; lane < row.lanes; lane += kCount) {
      Values sum;
      std::memcpy(&sum, padded + lane, sizeof(sum));
      for (int64_t tap = 1; tap < row.kernel; ++tap) {
        Values value;
        std::memcpy(&value, padded + tap * row.lanes + lane, sizeof(value));
        sum += value;
      }
      sum /= size;
      std::memcpy(result + lane, &sum, sizeof(sum));
    }
  }
}

// Adds a row of gradients, each divided by the size of its window.
template <typename T>
COTAN_SIMD_VERSIONS void AddGradients(const Row& row, const T* __restrict from, T row_size, const T* __restrict sizes,
                                      bool is_uniform, bool assigns, T* __restrict to) {
  if (is_uniform) return AddScaled(from, T{1} / (row_size * sizes[0]), row.output * row.lanes, assigns, to);
  if (row.lanes == 1) {
    for (int64_t w = 0; w < row.output; ++w) {
      to[w] = (assigns ? T{0} : to[w]) + from[w] * (T{1} / (row_size * sizes[w]));
    }
    return;
  }
  for (int64_t w = 0; w < row.output; ++w) {
    AddScaled(from + w * row.lanes, T{1} / (row_size * sizes[w]), row.lanes, assigns, to + w * row.lanes);
  }
}

// Adds the sums of all windows to their positions of a padded row with one lane.
template <typename T>
COTAN_SIMD_VERSIONS void SpreadSingle(const Row& row, const T* __restrict sums, int64_t positions,
                                      T* __restrict padded) {
  std::fill_n(padded, positions, T{0});
  if (row.kernel == 2 && row.step == 2) {
    for (int64_t w = 0; w < row.output; ++w) padded[2 * w] = padded[2 * w + 1] = sums[w];
    return;
  }
  for (int64_t tap = 0; tap < row.kernel; ++tap) {
    if (row.step == 1) {
      AddEvery<T, 1>(sums, row.output, padded + tap);
    } else {
      for (int64_t w = 0; w < row.output; ++w) padded[w * row.step + tap] += sums[w];
    }
  }
}

// Computes each input position of a row as the sum over the windows that contain it; vectors as in AverageLanes().
template <typename T, int64_t kCount>
COTAN_SIMD_VERSIONS void SpreadLanes(const Row& row, const std::vector<PoolRange>& covers, const T* sums, T* result) {
  using Values = typename Few<T, kCount>::Values;
  for (const PoolRange& windows : covers) {
    for (int64_t lane = 0; lane < row.lanes; lane += kCount) {
      Values sum = {};
      for (int64_t w = windows.begin; w < windows.end; ++w) {
        Values value;
        std::memcpy(&value, sums + w * row.lanes + lane, sizeof(value));
        sum += value;
      }
      std::memcpy(result + lane, &sum, sizeof(sum));
    }
    result += row.lanes;
  }
}

// Returns the output positions whose windows contain input position `at`.
PoolRange CoverOf(const PoolAxis& axis, int64_t at) {
  const int64_t position = at + axis.padding;
  const int64_t after_first = std::max<int64_t>(0, position - axis.kernel + axis.step);
  const int64_t begin = std::min(after_first / axis.step, axis.output);
  return {begin, std::max(begin, std::min(position / axis.step + 1, axis.output))};
}

Row RowOf(const PoolGeometry& g) { return {g.lanes.size, g.axes[2].kernel, g.axes[2].step, g.axes[2].output}; }

// Returns the positions of a padded row that windows contain.
int64_t Positions(const PoolAxis& axis) { return std::max<int64_t>(0, axis.output - 1) * axis.step + axis.kernel; }

}  // namespace

template <typename T>
bool AverageRows<T>::Takes(const PoolGeometry& g) {
  const PoolAxis& row = g.axes[2];
  const auto is_dense = [&](int64_t size, int64_t stride) { return size <= 1 || stride == g.lanes.size; };
  const bool has_few_lanes = g.lanes.size < kVectorSize<T> || g.lanes.size % (kVectorSize<T> / 2) != 0;
  const bool is_dilated = std::any_of(g.axes.begin(), g.axes.end(), [](const PoolAxis& a) { return a.dilation != 1; });
  return has_few_lanes && !is_dilated && is_dense(row.input, row.input_stride) &&
         is_dense(row.output, row.output_stride);
}

template <typename T>
AverageRows<T>::AverageRows(const PoolGeometry& g, const AverageDivisor& divisor) : g_(g), fixed_(divisor.fixed) {
  for (size_t d = 0; d < 3; ++d) {
    const PoolAxis& axis = g.axes[d];
    for (int64_t o = 0; o < axis.output; ++o) {
      sizes_[d].push_back(fixed_ != 0 ? T{1} : static_cast<T>(divisor.Along(axis, o)));
    }
    for (int64_t i = 0; i < axis.input; ++i) covers_[d].push_back(CoverOf(axis, i));
  }
  const PoolAxis& row = g.axes[2];
  inside_ = std::clamp<int64_t>(Positions(row) - row.padding, 0, row.input);
  const int64_t positions = std::max({Positions(row), row.padding + row.input, row.output});
  // Whole cache lines, so that threads share none.
  row_elements_ = (positions * g.lanes.size + 2 * kVectorSize<T> - 1) / kVectorSize<T> * kVectorSize<T>;
}

template <typename T>
void AverageRows<T>::BeginForward(T* scratch) const {
  std::fill_n(scratch, row_elements_, T{0});
}

template <typename T>
void AverageRows<T>::Forward(int64_t d, int64_t h, const T* input, T* scratch, T* output) const {
  const auto& axes = g_.axes;
  const WindowRange& depth = axes[0].windows[static_cast<size_t>(d)];
  const WindowRange& height = axes[1].windows[static_cast<size_t>(h)];
  const int64_t count = inside_ * g_.lanes.size;
  T* const inside = scratch + axes[2].padding * g_.lanes.size;
  bool is_first = true;
  for (int64_t kd = depth.begin; kd < depth.end; ++kd) {
    for (int64_t kh = height.begin; kh < height.end; ++kh) {
      const T* const from =
          input + (depth.origin + kd) * axes[0].input_stride + (height.origin + kh) * axes[1].input_stride;
      if (is_first) {
        std::copy_n(from, count, inside);
      } else {
        AddRow(from, count, inside);
      }
      is_first = false;
    }
  }
  if (is_first) std::fill_n(inside, count, T{0});
  const Row row = RowOf(g_);
  const T row_size =
      fixed_ != 0 ? static_cast<T>(fixed_) : sizes_[0][static_cast<size_t>(d)] * sizes_[1][static_cast<size_t>(h)];
  T* const result = scratch + row_elements_;
  if (row.lanes == 1) {
    AverageSingle(row, scratch, row_size, sizes_[2].data(), result);
  } else if (row.lanes <= kVectorSize<T> / 2) {
    AverageLanes<T, kVectorSize<T> / 2>(row, scratch, row_size, sizes_[2].data(), result);
  } else {
    AverageLanes<T, kVectorSize<T>>(row, scratch, row_size, sizes_[2].data(), result);
  }
  std::copy_n(result, row.output * row.lanes, output);
}

template <typename T>
void AverageRows<T>::Backward(const T* grad_output, T* scratch, T* grad_input) const {
  const auto& axes = g_.axes;
  const Row row = RowOf(g_);
  const std::vector<T>& sizes = sizes_[2];
  const bool is_uniform = std::all_of(sizes.begin(), sizes.end(), [&](T size) { return size == sizes.front(); });
  T* const sums = scratch;
  T* const result = scratch + row_elements_;
  // A row with one lane is computed with its padding.
  const T* const inside = row.lanes == 1 ? result + axes[2].padding : result;
  const auto compute = [&](const PoolRange& depth, const PoolRange& height) {
    bool is_first = true;
    for (int64_t d = depth.begin; d < depth.end; ++d) {
      for (int64_t h = height.begin; h < height.end; ++h) {
        const T row_size = fixed_ != 0 ? static_cast<T>(fixed_)
                                       : sizes_[0][static_cast<size_t>(d)] * sizes_[1][static_cast<size_t>(h)];
        AddGradients(row, grad_output + d * axes[0].output_stride + h * axes[1].output_stride, row_size, sizes.data(),
                     is_uniform, is_first, sums);
        is_first = false;
      }
    }
    if (is_first) std::fill_n(sums, row.output * row.lanes, T{0});
    if (row.lanes == 1) {
      SpreadSingle(row, sums, row_elements_ - kVectorSize<T>, result);
    } else if (row.lanes <= kVectorSize<T> / 2) {
      SpreadLanes<T, kVectorSize<T> / 2>(row, covers_[2], sums, result);
    } else {
      SpreadLanes<T, kVectorSize<T>>(row, covers_[2], sums, result);
    }
  };
  for (int64_t d = 0; d < axes[0].input; ++d) {
    for (int64_t h = 0; h < axes[1].input; ++h) {
      const PoolRange& height = covers_[1][static_cast<size_t>(h)];
      // Rows of the same windows are equal.
      if (h == 0 || height != covers_[1][static_cast<size_t>(h - 1)])
        compute(covers_[0][static_cast<size_t>(d)], height);
      std::copy_n(inside, axes[2].input * row.lanes, grad_input + d * axes[0].input_stride + h * axes[1].input_stride);
    }
  }
}

template class AverageRows<float>;
template class AverageRows<double>;

}  // namespace cotan::cpu
