// SPDX-License-Identifier: Apache-2.0

// Functions that Cotan refuses when it compiles them, though eager runs them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <functional>
#include <string>

#include "absl/strings/match.h"
#include "aot/compile.h"
#include "testing/conformance/regressions/eager_cases.h"

namespace cotan::conformance {
namespace {

void ExpectRefused(const Tensors& inputs, const std::function<Tensors(Tensors)>& f, const std::string& message) {
  const auto model = aot::CompileFunction(f, inputs, {});
  ASSERT_FALSE(model.ok());
  EXPECT_TRUE(absl::StrContains(model.status().message(), message)) << model.status();
}

TEST(RefusalTest, WriteToOverlappingWindows) {
  const auto write = [](Tensors in) -> Tensors {
    in[0].unfold(0, 3, 1).mul_(2);
    return {in[0] * 1};
  };
  ExpectRefused({buf(0, {6})}, write, "a write to windows that overlap (unfold of size 3, step 1) is not defined");
}

TEST(RefusalTest, ViewOfMemoryBetweenTheElements) {
  const auto look = [](Tensors in) -> Tensors { return {in[0].as_strided({3}, {1}, 0) * 2}; };
  ExpectRefused({buf(0, {6}).slice(0, 0, 6, 2)}, look, "it accesses memory outside the elements of its argument");
}

TEST(RefusalTest, ViewOfMemoryBeyondTheWrittenElements) {
  const auto look = [](Tensors in) -> Tensors {
    in[0].mul_(2);
    return {in[0].as_strided({2}, {3}, 0) * 2};
  };
  ExpectRefused({buf(0, {4}).slice(0, 0, 1)}, look,
                "it accesses memory outside the elements of its argument: elements from 0 up to 4 of 1");
}

TEST(RefusalTest, WriteToMemoryBeforeASlice) {
  const auto write = [](Tensors in) -> Tensors {
    in[0].as_strided({2}, {3}, 0).zero_();
    return {};
  };
  ExpectRefused({leaf(0, {6}).clone().slice(0, 3, 6, 2)}, write,
                "aten.as_strided_scatter.default: it accesses memory outside the elements of its argument");
}

TEST(RefusalTest, DetachedArgumentWrittenWithATensorThatRequiresGrad) {
  const auto add = [](Tensors in) -> Tensors { return {in[0].add_(in[1])}; };
  const at::Tensor x = leaf(0, {6}).clone();
  ExpectRefused({x.detach(), x}, add,
                "it is detached from another input, whose memory it shares, and written with what requires grad");
}

TEST(RefusalTest, AllUnsupportedComplexOpsAreListed) {
  const auto f = [](Tensors in) -> Tensors { return {in[0].cumprod(0), in[0].acosh()}; };
  ExpectRefused({buf(0, {3}, at::kComplexFloat)}, f, "aten.acosh.default, aten.cumprod.default of complex numbers");
}

}  // namespace
}  // namespace cotan::conformance
