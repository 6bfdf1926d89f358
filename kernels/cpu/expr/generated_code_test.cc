// SPDX-License-Identifier: Apache-2.0

// Compares expressions of models with and without generated code: the results have the same bits, also where sums are
// rounded. expr_kernel_random_test.cc compares random expressions with the reference.
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cpu/expr/expr_kernel.h"
#include "kernels/cpu/expr/tile_ops.h"
#include "kernels/testing/expr_builder.h"
#include "kernels/testing/host_tensor.h"

namespace cotan::cpu {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many
using cotan::testing::ExprBuilder;
using cotan::testing::HostTensor;
using cotan::testing::RunOp;
using Sizes = std::vector<int64_t>;

constexpr DType kF32 = DType::kFloat32;
constexpr DType kBF16 = DType::kBFloat16;

// An operand.
struct Spec {
  DType dtype = kF32;
  Sizes sizes;
};

struct Case {
  std::string name;
  ExprBuilder builder;
  std::vector<Spec> inputs;
  std::vector<Spec> outputs;
};

std::vector<std::unique_ptr<HostTensor>> Tensors(const std::vector<Spec>& specs) {
  std::vector<std::unique_ptr<HostTensor>> tensors;
  for (const Spec& spec : specs) tensors.push_back(std::make_unique<HostTensor>(spec.dtype, spec.sizes));
  return tensors;
}

std::vector<HostTensor*> Pointers(const std::vector<std::unique_ptr<HostTensor>>& tensors) {
  std::vector<HostTensor*> pointers;
  for (const auto& tensor : tensors) pointers.push_back(tensor.get());
  return pointers;
}

// Batch normalization and ReLU with their statistics and mask; [rows, channels], or [images, channels, area].
Case BatchNorm(const Sizes& full, const std::vector<int>& reduce, const Sizes& reduced, double count) {
  Case c = {"batch norm", ExprBuilder(full, reduce), {{kF32, full}, {kF32, reduced}, {kF32, reduced}}, {}};
  ExprBuilder& b = c.builder;
  const int x = b.Input(0, kF32), scale = b.Constant(kF32, 1 / count);
  const int mean = b.Mul(b.Sum(x), scale), centered = b.Sub(x, mean);
  const int variance = b.Mul(b.Sum(b.Mul(centered, centered)), scale);
  const int rstd = b.Apply(FN_RSQRT, {b.Add(variance, b.Constant(kF32, 1e-5))});
  const int y = b.Add(b.Mul(centered, b.Mul(rstd, b.Input(1, kF32))), b.Input(2, kF32));
  const int relu = b.Apply(FN_RELU, {y});
  b.Output(relu);
  b.Output(b.Apply(FN_LE, {relu, b.Constant(kF32, 0)}));
  b.Output(mean);
  b.Output(rstd);
  c.outputs = {{kF32, full}, {DType::kBool, full}, {kF32, reduced}, {kF32, reduced}};
  return c;
}

// Layer normalization of rows with GELU, in bf16 if `dtype` is.
Case LayerNormGelu(int64_t rows, int64_t width, DType dtype) {
  const Sizes full = {rows, width};
  Case c = {
      "layer norm", ExprBuilder(full, {1}), {{dtype, full}, {dtype, {1, width}}}, {{dtype, full}, {kF32, {rows, 1}}}};
  ExprBuilder& b = c.builder;
  const auto input = [&](int k) { return dtype == kF32 ? b.Input(k, kF32) : b.Cast(b.Input(k, dtype), kF32); };
  const int x = input(0), scale = b.Constant(kF32, 1 / static_cast<double>(width));
  const int mean = b.Mul(b.Sum(x), scale), centered = b.Sub(x, mean);
  const int rstd = b.Apply(FN_RSQRT, {b.Mul(b.Sum(b.Mul(centered, centered)), scale)});
  const int y = b.Mul(b.Mul(centered, rstd), input(1));
  const int erf = b.Apply(FN_ERF, {b.Mul(y, b.Constant(kF32, 0.70710678))});
  const int gelu = b.Mul(b.Mul(y, b.Constant(kF32, 0.5)), b.Add(erf, b.Constant(kF32, 1)));
  b.Output(dtype == kF32 ? gelu : b.Cast(gelu, dtype));
  b.Output(rstd);
  return c;
}

// Softmax of rows and the logarithm of the element `index` of each.
Case CrossEntropy(int64_t rows, int64_t width) {
  const Sizes full = {rows, width}, one = {rows, 1};
  Case c = {"cross entropy", ExprBuilder(full, {1}), {{kF32, full}, {DType::kInt32, one}}, {{kF32, full}, {kF32, one}}};
  ExprBuilder& b = c.builder;
  const int x = b.Input(0, kF32), shifted = b.Sub(x, b.Max(x));
  const int sum = b.Sum(b.Apply(FN_EXP, {shifted}));
  const int log = b.Sub(shifted, b.Apply(FN_LOG, {sum}));
  const int is_label = b.Apply(FN_EQ, {b.Iota(DType::kInt32, 1), b.Input(1, DType::kInt32)});
  const int one_hot = b.Cast(is_label, kF32);
  b.Output(b.Sub(b.Apply(FN_EXP, {log}), one_hot));
  b.Output(b.Sum(b.Apply(FN_SELECT, {is_label, log, b.Constant(kF32, 0)})));
  return c;
}

// Gradients of weight and bias of a layer norm: sums of columns of products.
Case ColumnSums(int64_t rows, int64_t width) {
  const Sizes full = {rows, width}, column = {rows, 1}, sums = {1, width};
  Case c = {"column sums",
            ExprBuilder(full, {0}),
            {{kF32, full}, {kF32, full}, {kF32, column}},
            {{kF32, sums}, {kF32, sums}}};
  ExprBuilder& b = c.builder;
  const int g = b.Input(0, kF32);
  b.Output(b.Sum(b.Mul(g, b.Mul(b.Input(1, kF32), b.Input(2, kF32)))));
  b.Output(b.Sum(g));
  return c;
}

// Gradient of a layer norm's input: two sums of each row.
Case LayerNormBackward(int64_t rows, int64_t width) {
  const Sizes full = {rows, width}, one = {rows, 1};
  Case c = {"layer norm backward",
            ExprBuilder(full, {1}),
            {{kF32, full}, {kF32, full}, {kF32, one}, {kF32, {1, width}}},
            {{kF32, full}}};
  ExprBuilder& b = c.builder;
  const int x = b.Input(1, kF32), scale = b.Constant(kF32, 1 / static_cast<double>(width));
  const int g = b.Mul(b.Input(0, kF32), b.Input(3, kF32));
  const int mean = b.Mul(b.Sum(g), scale), product = b.Mul(b.Sum(b.Mul(g, x)), scale);
  b.Output(b.Mul(b.Sub(b.Sub(g, mean), b.Mul(x, product)), b.Input(2, kF32)));
  return c;
}

// Functions of several values with bools between them.
Case Pointwise(int64_t count) {
  const Spec full = {kF32, {count}};
  Case c = {
      "pointwise", ExprBuilder({count}), {full, full, {DType::kBool, {count}}}, {full, full, {DType::kBool, {count}}}};
  ExprBuilder& b = c.builder;
  const int x = b.Input(0, kF32), y = b.Input(1, kF32), flags = b.Input(2, DType::kBool);
  const int less = b.Apply(FN_LT, {x, y});
  const int both = b.Apply(FN_AND, {less, b.Apply(FN_LOGICAL_NOT, {flags})});
  const int either = b.Apply(FN_OR, {both, b.Apply(FN_NE, {y, b.Constant(kF32, 0)})});
  const int t = b.Apply(FN_TANH, {b.Apply(FN_MAXIMUM, {x, b.Apply(FN_MINIMUM, {y, b.Constant(kF32, 0.25)})})});
  b.Output(b.Apply(FN_SELECT, {either, b.Div(t, b.Add(x, y)), b.Apply(FN_LOGISTIC, {y})}));
  b.Output(b.Apply(FN_EXPM1, {b.Apply(FN_LOG1P, {b.Apply(FN_ABS, {b.Sub(b.Mul(x, y), t)})})}));
  b.Output(b.Apply(FN_XOR, {either, flags}));
  return c;
}

// Exponentials of rows, and their sum.
Case ShiftedExp(int64_t rows, int64_t width) {
  const Spec full = {kF32, {rows, width}};
  Case c = {"exp", ExprBuilder(full.sizes, {1}), {full}, {full, {kF32, {rows, 1}}}};
  ExprBuilder& b = c.builder;
  const int x = b.Input(0, kF32), e = b.Apply(FN_EXP, {b.Sub(x, b.Max(x))});
  b.Output(e);
  b.Output(b.Sum(e));
  return c;
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const int64_t channels : {1, 7, 16, 24, 32, 48, 64, 80, 128, 512, 1040}) {
    cases.push_back(BatchNorm({200, channels}, {0}, {1, channels}, 200));
    cases.push_back(BatchNorm({5, channels, 49}, {0, 2}, {1, channels, 1}, 5 * 49));
  }
  for (const int64_t width :
       {1, 15, 16, 17, 24, 33, 48, 50, 64, 77, 80, 112, 128, 197, 320, 397, 512, 768, 1008, 1024, 3000}) {
    cases.push_back(LayerNormGelu(70, width, kF32));
    cases.push_back(LayerNormGelu(70, width, kBF16));
    cases.push_back(CrossEntropy(70, width));
    cases.push_back(ColumnSums(300, width));
    cases.push_back(LayerNormBackward(70, width));
  }
  for (const int64_t count : {1, 31, 32, 33, 1000, 1024, 5000}) cases.push_back(Pointwise(count));
  return cases;
}

