// SPDX-License-Identifier: Apache-2.0

// Checks that a call ends with an error for tensors whose content eager refuses.
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/ops/compiled_function.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

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

}  // namespace
}  // namespace cotan::testing
