// SPDX-License-Identifier: Apache-2.0

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "kernels/api/op_check.h"
#include "testing/fuzz/write_ops.h"

namespace cotan::testing {
namespace {

using serialization::Convolution;
using serialization::Op;
using serialization::Pool;

// Returns images f32[N, C, H, W] of which C, H and W are constants of at least 2.
TypedValue Images(MethodWriter& w) {
  const auto fits = [](const TypedValue& v) {
    if (v.dtype != DType::kFloat32 || v.sizes.size() != 4) return false;
    for (size_t d = 1; d < 4; ++d) {
      if (!v.sizes[d].is_constant() || v.sizes[d].constant() < 2) return false;
    }
    return MaxElements(v.sizes) > 0;
  };
  const std::optional<TypedValue> found = w.Find(fits);
  if (found.has_value()) return w.Clamped(*found, kClampedBound);
  const SymInt batch = w.choices().OneIn(2) ? SymInt::Symbol(0) : SymInt(2);
  const auto size = [&](size_t least) { return SymInt(static_cast<int64_t>(least + w.choices().Below(4))); };
  const SymInt channels = w.choices().OneIn(2) ? 4 : 2, height = size(2), width = size(3);
  return w.Operand(DType::kFloat32, {batch, channels, height, width}, kClampedBound);
}

// A convolution [N, C, H, W] -> `output` with this weight.
struct Windows {
  Convolution op;
  SymSizes weight;
  SymSizes output;
};

std::optional<Windows> RandomWindows(MethodWriter& w, const SymSizes& input) {
  Windows windows;
  const int64_t groups = w.choices().OneIn(4) && input[1].constant() % 2 == 0 ? 2 : 1;
  windows.op.set_groups(groups);
  windows.weight = {SymInt(groups * static_cast<int64_t>(1 + w.choices().Below(3))),
                    SymInt(input[1].constant() / groups)};
  windows.output = {input[0], windows.weight[0]};
  for (int d = 0; d < 2; ++d) {
    const auto kernel = static_cast<int64_t>(1 + w.choices().Below(2));
    windows.op.add_stride(static_cast<int64_t>(1 + w.choices().Below(2)));
    windows.op.add_padding(static_cast<int64_t>(w.choices().Below(2)));
    windows.op.add_dilation(1);
    windows.op.add_output_padding(0);
    windows.weight.emplace_back(kernel);
    const int64_t size = ConvolutionOutputSize(windows.op, d, input[static_cast<size_t>(d) + 2].constant(), kernel);
    if (size < 1) return std::nullopt;
    windows.output.emplace_back(size);
  }
  if (MaxElements(windows.output) > kMaxValueElements) return std::nullopt;
  return windows;
}

}  // namespace

void WriteConvolution(MethodWriter& w) {
  const TypedValue input = Images(w);
  const std::optional<Windows> windows = RandomWindows(w, input.sizes);
  if (!windows.has_value()) return;
  constexpr double kBound = kClampedBound * kClampedBound * kMaxValueElements;
  Op op;
  switch (w.choices().Below(3)) {
    case 0: {
      const TypedValue grad = w.Operand(DType::kFloat32, windows->output, kClampedBound);
      const TypedValue weight = w.Operand(DType::kFloat32, windows->weight, kClampedBound);
      *op.mutable_convolution_backward_input()->mutable_forward() = windows->op;
      return w.Add(std::move(op), {grad, weight}, {w.Result(DType::kFloat32, input.sizes, kBound)});
    }
    case 1: {
      const TypedValue grad = w.Operand(DType::kFloat32, windows->output, kClampedBound);
      *op.mutable_convolution_backward_weight()->mutable_forward() = windows->op;
      return w.Add(std::move(op), {grad, input}, {w.Result(DType::kFloat32, windows->weight, kBound)});
    }
    default: {
      std::vector<TypedValue> operands = {input, w.Operand(DType::kFloat32, windows->weight, kClampedBound)};
      if (w.choices().OneIn(2)) operands.push_back(w.Operand(DType::kFloat32, {windows->weight[0]}, kClampedBound));
      *op.mutable_convolution() = windows->op;
      return w.Add(std::move(op), operands, {w.Result(DType::kFloat32, windows->output, kBound)});
    }
  }
}

void WritePool(MethodWriter& w) {
  const TypedValue input = Images(w);
  Pool pool;
  SymSizes sizes = input.sizes;
  for (int d = 0; d < 2; ++d) {
    pool.add_kernel(2);
    pool.add_stride(static_cast<int64_t>(1 + w.choices().Below(2)));
    pool.add_padding(static_cast<int64_t>(w.choices().Below(2)));
    pool.add_dilation(1);
    const size_t axis = static_cast<size_t>(d) + 2;
    sizes[axis] = PoolOutputSize(pool, d, sizes[axis].constant());
  }
  Op op;
  if (w.choices().OneIn(4)) {
    // Its results are multiples of 1/4; a divisor of 1 keeps them integers.
    pool.set_divisor_override(1);
    *op.mutable_avg_pool() = pool;
    return w.Add(std::move(op), {input}, {w.Result(DType::kFloat32, sizes, 4 * kClampedBound)});
  }
  *op.mutable_max_pool() = pool;
  if (w.choices().OneIn(2)) {
    return w.Add(std::move(op), {input}, {w.Result(DType::kFloat32, sizes, input.bound)});
  }
  const TypedValue values = w.Result(DType::kFloat32, sizes, input.bound);
  const DType index_dtype = pool.stride(0) == 1 ? DType::kInt32 : DType::kInt64;
  const TypedValue indices = w.Result(index_dtype, sizes, kMaxValueElements);
  w.Add(std::move(op), {input}, {values, indices});
  if (w.choices().OneIn(2)) return;
  Op backward;
  *backward.mutable_max_pool_backward() = pool;
  const TypedValue grad = w.Operand(DType::kFloat32, sizes, kClampedBound);
  w.Add(std::move(backward), {grad, indices}, {w.Result(DType::kFloat32, input.sizes, 4 * kClampedBound)});
}

}  // namespace cotan::testing