void Fill(std::vector<std::unique_ptr<HostTensor>>& tensors, std::mt19937_64& random) {
  for (auto& tensor : tensors) {
    const bool is_index = tensor->dtype() == DType::kInt32;
    FillRandom(*tensor, random, is_index ? 0 : -3, is_index ? 40 : 3);
  }
}

// Code for the end of a row reads elements that it has written, if the row is not a multiple of a vector.
TEST(GeneratedCodeTest, AnOutputMayReplaceItsInput) {
  for (const int64_t width : {16, 17, 24, 31, 40, 50, 77, 197, 397}) {
    const Case c = ShiftedExp(70, width);
    auto inputs = Tensors(c.inputs), outputs = Tensors(c.outputs), in_place = Tensors(c.outputs);
    std::mt19937_64 random(2);  // seed
    Fill(inputs, random);
    const auto run = [&](std::vector<HostTensor*> to) {
      return RunOp(MakeExpr, c.builder.Build(), Pointers(inputs), to, /*threads=*/1);
    };
    ASSERT_TRUE(run(Pointers(outputs)).ok());
    ASSERT_TRUE(run({inputs[0].get(), in_place[1].get()}).ok());
    EXPECT_EQ(inputs[0]->bytes(), outputs[0]->bytes()) << width;
    EXPECT_EQ(in_place[1]->bytes(), outputs[1]->bytes()) << width;
  }
}

