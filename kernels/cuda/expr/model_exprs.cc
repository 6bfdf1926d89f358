// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/expr/model_exprs.h"

#include <memory>

#include "kernels/testing/expr_builder.h"
#include "kernels/testing/random_case.h"

namespace cotan::cuda::testing {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many
using cotan::testing::DenseLayout;
using cotan::testing::ExprBuilder;
using cotan::testing::HostTensor;

constexpr DType kF32 = DType::kFloat32;

void AddInput(ExprCase& expr, DType dtype, const StridedLayout& layout, std::mt19937_64& random, double low = -1,
              double high = 1) {
  expr.inputs.push_back(std::make_unique<HostTensor>(cotan::testing::RandomTensor(dtype, layout, random, low, high)));
}

void AddOutput(ExprCase& expr, DType dtype, const StridedLayout& layout) {
  expr.outputs.push_back(std::make_unique<HostTensor>(dtype, layout));
}

// Returns the layout of [batch, channels, height, width].
StridedLayout ImageLayout(const std::vector<int64_t>& sizes, bool channels_last) {
  const std::vector<int64_t> nhwc = {0, 2, 3, 1};
  return channels_last ? DenseLayout(sizes, nhwc) : DenseLayout(sizes);
}

StridedLayout RowMajor(const std::vector<int64_t>& sizes) { return DenseLayout(sizes); }

}  // namespace

ExprCase Softmax(DType dtype, int64_t rows, int64_t columns, std::mt19937_64& random) {
  const int reduce[] = {1};
  ExprBuilder b({rows, columns}, reduce);
  const int x = b.Cast(b.Input(0, dtype), dtype == DType::kFloat64 ? dtype : kF32);
  const int e = b.Apply(FN_EXP, {b.Sub(x, b.Max(x))});
  b.Output(b.Cast(b.Div(e, b.Sum(e)), dtype));
  ExprCase expr;
  expr.op = b.Build();
  AddInput(expr, dtype, RowMajor({rows, columns}), random, -3, 3);
  AddOutput(expr, dtype, RowMajor({rows, columns}));
  return expr;
}

ExprCase LayerNorm(DType dtype, int64_t rows, int64_t columns, std::mt19937_64& random) {
  const int reduce[] = {1};
  ExprBuilder b({rows, columns}, reduce);
  const int x = b.Cast(b.Input(0, dtype), kF32);
  const int scale = b.Constant(kF32, 1.0 / static_cast<double>(columns));
  const int centered = b.Sub(x, b.Mul(b.Sum(x), scale));
  const int variance = b.Mul(b.Sum(b.Mul(centered, centered)), scale);
  const int rstd = b.Apply(FN_RSQRT, {b.Add(variance, b.Constant(kF32, 1e-5))});
  const int y = b.Mul(b.Mul(centered, rstd), b.Cast(b.Input(1, dtype), kF32));
  b.Output(b.Cast(b.Add(y, b.Cast(b.Input(2, dtype), kF32)), dtype));
  ExprCase expr;
  expr.op = b.Build();
  AddInput(expr, dtype, RowMajor({rows, columns}), random);
  AddInput(expr, dtype, RowMajor({columns}), random);
  AddInput(expr, dtype, RowMajor({columns}), random);
  AddOutput(expr, dtype, RowMajor({rows, columns}));
  return expr;
}

ExprCase BatchNorm(const std::vector<int64_t>& sizes, bool channels_last, std::mt19937_64& random) {
  const int reduce[] = {0, 2, 3};
  ExprBuilder b(sizes, reduce);
  const int x = b.Input(0, kF32);
  const int scale = b.Constant(kF32, 1.0 / static_cast<double>(sizes[0] * sizes[2] * sizes[3]));
  const int mean = b.Mul(b.Sum(x), scale);
  const int centered = b.Sub(x, mean);
  const int variance = b.Mul(b.Sum(b.Mul(centered, centered)), scale);
  const int rstd = b.Apply(FN_RSQRT, {b.Add(variance, b.Constant(kF32, 1e-5))});
  b.Output(b.Apply(FN_RELU, {b.Add(b.Mul(b.Mul(centered, rstd), b.Input(1, kF32)), b.Input(2, kF32))}));
  b.Output(b.Add(b.Mul(b.Input(3, kF32), b.Constant(kF32, 0.9)), b.Mul(mean, b.Constant(kF32, 0.1))));
  ExprCase expr;
  expr.op = b.Build();
  const StridedLayout layout = ImageLayout(sizes, channels_last);
  const StridedLayout channels = RowMajor({1, sizes[1], 1, 1});
  AddInput(expr, kF32, layout, random);
  for (int i = 0; i < 3; ++i) AddInput(expr, kF32, channels, random);
  AddOutput(expr, kF32, layout);
  AddOutput(expr, kF32, channels);
  return expr;
}

