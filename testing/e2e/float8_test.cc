// SPDX-License-Identifier: Apache-2.0

// Compares conversions and moves of 8-bit floats in compiled programs with LibTorch eager, bit by bit.
#include "base/float8.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "aot/compile.h"
#include "base/test_seed.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/execution/program.h"
#include "runtime/session.h"
#include "testing/e2e/compiled_trainer.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<torch::Tensor>;

constexpr at::ScalarType kFormats[] = {at::kFloat8_e4m3fn, at::kFloat8_e5m2};

// Returns all bit patterns of a dtype of 1 or 2 bytes.
torch::Tensor EveryValue(at::ScalarType dtype) {
  const int64_t count = at::elementSize(dtype) == 1 ? 256 : 65536;
  const torch::Tensor bits = torch::arange(count, torch::kInt32).to(count == 256 ? torch::kUInt8 : torch::kInt16);
  return bits.view(dtype);
}

// Returns f32 values of random bits, and values around the formats' limits.
torch::Tensor RandomBits() {
  torch::manual_seed(static_cast<int64_t>(TestSeed()));
  const torch::Tensor random = torch::randint(-(int64_t{1} << 31), int64_t{1} << 31, {1 << 20}, torch::kInt64)
                                   .to(torch::kInt32)
                                   .view(torch::kFloat);
  const torch::Tensor near = torch::randn({1 << 18}) * 128;
  return torch::cat({random, near, near * 256, near / 65536});
}

Tensors RunCompiled(const aot::TensorFunction& function, const Tensors& inputs) {
  const auto model = aot::CompileFunction(function, inputs, {});
  EXPECT_TRUE(model.ok()) << model.status();
  auto session = Session::Create(*Program::LoadBytes(model->bytes()), {.kernels = &CpuKernels(), .threads = 1});
  EXPECT_TRUE(session.ok()) << session.status();
  std::vector<Tensor> arguments;
  for (const torch::Tensor& input : inputs) arguments.push_back(*ToCotan(input));
  const auto results = session->Run("forward", arguments);
  EXPECT_TRUE(results.ok()) << results.status();
  Tensors outputs;
  for (const Tensor& result : *results) outputs.push_back(*ToTorch(result));
  return outputs;
}

// Expects equal bits; of a NaN in a wider dtype, only that it is one.
void ExpectSameBits(const torch::Tensor& actual, const torch::Tensor& expected, const std::string& what) {
  ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << what;
  ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
  const bool has_nan = at::isFloatingType(actual.scalar_type()) && actual.element_size() > 1;
  const auto bytes = [&](const torch::Tensor& tensor) {
    const torch::Tensor known = has_nan ? tensor.nan_to_num(12345) : tensor;
    return known.contiguous().view(torch::kUInt8);
  };
  EXPECT_TRUE(bytes(actual).equal(bytes(expected))) << what;
}

void ExpectLikeEager(const aot::TensorFunction& function, const Tensors& inputs, const std::string& what) {
  const Tensors actual = RunCompiled(function, inputs);
  const Tensors expected = function(inputs);
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < expected.size(); ++i) {
    ExpectSameBits(actual[i], expected[i], what + ", output " + std::to_string(i));
  }
}

TEST(Float8Test, BaseConvertsEveryBFloat16AndManyFloatsAsEagerDoes) {
  for (const torch::Tensor& values : {EveryValue(at::kBFloat16).to(torch::kFloat), RandomBits()}) {
    const torch::Tensor e4m3 = values.to(at::kFloat8_e4m3fn), e5m2 = values.to(at::kFloat8_e5m2);
    const auto* from = values.const_data_ptr<float>();
    const auto* to_e4m3 = static_cast<const uint8_t*>(e4m3.const_data_ptr());
    const auto* to_e5m2 = static_cast<const uint8_t*>(e5m2.const_data_ptr());
    for (int64_t i = 0; i < values.numel(); ++i) {
      ASSERT_EQ(FloatToFloat8E4m3fn(from[i]), to_e4m3[i]) << from[i];
      ASSERT_EQ(FloatToFloat8E5m2(from[i]), to_e5m2[i]) << from[i];
    }
  }
}

TEST(Float8Test, ProgramsConvertFromEveryFloatAsEagerDoes) {
  for (const at::ScalarType format : kFormats) {
    const auto convert = [format](const Tensors& x) -> Tensors {
      return {x[0].to(format), x[1].to(format), x[2].to(format), x[3].to(format), x[4].to(format)};
    };
    const torch::Tensor floats = RandomBits();
    const torch::Tensor doubles = torch::randn({5000}, torch::kDouble) * 300;
    const Tensors inputs = {floats, EveryValue(at::kBFloat16), EveryValue(at::kHalf), doubles,
                            torch::arange(-1000, 1000)};
    ExpectLikeEager(convert, inputs, at::toString(format));
  }
}

TEST(Float8Test, ProgramsConvertEveryValueToEveryFloatAsEagerDoes) {
  for (const at::ScalarType format : kFormats) {
    // A conversion to its own format would return the input itself.
    const at::ScalarType other = format == kFormats[0] ? kFormats[1] : kFormats[0];
    const auto convert = [other](const Tensors& x) -> Tensors {
      return {x[0].to(at::kFloat),    x[0].to(at::kDouble), x[0].to(at::kHalf),
              x[0].to(at::kBFloat16), x[0].to(at::kBool),   x[0].to(other)};
    };
    ExpectLikeEager(convert, {EveryValue(format)}, at::toString(format));
    // Integers of finite values.
    const torch::Tensor finite = EveryValue(format).slice(0, 0, 0x60);
    const auto truncate = [](const Tensors& x) -> Tensors { return {x[0].to(at::kLong), x[0].to(at::kInt)}; };
    ExpectLikeEager(truncate, {finite}, at::toString(format));
  }
}

TEST(Float8Test, ElementsAreMoved) {
  for (const at::ScalarType format : kFormats) {
    const auto move = [](const Tensors& x) -> Tensors {
      const torch::Tensor square = x[0].view({16, 16});
      return {square.t().contiguous(), square.slice(1, 3, 11, 2).clone(), at::cat({square, square.t()}, 1),
              square.select(0, 5).expand({3, 16}).clone(), x[0].to(at::kFloat).view({4, 64}).t().to(x[0].dtype())};
    };
    ExpectLikeEager(move, {EveryValue(format)}, at::toString(format));
  }
}

TEST(Float8Test, WhatIsFusedAroundAConversionRoundsAsEagerDoes) {
  for (const at::ScalarType format : kFormats) {
    const auto function = [format](const Tensors& x) -> Tensors {
      const torch::Tensor narrow = (x[0] * 3).to(format);
      return {narrow.to(at::kFloat) + 1, narrow};
    };
    ExpectLikeEager(function, {torch::randn({50, 33})}, at::toString(format));
  }
}

}  // namespace
}  // namespace cotan::testing