TEST(GeneratedCodeTest, HasTheBitsOfTheInterpreter) {
  const absl::Span<const expr::TileOps* const> all = expr::RunnableTileOps();
  if (all.back()->generate == nullptr) GTEST_SKIP() << "there is no code generator for this processor";
  const expr::TileOps& interpreted = *all[all.size() - 2];
  std::mt19937_64 random(1);  // seed
  for (const Case& c : Cases()) {
    for (const int threads : {1, 3}) {
      auto inputs = Tensors(c.inputs);
      Fill(inputs, random);
      auto expected = Tensors(c.outputs), actual = Tensors(c.outputs);
      for (auto& [ops, outputs] : {std::pair{&interpreted, &expected}, std::pair{all.back(), &actual}}) {
        const ExprOptions options = {ops, 1.0};
        const absl::Status status = RunOp([&](const KernelRequest& request) { return MakeExprWith(request, options); },
                                          c.builder.Build(), Pointers(inputs), Pointers(*outputs), threads);
        ASSERT_TRUE(status.ok()) << status;
      }
      for (size_t k = 0; k < actual.size(); ++k) {
        ASSERT_EQ(std::memcmp(actual[k]->data(), expected[k]->data(), actual[k]->bytes().size()), 0)
            << c.name << ", output " << k << ", " << threads << " threads, first sizes " << c.inputs[0].sizes.front()
            << " x " << c.inputs[0].sizes.back();
      }
    }
  }
}

}  // namespace
}  // namespace cotan::cpu
