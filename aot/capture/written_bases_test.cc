// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/written_bases.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <vector>

#include "aot/capture/recorder.h"
#include "aot/decompositions/trace_scope.h"

namespace cotan::aot {
namespace {

class WrittenBasesTest : public testing::Test {
 protected:
  void SetUp() override { RegisterTracing(); }

  // Expects that f(example) has the same strides in a trace as in eager mode.
  template <typename F>
  void ExpectStridesAsOutside(const at::Tensor& example, const F& f) {
    const at::Tensor expected = f(example.clone(at::MemoryFormat::Preserve));
    Recorder recorder;
    RecordingScope recording(recorder);
    const TraceScope scope(/*grad_enabled=*/false);
    const at::Tensor result = f(recorder.AddInput(example, InputKind::kUserInput, 0, "x"));
    EXPECT_EQ(result.strides(), expected.strides());
    EXPECT_EQ(recorder.RealOf(result).strides(), expected.strides());
    EXPECT_TRUE(recorder.RealOf(result).equal(expected));
  }
};

TEST_F(WrittenBasesTest, DimensionOfSizeOneKeepsItsStride) {
  const at::Tensor row = at::arange(3, at::kFloat).view({1, 3}).t();
  ASSERT_EQ(row.strides()[1], 3);
  ExpectStridesAsOutside(row, [](at::Tensor x) { return x.sin_(); });
  ExpectStridesAsOutside(row, [](at::Tensor x) {
    x.sin_();
    return x.add(1);
  });
}

TEST_F(WrittenBasesTest, TransposedTensorStaysSo) {
  const at::Tensor transposed = at::arange(6, at::kFloat).view({2, 3}).t();
  ExpectStridesAsOutside(transposed, [](at::Tensor x) { return x.cumsum_(0); });
  ExpectStridesAsOutside(transposed, [](at::Tensor x) {
    x.select(0, 1).fill_(2);
    return x * 2;
  });
}

TEST_F(WrittenBasesTest, ViewThatIsWrittenIsWhereItWas) {
  ExpectStridesAsOutside(at::arange(3, at::kFloat).view({3, 1}), [](at::Tensor x) {
    at::Tensor y = x.t();
    y.exp_();
    return y.clone();
  });
}

TEST_F(WrittenBasesTest, ResizedTensorHasItsNewStrides) {
  ExpectStridesAsOutside(at::arange(6, at::kFloat).view({2, 3}).t(), [](at::Tensor x) {
    at::Tensor y = at::zeros({0});
    at::add_out(y, x, x);
    return y;
  });
}

}  // namespace
}  // namespace cotan::aot
