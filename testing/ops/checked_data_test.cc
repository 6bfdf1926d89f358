// SPDX-License-Identifier: Apache-2.0

// Checks that a call ends with an error for tensors whose content eager refuses.
#include <ATen/ATen.h>

#include <limits>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/ops/compiled_function.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

at::Tensor Floats(at::ArrayRef<float> values) { return at::tensor(values); }
at::Tensor Longs(at::ArrayRef<int64_t> values) { return at::tensor(values, at::kLong); }

// Compiles the function for `good` and calls it with `bad`, of the same sizes, between two calls with `good`.
void ExpectRefused(const aot::TensorFunction& function, const Tensors& good, const Tensors& bad,
                   const std::string& error) {
  SCOPED_TRACE(error);
  EXPECT_THROW(function(bad), c10::Error);
  absl::StatusOr<CompiledFunction> compiled = CompiledFunction::Create(function, good, /*with_gradients=*/false);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_TRUE(compiled->Call(good).ok());
  const absl::Status status = compiled->Call(bad).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(error));
  EXPECT_TRUE(compiled->Call(good).ok());
}

// The index of a refused row, of two draws, is -1 or -2.
TEST(CheckedDataTest, WeightsOfMultinomial) {
  for (const bool replacement : {false, true}) {
    const aot::TensorFunction draw = [replacement](const Tensors& in) -> Tensors {
      return {at::multinomial(in[0], 2, replacement)};
    };
    const at::Tensor good = Floats({0.5f, 0.0f, 2.0f});
    for (const float wrong : {-1.0f, kInfinity, -kInfinity, kNan}) {
      ExpectRefused(draw, {good}, {Floats({0.5f, wrong, 2.0f})}, "index[0] is -1, outside [0, 3)");
    }
    ExpectRefused(draw, {good}, {at::zeros({3})}, "index[0] is -2, outside [0, 3)");
    ExpectRefused(draw, {at::stack({good, good})}, {at::stack({good, at::zeros({3})})},
                  "index[2] is -2, outside [0, 3)");
  }
}

// The check of the index into five rows comes after that of two weights.
TEST(CheckedDataTest, WeightsAreCheckedBeforeWhatIsDrawnIsAnIndex) {
  const aot::TensorFunction rows = [](const Tensors& in) -> Tensors {
    return {in[1].index_select(0, at::multinomial(in[0], 4, /*replacement=*/true))};
  };
  const at::Tensor x = at::rand({5, 3});
  ExpectRefused(rows, {Floats({1.0f, 1.0f}), x}, {Floats({-3.0f, 1.0f}), x}, "index[0] is -1, outside [0, 2)");
}

TEST(CheckedDataTest, LengthsOfSegments) {
  const aot::TensorFunction reduce = [](const Tensors& in) -> Tensors {
    return {at::segment_reduce(in[0], "sum", in[1], {}, {}, in[1].dim() - 1)};
  };
  const at::Tensor rows = at::rand({6, 2}), good = Longs({1, 2, 3});
  ExpectRefused(reduce, {rows, good}, {rows, Longs({4, -1, 3})},
                "assertion 'segment_reduce' failed: a length is negative (element 1 of ");
  for (const at::Tensor& wrong : {Longs({1, 2, 2}), Longs({1, 2, 4})}) {
    ExpectRefused(reduce, {rows, good}, {rows, wrong},
                  "assertion 'segment_reduce' failed: the lengths do not add up to the size of the axis");
  }
  const at::Tensor batch = at::rand({2, 6});
  ExpectRefused(reduce, {batch, at::stack({good, good})}, {batch, at::stack({good, Longs({1, 1, 1})})},
                "the lengths do not add up to the size of the axis (element 1 of ");
}

TEST(CheckedDataTest, DataOfHistograms) {
  const aot::TensorFunction count = [](const Tensors& in) -> Tensors { return {at::histc(in[0], 4)}; };
  const at::Tensor good = Floats({0.5f, -1.0f, 2.0f});
  for (const float wrong : {kInfinity, -kInfinity, kNan}) {
    ExpectRefused(count, {good}, {Floats({0.5f, wrong, 2.0f})},
                  "assertion 'histc' failed: the data has an infinity or NaN, and no range is given");
  }
}

TEST(CheckedDataTest, BoundsOfHistogramsAreCheckedByTheCompiler) {
  for (const auto& [min, max] : {std::pair(2.0, 1.0), std::pair(0.0, static_cast<double>(kInfinity))}) {
    const aot::TensorFunction count = [min = min, max = max](const Tensors& in) -> Tensors {
      return {at::histc(in[0], 4, min, max)};
    };
    EXPECT_THROW(count({at::rand({3})}), c10::Error);
    const absl::Status status = CompileOnly(count, {at::rand({3})}, /*with_gradients=*/false);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr("histc expects finite bounds with min <= max"));
  }
}

}  // namespace
}  // namespace cotan::testing
