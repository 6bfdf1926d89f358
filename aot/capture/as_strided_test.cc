// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/as_strided.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "aot/aotautograd/tracer.h"

namespace cotan::aot {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

using Tensors = std::vector<at::Tensor>;

absl::Status StatusOfTrace(const TensorFunction& function, const at::Tensor& input) {
  return Trace(function, {}, Tensors{input}, {.name = "f"}).status();
}

TEST(AsStridedTest, MemoryOutsideTheStorageIsReportedWithAllElse) {
  const absl::Status status = StatusOfTrace(
      [](const Tensors& in) -> Tensors {
        in[0].mul_(2);
        return {in[0].as_strided({2}, {3}, 0), at::nonzero(in[0]).sum()};
      },
      at::ones({4}).slice(0, 0, 1));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("aten.as_strided.default: it accesses memory outside the elements of its argument: "
                              "elements from 0 up to 4 of 1"),
                    HasSubstr("aten.nonzero.default: the size of its result depends")));
}

TEST(AsStridedTest, WriteOutsideTheStorageIsUnimplemented) {
  const absl::Status status = StatusOfTrace(
      [](const Tensors& in) -> Tensors {
        const at::Tensor x = in[0] * 2;
        x.as_strided({2}, {3}, 1).zero_();
        return {x.sum()};
      },
      at::ones({2}));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("it accesses memory outside the elements of its argument: elements from 1 up to 5 of 2"));
}

TEST(AsStridedTest, MemoryBetweenTheElementsIsUnimplemented) {
  const absl::Status status =
      StatusOfTrace([](const Tensors& in) -> Tensors { return {in[0].as_strided({3}, {1}, 0) * 2}; },
                    at::zeros({6}).slice(0, 0, 6, 2));
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("aten.as_strided.default: it accesses memory outside the elements of its argument"));
}

}  // namespace
}  // namespace cotan::aot
