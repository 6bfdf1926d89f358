// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/view_inverses.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "aot/capture/recorder.h"
#include "aot/decompositions/trace_scope.h"

namespace cotan::aot {
namespace {

class ViewInverseTest : public testing::Test {
 protected:
  void SetUp() override { RegisterTracing(); }

  // Expects that `write` leaves the same content in its argument in a trace as in eager mode.
  template <typename F>
  void ExpectWritesAsOutside(const at::Tensor& example, const F& write) {
    const at::Tensor expected = example.clone();
    write(expected);
    Recorder recorder;
    RecordingScope recording(recorder);
    const TraceScope scope(/*grad_enabled=*/false);
    const at::Tensor input = recorder.AddInput(example, InputKind::kUserInput, 0, "x");
    write(input);
    EXPECT_TRUE(recorder.RealOf(input).equal(expected)) << recorder.RealOf(input) << "instead of" << expected;
  }
};

TEST_F(ViewInverseTest, ElementsInNoWindowKeepTheirValue) {
  const at::Tensor x = at::arange(7, at::kFloat);
  ExpectWritesAsOutside(x, [](const at::Tensor& t) { t.unfold(0, 2, 3).mul_(2); });
  ExpectWritesAsOutside(x, [](const at::Tensor& t) { t.unfold(-1, 2, 2).add_(2); });
}

TEST_F(ViewInverseTest, WindowsBesideEachOtherAreWritten) {
  ExpectWritesAsOutside(at::arange(6, at::kFloat), [](const at::Tensor& t) { t.unfold(0, 2, 2).mul_(2); });
}

TEST_F(ViewInverseTest, OneWindowMayHaveAnyStep) {
  ExpectWritesAsOutside(at::arange(3, at::kFloat), [](const at::Tensor& t) { t.unfold(0, 3, 1).mul_(2); });
}

TEST_F(ViewInverseTest, StridedViewOfAViewIsWritten) {
  const at::Tensor x = at::arange(12, at::kFloat).view({3, 4});
  ExpectWritesAsOutside(x, [](const at::Tensor& t) { t.select(0, 1).as_strided({2}, {2}, 5).mul_(2); });
  ExpectWritesAsOutside(x, [](const at::Tensor& t) { t.t().as_strided({2, 2}, {4, 1}, 1).add_(3); });
  ExpectWritesAsOutside(x, [](const at::Tensor& t) {
    t.as_strided({2, 2}, {4, 1}, 1).as_strided({2}, {4}, 2).mul_(5);
  });
}

TEST_F(ViewInverseTest, WhatExpandDoesNotRepeatIsWrittenAsItIs) {
  const at::Tensor bools = at::arange(6, at::kFloat).view({2, 3}) > 2;
  ExpectWritesAsOutside(bools, [](const at::Tensor& t) { t.expand({1, 2, 3}).logical_not_(); });
  ExpectWritesAsOutside(bools.view({2, 1, 3}), [](const at::Tensor& t) { t.expand({-1, 1, -1}).fill_(1); });
  ExpectWritesAsOutside(at::full({2}, 1e8f), [](const at::Tensor& t) { t.expand({1, 2}).fill_(0.25); });
}

TEST_F(ViewInverseTest, PairsAreWrittenAsConjugates) {
  const at::Tensor pairs = at::arange(6, at::kFloat).view({3, 2});
  ExpectWritesAsOutside(pairs,
                        [](const at::Tensor& t) { at::view_as_complex(t).conj().mul_(c10::complex<float>(0, 2)); });
  ExpectWritesAsOutside(pairs, [](const at::Tensor& t) { at::view_as_complex(t).slice(0, 1, 3).conj().add_(1); });
  ExpectWritesAsOutside(pairs, [](const at::Tensor& t) { at::view_as_complex(t).mul_(2); });
}

}  // namespace
}  // namespace cotan::aot
