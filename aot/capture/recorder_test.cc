// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/recorder.h"

#include <ATen/ATen.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "aot/capture/dispatch_keys.h"
#include "aot/decompositions/trace_scope.h"
#include "aot/ir/text.h"

namespace cotan::aot {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RecorderTest : public ::testing::Test {
 protected:
  RecorderTest() {
    RegisterTracing();
    recorder_.graph().name = "g";
  }

  at::Tensor Input(const at::Tensor& real) { return recorder_.AddInput(real, InputKind::kUserInput, 0, "input.0"); }
  std::string Text() { return PrintGraph(recorder_.graph()); }

  Recorder recorder_;
};

TEST_F(RecorderTest, RecordsOpsOnProxiesAndRunsThem) {
  const at::Tensor real = at::full({2}, 3.0f);
  at::Tensor result;
  {
    const RecordingScope scope(recorder_);
    const c10::impl::IncludeDispatchKeyGuard keys(kTracingKeys);
    const at::Tensor y = Input(real).exp();
    EXPECT_EQ(recorder_.ValueOf(y), 1);
    result = recorder_.RealOf(y);
  }
  EXPECT_TRUE(result.equal(real.exp()));
  EXPECT_THAT(Text(), HasSubstr("%1: f32[2] = aten.exp.default(%0)"));
}

TEST_F(RecorderTest, FlattensResultsThatAreLists) {
  const at::Tensor real = at::ones({4});
  const RecordingScope scope(recorder_);
  const c10::impl::IncludeDispatchKeyGuard keys(kTracingKeys);
  const at::functionalization::impl::FunctionalizationReapplyViewsGuard views(true);
  const std::vector<at::Tensor> halves = at::split(Input(real), 2);
  EXPECT_EQ(recorder_.ValueOf(halves[1]), 2);
  EXPECT_THAT(Text(), HasSubstr("%1: f32[2], %2: f32[2] = aten.split.Tensor(%0, 2, 0)"));
}

TEST_F(RecorderTest, DoesNotRecordArithmeticOnCapturedTensors) {
  const at::Tensor captured = at::ones({2});
  const RecordingScope scope(recorder_);
  const c10::impl::IncludeDispatchKeyGuard keys(kTracingKeys);
  const at::Tensor doubled = captured * 2;
  EXPECT_TRUE(recorder_.graph().nodes().empty());
  EXPECT_EQ(ProxyOf(doubled), nullptr);
  EXPECT_EQ(doubled.const_data_ptr<float>()[1], 2);
}

TEST_F(RecorderTest, NodesHaveTheModuleOfTheirParameter) {
  const at::Tensor real = at::ones({3, 3});
  const RecordingScope scope(recorder_);
  const c10::impl::IncludeDispatchKeyGuard keys(kTracingKeys);
  const at::functionalization::impl::FunctionalizationReapplyViewsGuard views(true);
  const at::Tensor weight = recorder_.AddInput(real, InputKind::kParameter, 0, "layers.1.weight");
  Input(real).mm(weight.t());
  EXPECT_EQ(recorder_.graph().nodes().back().source, "layers.1");
}

TEST_F(RecorderTest, RecordsStorageGeometryAsElementIndices) {
  const at::Tensor real = at::arange(6, at::kFloat).view({2, 3}).t();
  const RecordingScope scope(recorder_);
  const c10::impl::IncludeDispatchKeyGuard keys(kTracingKeys);
  const at::functionalization::impl::FunctionalizationReapplyViewsGuard views(true);
  const at::Tensor x = Input(real);
  const at::Tensor view = x.as_strided({2}, {3}, 1);
  EXPECT_EQ(recorder_.RealOf(view).const_data_ptr<float>()[3], 4);
  at::as_strided_scatter(x, view, {2}, {3}, 0);
  EXPECT_THAT(Text(), HasSubstr(R"(  %1: f32[2,3] = aten.permute.default(%0, [1, 0])
  %2: f32[2] = aten.as_strided.default(%1, [2], [3], 1)
  %3: f32[2,3] = aten.permute.default(%0, [1, 0])
  %4: f32[2,3] = aten.as_strided_scatter.default(%3, %2, [2], [3], 0)
  %5: f32[3,2] = aten.permute.default(%4, [1, 0]))"));
  EXPECT_TRUE(recorder_.diagnostics().empty());
}

TEST_F(RecorderTest, HandsOutSlicesOfTheCounter) {
  EXPECT_EQ(recorder_.TakeRandomSlice(5), 0);
  EXPECT_EQ(recorder_.TakeRandomSlice(1), 2);
  EXPECT_EQ(recorder_.random_blocks(), 3);
}

TEST_F(RecorderTest, ReportsEachUnsupportedConstructOnce) {
  recorder_.ReportUnsupported("aten.x", "no");
  recorder_.ReportUnsupported("aten.y", "no");
  recorder_.ReportUnsupported("aten.x", "no");
  EXPECT_THAT(recorder_.diagnostics(), ElementsAre("aten.x: no", "aten.y: no"));
}

TEST_F(RecorderTest, ConstructionRunsWithoutRecording) {
  const auto epoch = std::make_shared<TraceEpoch>();
  epoch->kind = TraceEpoch::Kind::kConstruction;
  at::Tensor made;
  {
    const RecordingScope scope(epoch);
    const c10::impl::IncludeDispatchKeyGuard keys(kConstructionKeys);
    made = at::ones({2}).add_(1);
    ASSERT_NE(ProxyOf(made), nullptr);
    EXPECT_EQ(ProxyOf(made)->value(), kNoValue);
    EXPECT_TRUE(ProxyOf(made)->real().equal(recorder_.RealOf(made)));
  }
  EXPECT_EQ(CurrentRecorder(), nullptr);
  EXPECT_THAT(recorder_.diagnostics(), IsEmpty());
}

}  // namespace
}  // namespace cotan::aot