ExprCase BatchNormBackward(const std::vector<int64_t>& sizes, bool channels_last, std::mt19937_64& random) {
  const int reduce[] = {0, 2, 3};
  ExprBuilder b(sizes, reduce);
  const int scale = b.Constant(kF32, 1.0 / static_cast<double>(sizes[0] * sizes[2] * sizes[3]));
  const int gradient = b.Apply(FN_SELECT, {b.Input(1, DType::kBool), b.Constant(kF32, 0), b.Input(0, kF32)});
  const int rstd = b.Input(4, kF32);
  const int centered = b.Sub(b.Input(2, kF32), b.Input(3, kF32));
  const int bias = b.Sum(gradient);
  const int weight = b.Mul(b.Sum(b.Mul(gradient, centered)), rstd);
  const int along = b.Mul(b.Mul(b.Mul(centered, rstd), weight), scale);
  const int inner = b.Sub(b.Sub(gradient, b.Mul(bias, scale)), along);
  b.Output(b.Mul(inner, b.Mul(b.Input(5, kF32), rstd)));
  b.Output(weight);
  b.Output(bias);
  ExprCase expr;
  expr.op = b.Build();
  const StridedLayout layout = ImageLayout(sizes, channels_last);
  const StridedLayout channels = RowMajor({1, sizes[1], 1, 1});
  AddInput(expr, kF32, layout, random);
  AddInput(expr, DType::kBool, layout, random, 0, 2);
  AddInput(expr, kF32, layout, random);
  for (int i = 0; i < 3; ++i) AddInput(expr, kF32, channels, random);
  AddOutput(expr, kF32, layout);
  for (int i = 0; i < 2; ++i) AddOutput(expr, kF32, channels);
  return expr;
}

ExprCase LayerNormBackward(int64_t rows, int64_t columns, std::mt19937_64& random) {
  const int reduce[] = {1};
  ExprBuilder b({rows, columns}, reduce);
  const int scale = b.Constant(kF32, 1.0 / static_cast<double>(columns));
  const int weighted = b.Mul(b.Input(0, kF32), b.Input(4, kF32));
  const int normalized = b.Mul(b.Sub(b.Input(1, kF32), b.Input(2, kF32)), b.Input(3, kF32));
  const int mean = b.Mul(b.Sum(weighted), scale);
  const int along = b.Mul(b.Sum(b.Mul(weighted, normalized)), scale);
  b.Output(b.Mul(b.Sub(b.Sub(weighted, mean), b.Mul(normalized, along)), b.Input(3, kF32)));
  ExprCase expr;
  expr.op = b.Build();
  for (int i = 0; i < 2; ++i) AddInput(expr, kF32, RowMajor({rows, columns}), random);
  for (int i = 0; i < 2; ++i) AddInput(expr, kF32, RowMajor({rows, 1}), random);
  AddInput(expr, kF32, RowMajor({columns}), random);
  AddOutput(expr, kF32, RowMajor({rows, columns}));
  return expr;
}

ExprCase ColumnSum(DType dtype, int64_t rows, int64_t columns, std::mt19937_64& random) {
  const int reduce[] = {0};
  ExprBuilder b({rows, columns}, reduce);
  b.Output(b.Sum(b.Input(0, dtype)));
  ExprCase expr;
  expr.op = b.Build();
  AddInput(expr, dtype, RowMajor({rows, columns}), random, -100, 100);
  AddOutput(expr, dtype, RowMajor({1, columns}));
  return expr;
}

