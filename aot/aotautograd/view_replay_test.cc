// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/view_replay.h"

#include <ATen/ATen.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "aot/capture/inputs.h"
#include "aot/capture/recorder.h"
#include "aot/decompositions/trace_scope.h"

namespace cotan::aot {
namespace {

// Returns the steps of the views that `function` takes of `base`, and checks that their replay
// gives the same memory.
std::string Replay(const at::Tensor& base, const std::function<at::Tensor(const at::Tensor&)>& function) {
  const at::Tensor expected = function(base);
  const TraceScope scope(/*grad_enabled=*/false);
  Recorder recorder;
  const RecordingScope recording(recorder);
  const at::Tensor view = function(AddInputLike(base, recorder, 0, "base"));
  const auto& metas = at::functionalization::impl::unsafeGetFunctionalWrapper(view)->view_metas();
  const size_t num_nodes = recorder.graph().nodes().size();
  const ReplayedViews replayed = ReplayViews(metas, base);
  EXPECT_TRUE(replayed.complete);
  EXPECT_EQ(recorder.graph().nodes().size(), num_nodes) << "a replay must not be part of the trace";
  EXPECT_EQ(replayed.result.sizes(), expected.sizes());
  EXPECT_EQ(replayed.result.strides(), expected.strides());
  EXPECT_EQ(replayed.result.storage_offset(), expected.storage_offset());
  EXPECT_TRUE(replayed.result.is_alias_of(base));
  return ToString(replayed.steps);
}

TEST(ViewReplayTest, NamesEachView) {
  const at::Tensor m = at::rand({4, 6});
  EXPECT_EQ(Replay(m, [](auto& x) { return x.view({-1, 3}); }), "view(8, 3)");
  EXPECT_EQ(Replay(m, [](auto& x) { return x.t(); }), "permute(1, 0)");
  EXPECT_EQ(Replay(m, [](auto& x) { return x.unsqueeze(-1).permute({2, -2, 0}); }), "unsqueeze(2).permute(2, 1, 0)");
  EXPECT_EQ(Replay(m, [](auto& x) { return x.unsqueeze(1).transpose(0, -1); }), "unsqueeze(1).permute(2, 1, 0)");
  EXPECT_EQ(Replay(m, [](auto& x) { return x.slice(-1, -5, 100, 2); }), "slice(dim=1, 1:6:2)");
  EXPECT_EQ(Replay(m, [](auto& x) { return x.select(0, -1); }), "select(dim=0, 3)");
  EXPECT_EQ(Replay(m, [](auto& x) { return x.narrow(0, 1, 2); }), "slice(dim=0, 1:3:1)");
  EXPECT_EQ(Replay(m, [](auto& x) { return x.diagonal(1); }), "diagonal(0, 1, offset=1)");
  EXPECT_EQ(Replay(m, [](auto& x) { return x.unfold(-1, 3, 2); }), "unfold(dim=1, size=3, step=2)");
  EXPECT_EQ(Replay(m, [](auto& x) { return x.as_strided({2}, {7}, 1); }), "as_strided([2], [7], 1)");
  EXPECT_EQ(Replay(m, [](auto& x) { return x.expand({2, -1, -1}); }), "expand(2, 4, 6)");
  EXPECT_EQ(Replay(m, [](auto& x) { return x.detach(); }), "detach()");
  EXPECT_EQ(Replay(m, [](auto& x) { return x.view(at::kInt); }), "dtype_view(i32).detach()");
  EXPECT_EQ(Replay(m.unsqueeze(1), [](auto& x) { return x.squeeze(); }), "squeeze(1)");
  EXPECT_EQ(Replay(m.unsqueeze(1), [](auto& x) { return x.squeeze(0); }), "squeeze()");
  EXPECT_EQ(Replay(m[0], [](auto& x) { return x.t(); }), "permute(0)");
}

TEST(ViewReplayTest, SelectsOneOfSeveralResults) {
  const at::Tensor m = at::rand({4, 6});
  EXPECT_EQ(Replay(m, [](auto& x) { return x.unbind(0)[2]; }), "select(dim=0, 2)");
  EXPECT_EQ(Replay(m, [](auto& x) { return x.split(4, 1)[1]; }), "slice(dim=1, 4:6:1)");
  EXPECT_EQ(Replay(m, [](auto& x) { return x.split_with_sizes({1, 3}, 0)[1]; }), "slice(dim=0, 1:4:1)");
  EXPECT_EQ(Replay(m, [](auto& x) { return x.chunk(2, 1)[1].t(); }), "slice(dim=1, 3:6:1).permute(1, 0)");
}

TEST(ViewReplayTest, NamesViewsOfComplexNumbers) {
  const at::Tensor z = at::rand({3}, at::kComplexFloat);
  EXPECT_EQ(Replay(z, [](auto& x) { return at::view_as_real(x); }), "view_as_real()");
  EXPECT_EQ(Replay(z, [](auto& x) { return at::real(x); }), "view_as_real().select(dim=1, 0)");
  EXPECT_EQ(Replay(z, [](auto& x) { return x.conj(); }), "conjugate()");
  EXPECT_EQ(Replay(at::rand({3, 2}), [](auto& x) { return at::view_as_complex(x); }), "view_as_complex()");
}

TEST(ViewReplayTest, GeometryIsThatOfTheBasesStorage) {
  const at::Tensor part = at::rand({4, 6}).slice(0, 1, 3);
  EXPECT_EQ(Replay(part, [](auto& x) { return x.select(0, 1); }), "select(dim=0, 1)");
  EXPECT_EQ(Replay(part, [](auto& x) { return x.t().slice(0, 2, 4); }), "permute(1, 0).slice(dim=0, 2:4:1)");
}

}  // namespace
}  // namespace cotan::aot
