// SPDX-License-Identifier: Apache-2.0

// Cases of expressions: each function of each dtype, each cast, normalisations, and random expressions.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "kernels/api/expr_program.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/random_case.h"
#include "kernels/testing/random_expr.h"
#include "testing/cuda/kernel_cases.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

constexpr DType kReal[] = {DType::kBool,  DType::kUInt8,   DType::kInt8,     DType::kInt16,   DType::kInt32,
                           DType::kInt64, DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
constexpr DType kFloats[] = {DType::kFloat16, DType::kBFloat16, DType::kFloat32, DType::kFloat64};
constexpr int kRandomExpressions = 100;
constexpr size_t kFunctionsPerCase = 10;

std::vector<double> ValuesOf(DType dtype) {
  if (dtype == DType::kBool) return {0, 1};
  if (dtype == DType::kUInt8) return {0, 1, 2, 3, 7, 8, 100, 127, 128, 254, 255};
  if (!IsFloatingPoint(dtype)) return {0, 1, -1, 2, -2, 3, 7, -7, 8, 100, 127, -128, -127};
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  return {0.0, -0.0, kInfinity, -kInfinity, std::numeric_limits<double>::quiet_NaN(),
          1.0, -1.0, 2.0,       -2.0,       0.5,
          -.5, 1.5,  2.5,       3.0,        0.25,
          .75, -.75, 1e-3,      5.0,        -5.0,
          7.0, 0.1,  1.4,       -3.25,      6.125};
}

// Returns true if all devices return the same bits: the function is exact, or one IEEE operation.
bool IsExact(ScalarFn fn) {
  return fn != FN_RSQRT && (ExprCostOf(fn) <= ExprCost::kQuotient || ExprCostOf(fn) == ExprCost::kRemainder);
}

// The functions of `arity` operands that take the dtype.
std::vector<ScalarFn> FunctionsOf(DType dtype, int arity) {
  std::vector<ScalarFn> fns;
  for (int i = FN_NEG; i <= FN_SHIFT_RIGHT; ++i) {
    if (!ScalarFn_IsValid(i) || ExprArity(static_cast<ScalarFn>(i)) != arity) continue;
    const auto fn = static_cast<ScalarFn>(i);
    // The reference rounds down the quotient in f64, the kernels that in the dtype, which may be the next integer.
    if (IsFloatingPoint(dtype) && (fn == FN_FLOOR_DIV || fn == FN_TRUNC_DIV)) continue;
    ExprBuilder b({1});
    const int a = b.Input(0, dtype);
    b.Output(arity == 1 ? b.Apply(fn, {a}) : b.Apply(fn, {a, a}));
    const TensorSpec in[] = {HostTensor(dtype, {1}).spec()};
    const TensorSpec out[] = {HostTensor(b.dtype(b.size() - 1), {1}).spec()};
    const Op op = b.Build();
    if (ResolveExpr({.op = op, .inputs = in, .outputs = out, .symbols = {}}).ok()) fns.push_back(fn);
  }
  return fns;
}

// One expression whose outputs are these functions of all (pairs of) values.
void AddFunctions(KernelCaseList& list, DType dtype, int arity, absl::Span<const ScalarFn> fns, bool is_exact) {
  const std::vector<double> values = ValuesOf(dtype);
  const auto n = static_cast<int64_t>(values.size());
  const std::vector<int64_t> sizes = arity == 1 ? std::vector<int64_t>{n} : std::vector<int64_t>{n, n};
  ExprBuilder b(sizes);
  std::vector<int> x = {b.Input(0, dtype)};
  if (arity == 2) x.push_back(b.Input(1, dtype));
  std::vector<DType> outputs;
  for (const ScalarFn fn : fns) {
    const int node = arity == 1 ? b.Apply(fn, {x[0]}) : b.Apply(fn, {x[0], x[1]});
    b.Output(node);
    outputs.push_back(b.dtype(node));
  }
  list.Add(absl::StrCat("expr/", DTypeName(dtype), "/", ExprFnName(fns[0]), "_to_", ExprFnName(fns.back()), "_", arity),
           b.Build(), is_exact ? kExact : kTranscendental, is_exact);
  if (arity == 2) list.Input(dtype, {n, 1}, values);
  list.Input(dtype, {n}, values);
  for (const DType output : outputs) list.Output(output, DenseLayout(sizes));
}

void AddFunctionsOf(KernelCaseList& list, DType dtype, int arity) {
  std::vector<ScalarFn> exact, others;
  for (const ScalarFn fn : FunctionsOf(dtype, arity)) {
    // Functions of integers are computed as integers.
    (IsExact(fn) || !IsFloatingPoint(dtype) ? exact : others).push_back(fn);
  }
  for (const auto& [fns, is_exact] : {std::pair{exact, true}, {others, false}}) {
    for (size_t i = 0; i < fns.size(); i += kFunctionsPerCase) {
      AddFunctions(list, dtype, arity, absl::MakeConstSpan(fns).subspan(i, kFunctionsPerCase), is_exact);
    }
  }
}

void AddCasts(KernelCaseList& list, DType dtype) {
  std::vector<double> values;
  for (const double value : ValuesOf(dtype)) {
    // A cast of a value outside the target's range is undefined.
    if (value >= 0 && value < 128) values.push_back(value);
  }
  const auto n = static_cast<int64_t>(values.size());
  ExprBuilder b({n});
  const int x = b.Input(0, dtype);
  for (const DType to : kReal) b.Output(b.Cast(x, to));
  list.Add(absl::StrCat("expr/", DTypeName(dtype), "/casts"), b.Build(), kExact);
  list.Input(dtype, {n}, values);
  for (const DType to : kReal) list.Output(to, DenseLayout({n}));
}

// Sum, product, largest and smallest of small integers, along each of the dimensions.
// 8-bit floats: all values of one, and f32 values of both signs.
void AddNarrowCasts(KernelCaseList& list, DType dtype) {
  HostTensor all(dtype, {256});
  std::vector<double> wide;
  for (int i = 0; i < 256; ++i) {
    static_cast<uint8_t*>(all.data())[i] = static_cast<uint8_t>(i);
    wide.push_back(std::ldexp(i % 2 == 0 ? 1 + i / 256.0 : -1 - i / 256.0, i % 40 - 22));
  }
  ExprBuilder b({256});
  b.Output(b.Cast(b.Input(0, DType::kFloat32), dtype));
  b.Output(b.Cast(b.Input(1, dtype), DType::kFloat32));
  list.Add(absl::StrCat("expr/", DTypeName(dtype), "/casts"), b.Build(), kExact);
  list.Input(DType::kFloat32, {256}, wide);
  list.Input(std::move(all));
  list.Output(dtype, DenseLayout({256}));
  list.Output(DType::kFloat32, DenseLayout({256}));
}

void AddReductions(KernelCaseList& list, DType dtype) {
  for (const int dim : {0, 1}) {
    const int reduce[] = {dim};
    ExprBuilder b({45, 37}, reduce);
    const int x = b.Input(0, dtype);
    for (const ScalarFn fn : {FN_REDUCE_SUM, FN_REDUCE_PROD, FN_REDUCE_MAX, FN_REDUCE_MIN}) b.Output(b.Apply(fn, {x}));
    list.Add(absl::StrCat("expr/", DTypeName(dtype), "/reductions_", dim), b.Build(), kExact);
    HostTensor tensor(dtype, {45, 37});
    std::vector<double> values(static_cast<size_t>(tensor.numel()));
    for (double& value : values) value = static_cast<double>(list.random()() % 2);
    tensor.SetValues(values);
    list.Input(std::move(tensor));
    for (int i = 0; i < 4; ++i) list.Output(dtype, DenseLayout(dim == 0 ? DimVector{1, 37} : DimVector{45, 1}));
  }
}

// Softmax of rows, and its logarithm's gradient-like difference.
void AddSoftmax(KernelCaseList& list, DType dtype, int64_t rows, int64_t columns) {
  const int reduce[] = {1};
  ExprBuilder b({rows, columns}, reduce);
  const int x = b.Input(0, dtype);
  const int e = b.Apply(FN_EXP, {b.Sub(x, b.Max(x))});
  b.Output(b.Div(e, b.Sum(e)));
  list.Add(absl::StrCat("expr/", DTypeName(dtype), "/softmax_", columns), b.Build(), kReduction, false);
  list.Input(dtype, DenseLayout({rows, columns}), -4, 4);
  list.Output(dtype, DenseLayout({rows, columns}));
}

// Normalised rows with their means and inverse deviations, in f32 or f64 as networks do.
void AddLayerNorm(KernelCaseList& list, DType dtype) {
  constexpr int64_t kRows = 9, kWidth = 200;
  const DType wide = dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32;
  const int reduce[] = {1};
  ExprBuilder b({kRows, kWidth}, reduce);
  const int x = dtype == wide ? b.Input(0, dtype) : b.Cast(b.Input(0, dtype), wide);
  const int scale = b.Constant(wide, 1.0 / kWidth);
  const int mean = b.Mul(b.Sum(x), scale);
  const int centered = b.Sub(x, mean);
  const int variance = b.Mul(b.Sum(b.Mul(centered, centered)), scale);
  const int rstd = b.Apply(FN_RSQRT, {b.Add(variance, b.Constant(wide, 1e-5))});
  const int y = b.Mul(centered, rstd);
  b.Output(dtype == wide ? y : b.Cast(y, dtype));
  b.Output(mean);
  b.Output(rstd);
  list.Add(absl::StrCat("expr/", DTypeName(dtype), "/layer_norm"), b.Build(), kReduction, false);
  list.Input(dtype, DenseLayout({kRows, kWidth}), -2, 3);
  list.Output(dtype, DenseLayout({kRows, kWidth}));
  for (int i = 0; i < 2; ++i) list.Output(wide, DenseLayout({kRows, 1}));
}

// Sums of random numbers over rows, columns and everything, which show the order of the additions.
void AddSums(KernelCaseList& list, DType dtype) {
  const std::vector<std::vector<int>> dims = {{0}, {1}, {0, 1}};
  for (const std::vector<int>& reduce : dims) {
    DimVector sizes = {700, 65}, result = sizes;
    std::string name = absl::StrCat("expr/", DTypeName(dtype), "/sum");
    for (const int dim : reduce) {
      result[static_cast<size_t>(dim)] = 1;
      absl::StrAppend(&name, "_", dim);
    }
    ExprBuilder b(sizes, reduce);
    const int x = b.Input(0, dtype);
    b.Output(b.Sum(x));
    b.Output(b.Sum(b.Mul(x, x)));
    // The reference adds f64 in order, with an error of its own.
    list.Add(name, b.Build(), dtype == DType::kFloat64 ? kMatmul : kReduction);
    list.Input(dtype, DenseLayout(sizes));
    for (int i = 0; i < 2; ++i) list.Output(dtype, DenseLayout(result));
  }
}

void AddDropout(KernelCaseList& list) {
  ExprBuilder b({30, 41});
  const int x = b.Input(0, DType::kFloat32);
  const int keep = b.Apply(FN_LT, {b.Random(1, "7"), b.Constant(DType::kFloat32, 0.75)});
  b.Output(b.Apply(FN_SELECT, {keep, b.Div(x, b.Constant(DType::kFloat32, 0.75)), b.Constant(DType::kFloat32, 0)}));
  list.Add("expr/f32/dropout", b.Build(), kExact);
  list.Input(DType::kFloat32, DenseLayout({30, 41}));
  list.Input(DType::kInt64, {2}, {12345, 77});
  list.Output(DType::kFloat32, DenseLayout({30, 41}));
}

void AddRandomExpression(KernelCaseList& list, int number) {
  list.Add(absl::StrCat("expr/random/", number), {}, kExact);
  RandomExpr expr = MakeRandomExpr(list.random(), 2000);
  // The sign of the NaN of an invalid operation differs between processors.
  for (ExprInstruction& instruction : *expr.op.mutable_expr()->mutable_instructions()) {
    if (instruction.fn() == FN_COPYSIGN) instruction.set_fn(FN_MAXIMUM);
  }
  list.last().op = std::move(expr.op);
  for (const auto& input : expr.inputs) list.Input(std::move(*input));
  for (size_t i = 0; i < expr.output_layouts.size(); ++i) list.Output(expr.output_dtypes[i], expr.output_layouts[i]);
}

}  // namespace

void AddExprCases(KernelCaseList& list) {
  for (const DType dtype : kReal) {
    for (const int arity : {1, 2}) AddFunctionsOf(list, dtype, arity);
    AddCasts(list, dtype);
    AddReductions(list, dtype);
  }
  for (const DType dtype : {DType::kFloat8E4m3fn, DType::kFloat8E5m2}) AddNarrowCasts(list, dtype);
  for (const DType dtype : kFloats) {
    AddSoftmax(list, dtype, 13, 37);
    AddSoftmax(list, dtype, 2, 3000);
    AddLayerNorm(list, dtype);
    AddSums(list, dtype);
  }
  AddDropout(list);
  for (int i = 0; i < kRandomExpressions; ++i) AddRandomExpression(list, i);
}

}  // namespace cotan::testing