ExprCase BiasUpdate(int64_t rows, int64_t columns, std::mt19937_64& random) {
  const int reduce[] = {0};
  ExprBuilder b({rows, columns}, reduce);
  const int gradient = b.Sum(b.Input(0, kF32));
  const int momentum = b.Add(b.Mul(b.Input(2, kF32), b.Constant(kF32, 0.9)), gradient);
  b.Output(b.Sub(b.Input(1, kF32), b.Mul(momentum, b.Constant(kF32, 0.01))));
  b.Output(momentum);
  ExprCase expr;
  expr.op = b.Build();
  AddInput(expr, kF32, RowMajor({rows, columns}), random);
  for (int i = 0; i < 2; ++i) AddInput(expr, kF32, RowMajor({1, columns}), random);
  for (int i = 0; i < 2; ++i) AddOutput(expr, kF32, RowMajor({1, columns}));
  return expr;
}

ExprCase MeanSquare(int64_t count, std::mt19937_64& random) {
  const int reduce[] = {0};
  ExprBuilder b({count}, reduce);
  const int x = b.Input(0, kF32);
  b.Output(b.Mul(b.Sum(b.Mul(x, x)), b.Constant(kF32, 1.0 / static_cast<double>(count))));
  ExprCase expr;
  expr.op = b.Build();
  AddInput(expr, kF32, RowMajor({count}), random);
  AddOutput(expr, kF32, RowMajor({1}));
  return expr;
}

ExprCase CrossEntropy(int64_t rows, int64_t classes, std::mt19937_64& random) {
  const int reduce[] = {1};
  ExprBuilder b({rows, classes}, reduce);
  const int x = b.Input(0, kF32);
  const int shifted = b.Sub(x, b.Max(x));
  const int log_sum = b.Apply(FN_LOG, {b.Sum(b.Apply(FN_EXP, {shifted}))});
  const int is_label = b.Apply(FN_EQ, {b.Iota(DType::kInt64, 1), b.Input(1, DType::kInt64)});
  const int picked = b.Sum(b.Apply(FN_SELECT, {is_label, b.Sub(log_sum, shifted), b.Constant(kF32, 0)}));
  b.Output(picked);
  ExprCase expr;
  expr.op = b.Build();
  AddInput(expr, kF32, RowMajor({rows, classes}), random, -3, 3);
  AddInput(expr, DType::kInt64, RowMajor({rows, 1}), random, 0, static_cast<double>(classes));
  AddOutput(expr, kF32, RowMajor({rows, 1}));
  return expr;
}

ExprCase Adam(DType dtype, int64_t count, std::mt19937_64& random) {
  ExprBuilder b({count});
  const int gradient = b.Input(3, dtype);
  const auto mix = [&](int a, int c, double beta) {
    return b.Add(b.Mul(a, b.Constant(dtype, beta)), b.Mul(c, b.Constant(dtype, 1 - beta)));
  };
  const int mean = mix(b.Input(1, dtype), gradient, 0.875);
  const int variance = mix(b.Input(2, dtype), b.Mul(gradient, gradient), 0.75);
  const int step = b.Div(mean, b.Add(b.Apply(FN_SQRT, {variance}), b.Constant(dtype, 1e-3)));
  b.Output(b.Sub(b.Input(0, dtype), b.Mul(step, b.Constant(dtype, 0.125))));
  b.Output(mean);
  b.Output(variance);
  ExprCase expr;
  expr.op = b.Build();
  for (int i = 0; i < 4; ++i) AddInput(expr, dtype, RowMajor({count}), random, i == 2 ? 0 : -1, 1);
  for (int i = 0; i < 3; ++i) AddOutput(expr, dtype, RowMajor({count}));
  return expr;
}

ExprCase Dropout(const std::vector<int64_t>& sizes, std::mt19937_64& random) {
  ExprBuilder b(sizes);
  const int mask = b.Apply(FN_LT, {b.Random(1, "123"), b.Constant(kF32, 0.75)});
  const int scaled = b.Div(b.Input(0, kF32), b.Constant(kF32, 0.75));
  b.Output(b.Apply(FN_SELECT, {mask, scaled, b.Constant(kF32, 0)}));
  b.Output(mask);
  ExprCase expr;
  expr.op = b.Build();
  AddInput(expr, kF32, RowMajor(sizes), random);
  expr.inputs.push_back(std::make_unique<HostTensor>(DType::kInt64, std::vector<int64_t>{2},
                                                     std::vector<double>{static_cast<double>(1ull << 40) + 7, 5e9}));
  AddOutput(expr, kF32, RowMajor(sizes));
  AddOutput(expr, DType::kBool, RowMajor(sizes));
  return expr;
}

}  // namespace cotan::cuda::testing
