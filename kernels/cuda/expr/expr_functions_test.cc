// SPDX-License-Identifier: Apache-2.0

// Compares each scalar function on each dtype with the reference.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/test_seed.h"
#include "gtest/gtest.h"
#include "kernels/api/expr_program.h"
#include "kernels/cuda/expr/expr_case.h"
#include "kernels/testing/expr_builder.h"

namespace cotan::cuda::testing {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many
using cotan::testing::ExprBuilder;
using cotan::testing::HostTensor;
using Values = std::vector<double>;

constexpr DType kAllDTypes[] = {DType::kBool,  DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,
                                DType::kInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

std::vector<DType> WithEightBitFloats() {
  std::vector<DType> dtypes(std::begin(kAllDTypes), std::end(kAllDTypes));
  dtypes.insert(dtypes.end(), {DType::kFloat8E4m3fn, DType::kFloat8E5m2});
  return dtypes;
}

Values FloatValues(DType dtype) {
  Values values = {0.0,  -0.0, kInfinity, -kInfinity, kNan, 1.0,  -1.0,  2.0,    -2.0,   0.5,    -0.5,  1.5,
                   2.5,  -2.5, 3.0,       10.0,       -10., 0.25, 100.0, -1e-3,  1e-3,   0.999,  -0.75, 7.0,
                   -7.0, 20.5, -88.0,     300.0,      -5.5, 1e4,  -1e4,  1.4616, 0.3125, -0.125, 6.25,  1e-7};
  if (dtype == DType::kFloat16) values.insert(values.end(), {6e-8, -6e-8, 65504, 1e-5});
  if (dtype == DType::kBFloat16 || dtype == DType::kFloat32) {
    values.insert(values.end(), {1e-40, -1e-40, 3e38, 1e-38, 1e10, 65535.5, -65537, 123456789, 1e20, -3e38});
  }
  if (dtype == DType::kFloat64) values.insert(values.end(), {5e-324, -1e-310, 1e308, 1e-308, 1e10, 123456.789});
  return values;
}

Values IntegerValues(DType dtype) {
  switch (dtype) {
    case DType::kBool:
      return {0, 1};
    case DType::kUInt8:
      return {0, 1, 2, 3, 7, 8, 100, 127, 128, 254, 255};
    case DType::kInt8:
      return {0, 1, -1, 2, -2, 3, 7, -7, 8, 100, 127, -128, -127};
    case DType::kInt16:
      return {0, 1, -1, 2, -3, 7, 15, 16, 300, 32767, -32768};
    case DType::kInt32:
      return {0, 1, -1, 2, -3, 7, 31, 32, 46341, 2147483647, -2147483648.0};
    default:
      return {0, 1, -1, 2, -3, 7, 63, 64, 4e9, -9223372036854775808.0, 4611686018427387904.0};
  }
}

Values ValuesOf(DType dtype) { return IsFloatingPoint(dtype) ? FloatValues(dtype) : IntegerValues(dtype); }

// Returns the error allowed for a function, in units of eps of the result.
double Bound(ScalarFn fn, DType dtype) {
  if (!IsFloatingPoint(dtype)) return 0;
  const bool is_half = dtype == DType::kFloat16 || dtype == DType::kBFloat16;
  if (ExprCostOf(fn) <= ExprCost::kQuotient || ExprCostOf(fn) == ExprCost::kRemainder) return fn == FN_RSQRT ? 1 : 0;
  if (is_half) return 1;
  return fn == FN_LGAMMA || fn == FN_DIGAMMA ? 8 : 4;
}

double SmallestNormal(DType dtype) {
  return dtype == DType::kFloat16 ? 0x1p-14 : dtype == DType::kFloat64 ? 0x1p-1022 : 0x1p-126;
}

// The functions of one expression, whose outputs are compared.
void ExpectReference(const std::vector<ScalarFn>& fns, DType dtype, int arity) {
  const Values values = ValuesOf(dtype);
  const auto n = static_cast<int64_t>(values.size());
  const std::vector<int64_t> sizes = arity == 1 ? std::vector<int64_t>{n} : std::vector<int64_t>{n, n};
  ExprCase expr;
  ExprBuilder b(sizes);
  std::vector<int> inputs = {b.Input(0, dtype)};
  if (arity == 2) inputs.push_back(b.Input(1, dtype));
  for (const ScalarFn fn : fns) {
    const int node = arity == 1 ? b.Apply(fn, {inputs[0]}) : b.Apply(fn, {inputs[0], inputs[1]});
    b.Output(node);
    expr.outputs.push_back(std::make_unique<HostTensor>(b.dtype(node), sizes));
  }
  expr.op = b.Build();
  if (arity == 2) expr.inputs.push_back(std::make_unique<HostTensor>(dtype, std::vector<int64_t>{n, 1}, values));
  expr.inputs.push_back(std::make_unique<HostTensor>(dtype, std::vector<int64_t>{n}, values));
  const Tensors expected = expr.Reference();
  const Tensors actual = expr.Run();
  const Values a = expr.inputs[0]->Values();
  for (size_t k = 0; k < fns.size(); ++k) {
    const Values e = expected[k]->Values();
    const Values f = actual[k]->Values();
    const DType result = expected[k]->dtype();
    const double unit = Epsilon(result) * Bound(fns[k], result);
    const double floor = fns[k] == FN_LGAMMA || fns[k] == FN_DIGAMMA ? 1 : SmallestNormal(result);
    for (size_t i = 0; i < e.size(); ++i) {
      if (e[i] == f[i] || (std::isnan(e[i]) && std::isnan(f[i]))) continue;
      double bound = unit * std::max(std::abs(e[i]), floor);
      // The reference rounds the quotient in f64 down, kernels of f32 the quotient in f32.
      const bool is_quotient = fns[k] == FN_TRUNC_DIV || fns[k] == FN_FLOOR_DIV;
      if (is_quotient && result == DType::kFloat32) bound = std::max(1.0, Epsilon(result) * std::abs(e[i]));
      EXPECT_LE(std::abs(e[i] - f[i]), bound)
          << ExprFnName(fns[k]) << " of " << DTypeName(dtype) << " " << values[i % values.size()]
          << (arity == 2 ? " (second operand), " + std::to_string(values[i / values.size()]) : "") << ": expected "
          << e[i] << ", found " << f[i];
    }
  }
}

// Returns the functions of `arity` operands that take the dtype, at most `limit` per list.
std::vector<std::vector<ScalarFn>> FunctionsOf(DType dtype, int arity, size_t limit) {
  std::vector<std::vector<ScalarFn>> lists;
  for (int i = FN_NEG; i <= FN_SHIFT_RIGHT; ++i) {
    if (!ScalarFn_IsValid(i) || ExprArity(static_cast<ScalarFn>(i)) != arity) continue;
    const auto fn = static_cast<ScalarFn>(i);
    ExprBuilder b({1});
    const int a = b.Input(0, dtype);
    b.Output(arity == 1 ? b.Apply(fn, {a}) : b.Apply(fn, {a, a}));
    const TensorSpec in[] = {HostTensor(dtype, {1}).spec()};
    const TensorSpec out[] = {HostTensor(b.dtype(b.size() - 1), {1}).spec()};
    const Op op = b.Build();
    if (!ResolveExpr({.op = op, .inputs = in, .outputs = out, .symbols = {}}).ok()) continue;
    if (lists.empty() || lists.back().size() >= limit) lists.emplace_back();
    lists.back().push_back(fn);
  }
  return lists;
}

class ExprFunctionsTest : public ::testing::TestWithParam<DType> {};

TEST_P(ExprFunctionsTest, UnaryFunctionsEqualTheReference) {
  for (const auto& fns : FunctionsOf(GetParam(), 1, 12)) ExpectReference(fns, GetParam(), 1);
}

TEST_P(ExprFunctionsTest, BinaryFunctionsEqualTheReference) {
  for (const auto& fns : FunctionsOf(GetParam(), 2, 8)) ExpectReference(fns, GetParam(), 2);
}

TEST_P(ExprFunctionsTest, CastsEqualTheReference) {
  const DType from = GetParam();
  const Values values = ValuesOf(from);
  const std::vector<int64_t> sizes = {static_cast<int64_t>(values.size())};
  ExprCase expr;
  ExprBuilder b(sizes);
  const int x = b.Input(0, from);
  for (const DType to : WithEightBitFloats()) {
    b.Output(b.Cast(x, to));
    expr.outputs.push_back(std::make_unique<HostTensor>(to, sizes));
  }
  expr.op = b.Build();
  expr.inputs.push_back(std::make_unique<HostTensor>(from, sizes, values));
  EXPECT_EQ(Difference(expr.Reference(), expr.Run()), "");
}

INSTANTIATE_TEST_SUITE_P(AllDTypes, ExprFunctionsTest, ::testing::ValuesIn(kAllDTypes),
                         [](const auto& info) { return std::string(DTypeName(info.param)); });

// Expects the values of the reference, and equal bits of the first `num_exact` outputs that are 8-bit floats. A NaN
// that is computed has another sign on a GPU.
void ExpectEqual(const ExprCase& expr, size_t num_exact) {
  const Tensors expected = expr.Reference(), actual = expr.Run();
  EXPECT_EQ(Difference(expected, actual), "");
  for (size_t k = 0; k < num_exact; ++k) {
    if (!IsStorageOnly(expected[k]->dtype())) continue;
    EXPECT_EQ(expected[k]->bytes(), actual[k]->bytes()) << "output " << k;
  }
}

// Every value of the formats, and f32 values of random bits and near the limits.
// NVRTC replaces a comparison and a choice by the rectified value, which is NaN here.
TEST(ExprNanTest, TheOtherOperandReplacesARectifiedNan) {
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    ExprCase expr;
    ExprBuilder b({2});
    const int x = b.Apply(serialization::FN_RELU, {b.Input(0, dtype)});
    b.Output(b.Apply(serialization::FN_FMAX, {x, b.Constant(dtype, 0)}));
    b.Output(b.Apply(serialization::FN_FMIN, {x, b.Constant(dtype, 0)}));
    for (int k = 0; k < 2; ++k) expr.outputs.push_back(std::make_unique<HostTensor>(dtype, std::vector<int64_t>{2}));
    expr.op = b.Build();
    expr.inputs.push_back(std::make_unique<HostTensor>(dtype, std::vector<int64_t>{2}, Values{NAN, 3}));
    EXPECT_EQ(Difference(expr.Reference(), expr.Run()), "");
  }
}

TEST(ExprFloat8Test, ConversionsHaveTheBitsOfTheReference) {
  std::mt19937 random(static_cast<uint32_t>(cotan::testing::TestSeed()));
  for (const DType narrow : {DType::kFloat8E4m3fn, DType::kFloat8E5m2}) {
    SCOPED_TRACE(DTypeName(narrow));
    ExprCase load;
    ExprBuilder widen({256});
    const int x = widen.Input(0, narrow);
    for (const DType to : WithEightBitFloats()) {
      widen.Output(widen.Cast(x, to));
      load.outputs.push_back(std::make_unique<HostTensor>(to, std::vector<int64_t>{256}));
    }
    load.op = widen.Build();
    load.inputs.push_back(std::make_unique<HostTensor>(narrow, std::vector<int64_t>{256}));
    for (int i = 0; i < 256; ++i) static_cast<uint8_t*>(load.inputs[0]->data())[i] = static_cast<uint8_t>(i);
    ExpectEqual(load, load.outputs.size());

    constexpr int64_t kCount = 8192;
    ExprCase store;
    ExprBuilder b({kCount});
    const int scaled = b.Cast(b.Mul(b.Input(0, DType::kFloat32), b.Constant(DType::kFloat32, 1.5)), narrow);
    b.Output(b.Cast(b.Input(0, DType::kFloat32), narrow));
    b.Output(scaled);
    b.Output(b.Cast(scaled, DType::kFloat32));
    for (const DType to : {narrow, narrow, DType::kFloat32}) {
      store.outputs.push_back(std::make_unique<HostTensor>(to, std::vector<int64_t>{kCount}));
    }
    store.op = b.Build();
    Values values;
    for (int64_t i = 0; i < kCount; ++i) {
      const auto any = std::bit_cast<float>(static_cast<uint32_t>(random()));
      const float near = std::ldexp(static_cast<float>(random() % 64) / 8 - 4, static_cast<int>(random() % 30) - 18);
      values.push_back(i % 2 == 0 ? any : near);
    }
    store.inputs.push_back(std::make_unique<HostTensor>(DType::kFloat32, std::vector<int64_t>{kCount}, values));
    ExpectEqual(store, 1);
  }
}

TEST(ExprReductionsTest, EachReductionOfEachDTypeEqualsTheReference) {
  std::mt19937_64 random(cotan::testing::TestSeed());
  for (const DType dtype : kAllDTypes) {
    for (const std::pair<int64_t, int64_t>& sizes : {std::pair<int64_t, int64_t>{5, 37}, {3, 0}}) {
      for (const int dim : {0, 1}) {
        const int reduce[] = {dim};
        ExprCase expr;
        ExprBuilder b({sizes.first, sizes.second}, reduce);
        const int x = b.Input(0, dtype);
        const std::vector<int64_t> reduced = {dim == 0 ? 1 : sizes.first, dim == 1 ? 1 : sizes.second};
        for (const ScalarFn fn : {FN_REDUCE_SUM, FN_REDUCE_PROD, FN_REDUCE_MAX, FN_REDUCE_MIN}) {
          b.Output(b.Apply(fn, {x}));
          expr.outputs.push_back(std::make_unique<HostTensor>(dtype, reduced));
        }
        expr.op = b.Build();
        expr.inputs.push_back(std::make_unique<HostTensor>(dtype, std::vector<int64_t>{sizes.first, sizes.second}));
        FillRandom(*expr.inputs[0], random, dtype == DType::kUInt8 ? 0 : -3, 4);
        Values values = expr.inputs[0]->Values();
        for (double& value : values) value = std::trunc(value);
        if (IsFloatingPoint(dtype) && !values.empty()) values[values.size() / 2] = kNan;
        expr.inputs[0]->SetValues(values);
        EXPECT_EQ(Difference(expr.Reference(), expr.Run()), "") << DTypeName(dtype) << " dimension " << dim;
      }
    }
  }
}

}  // namespace
}  // namespace cotan::cuda::testing
