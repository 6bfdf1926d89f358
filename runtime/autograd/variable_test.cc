// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/variable.h"

#include <complex>
#include <vector>

#include "runtime/autograd/engine.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

using ::testing::ElementsAre;

constexpr auto kRefused = absl::StatusCode::kFailedPrecondition;

Variable Leaf(const std::vector<int64_t>& sizes) { return *Variable::Leaf(Count(sizes)); }

// A computed variable: neither leaf nor view.
Variable Computed(const std::vector<int64_t>& sizes) { return Scale(Leaf(sizes), 1); }

std::string GradFn(const Variable& x) {
  const auto node = x.grad_fn();
  if (!node.ok()) return std::string(node.status().message());
  return *node == nullptr ? "none" : std::string((*node)->name());
}

TEST(VariableTest, HandlesAreTheSameObjectOrNot) {
  const Variable x(Count({2}));
  const Variable copy = x;
  const Variable twin(x.tensor());
  EXPECT_TRUE(copy.is_same(x));
  EXPECT_FALSE(twin.is_same(x));
  EXPECT_FALSE(Variable().defined());
  EXPECT_EQ(Variable().ToString(), "undefined");
}

TEST(VariableTest, LeavesRequireGradOnlyIfTheyCan) {
  EXPECT_THAT(Variable::Leaf(*Tensor::Scalar<int64_t>(1)).status(),
              Fails(absl::StatusCode::kInvalidArgument, "only tensors of floating point and complex dtype"));
  Variable x(Count({2}));
  EXPECT_FALSE(x.requires_grad());
  EXPECT_TRUE(x.is_leaf());
  ASSERT_TRUE(x.RequiresGrad(true).ok());
  EXPECT_TRUE(x.requires_grad());
  EXPECT_TRUE(x.is_leaf());
  ASSERT_TRUE(x.RequiresGrad(false).ok());
  EXPECT_FALSE(x.requires_grad());
  Variable y = Computed({2});
  EXPECT_THAT(y.RequiresGrad(false), Fails(kRefused, "only change requires_grad flags of leaf variables"));
}

TEST(VariableTest, ViewsAreRecordedAndShareVersions) {
  const Variable x = Computed({2, 3});
  const Variable row = *x.View({view::Select{.dim = 0, .index = 1}});
  const Variable part = *row.View({view::Slice{.dim = 0, .start = 1, .end = 3}});
  EXPECT_THAT(ToVector(part), ElementsAre(4, 5));
  EXPECT_EQ(GradFn(row), "SelectBackward");
  EXPECT_EQ(GradFn(part), "SliceBackward");
  EXPECT_TRUE(part.is_view());
  EXPECT_TRUE(part.base().is_same(x)) << "the base is not a view";
  Variable(part).BumpVersion();
  EXPECT_EQ(x.version(), 1u);
  EXPECT_EQ(part.ToString(), "f32[2] grad_fn=SliceBackward view");
}

TEST(VariableTest, StepsFollowOneAnotherAndMayHaveSymbols) {
  const Variable x = Computed({4, 3});
  const ViewStep steps[] = {view::Permute{.dims = {1, 0}}, view::Select{.dim = 1, .index = SymInt::Symbol(0)}};
  EXPECT_THAT(ToVector(*x.View(steps, {2})), ElementsAre(6, 7, 8));
  EXPECT_EQ(x.View(steps).status().code(), absl::StatusCode::kInvalidArgument) << "a symbol without value";
  EXPECT_EQ(GradFn(*x.View({})), "AliasBackward");
  const ViewStep detached[] = {view::Detach{}, view::View{.sizes = {12}}};
  const Variable cut = *x.View(detached);
  EXPECT_FALSE(cut.requires_grad());
  EXPECT_TRUE(cut.is_view());
  EXPECT_FALSE(cut.base().is_same(x));
}

TEST(VariableTest, AViewThatDoesNotFitIsRefused) {
  const Variable x = Leaf({2, 3});
  EXPECT_EQ(x.View({view::View{.sizes = {5}}}).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(x.AsStrided({.sizes = {7}, .strides = {1}}).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(VariableTest, BitsOfOtherDtypeHaveNoGradient) {
  const Variable x = Computed({2});
  const Variable bits = *x.View({view::DTypeView{.dtype = DType::kInt32}});
  EXPECT_FALSE(bits.requires_grad());
  EXPECT_FALSE(bits.is_view());
  Variable(bits).BumpVersion();
  EXPECT_EQ(x.version(), 1u);
}

TEST(VariableTest, DetachSharesMemoryAndVersionOnly) {
  const Variable x = Computed({2});
  Variable detached = x.Detach();
  EXPECT_FALSE(detached.requires_grad());
  EXPECT_FALSE(detached.is_view());
  EXPECT_EQ(detached.tensor().storage(), x.tensor().storage());
  detached.BumpVersion();
  EXPECT_EQ(x.version(), 1u);
}

TEST(VariableTest, ViewsMadeWithoutGradientsFollowTheirBase) {
  Variable x(Count({4}));
  GradModeGuard off(false);
  const Variable view = *x.View({view::View{.sizes = {2, 2}}});
  EXPECT_FALSE(view.requires_grad());
  ASSERT_TRUE(x.RequiresGrad(true).ok());
  EXPECT_TRUE(view.requires_grad());
  EXPECT_TRUE(view.is_leaf());
  EXPECT_EQ(view.view_creation(), ViewCreation::kNoGrad);
}

TEST(VariableTest, GradientsOfViewsMadeWithoutThemGoNowhere) {
  Variable leaf = Leaf({4});
  GradModeGuard off(false);
  Variable view = *leaf.View({view::View{.sizes = {2, 2}}});
  GradModeGuard on(true);
  EXPECT_TRUE(view.requires_grad());
  EXPECT_FALSE(view.GradientEdge()->defined());
  EXPECT_TRUE(view.AddHook([](const Tensor& gradient) -> absl::StatusOr<Tensor> { return gradient; }).ok());
  EXPECT_THAT(Backward({view}, {Count({2, 2})}, Ops()), Fails(kRefused, "root 0 does not require grad"));
  EXPECT_THAT(Grad({Scale(leaf, 2)}, {view}, {Count({4})}, Ops()).status(), Fails(kRefused, "not have been used"));
  ASSERT_TRUE(Backward({Scale(view, 2)}, {Count({2, 2})}, Ops()).ok());
  EXPECT_FALSE(leaf.grad().defined());
}

TEST(VariableTest, CopyCastsAndBroadcasts) {
  Variable x = Computed({2, 2});
  const Variable source(*Tensor::From<int64_t>({7, 8}, {2}));
  ASSERT_TRUE(x.CopyInPlace(source, Ops()).ok());
  EXPECT_THAT(ToVector(x), ElementsAre(7, 8, 7, 8));
  EXPECT_EQ(x.version(), 1u);
  EXPECT_EQ(GradFn(x), "CopyBackward");
}

TEST(VariableTest, ACopyFromWhatRequiresGradGivesHistory) {
  const Variable source = Leaf({2});
  Variable x(Count({2}));
  Variable integers(*Tensor::From<int64_t>({7, 8}, {2}));
  {
    GradModeGuard off(false);
    ASSERT_TRUE(x.CopyInPlace(source, Ops()).ok());
    EXPECT_FALSE(x.requires_grad());
  }
  ASSERT_TRUE(x.CopyInPlace(source, Ops()).ok());
  EXPECT_EQ(GradFn(x), "CopyBackward");
  ASSERT_TRUE(integers.CopyInPlace(source, Ops()).ok());
  EXPECT_FALSE(integers.requires_grad());
}

TEST(VariableTest, LeavesAndTheirViewsMayNotBeWritten) {
  Variable leaf = Leaf({4});
  const Variable source(Count({4}));
  EXPECT_THAT(leaf.CopyInPlace(source, Ops()), Fails(kRefused, "a leaf Variable that requires grad is being used"));
  EXPECT_THAT(leaf.View({})->CopyInPlace(source, Ops()),
              Fails(kRefused, "a view of a leaf Variable that requires grad is being used"));
  EXPECT_THAT(leaf.AsStridedInPlace({.sizes = {2}, .strides = {1}}), Fails(kRefused, "a leaf Variable"));
  EXPECT_EQ(leaf.version(), 0u);
  GradModeGuard off(false);
  EXPECT_TRUE(leaf.CopyInPlace(source, Ops()).ok());
  EXPECT_TRUE(leaf.is_leaf());
  EXPECT_EQ(leaf.version(), 1u);
}

TEST(VariableTest, WritingAViewGivesItsBaseAndOtherViewsNewHistory) {
  const Variable x = Computed({4});
  Variable front = *x.View({view::Slice{.dim = 0, .start = 0, .end = 2}});
  const Variable back = *x.View({view::Slice{.dim = 0, .start = 2, .end = 4}});
  EXPECT_EQ(GradFn(back), "SliceBackward");
  ASSERT_TRUE(front.CopyInPlace(Leaf({2}), Ops()).ok());
  EXPECT_EQ(GradFn(x), "CopySlices");
  EXPECT_EQ(GradFn(front), "AsStridedBackward");
  EXPECT_EQ(GradFn(back), "AsStridedBackward");
  EXPECT_EQ((*back.grad_fn())->edge(0).node, *x.grad_fn());
}

TEST(VariableTest, AViewLearnsItsHistoryWhenAsked) {
  Variable x(Count({4}));
  const Variable view = *x.View({view::View{.sizes = {2, 2}}});
  ASSERT_TRUE(x.CopyInPlace(Leaf({4}), Ops()).ok());
  EXPECT_TRUE(view.requires_grad());
  EXPECT_TRUE(view.is_leaf()) << "grad_fn() has not been called yet";
  EXPECT_EQ(GradFn(view), "AsStridedBackward");
  EXPECT_FALSE(view.is_leaf());
}

TEST(VariableTest, AViewLearnsItsHistoryFromAViewThatDoesNotFit) {
  Variable x(Count({4}));
  const Variable view = *x.View({view::View{.sizes = {2, 2}}});
  ASSERT_TRUE(x.CopyInPlace(Leaf({4}), Ops()).ok());
  EXPECT_FALSE(view.View({view::View{.sizes = {5}}}).ok());
  EXPECT_FALSE(view.is_leaf());
}

TEST(VariableTest, ViewsMadeWithoutGradientsMayNotBeWrittenWithThem) {
  const Variable x = Computed({4});
  const auto make_view = [&] {
    GradModeGuard off(false);
    return *x.View({});
  };
  Variable view = make_view();
  EXPECT_THAT(view.CopyInPlace(Variable(Count({4})), Ops()),
              Fails(kRefused, "created in no_grad mode and is being modified inplace"));
  ASSERT_TRUE(Variable(x).CopyInPlace(Variable(Count({4})), Ops()).ok());
  EXPECT_THAT(view.grad_fn().status(), Fails(kRefused, "created in no_grad mode and its base or another view"));
  EXPECT_EQ((*x.View({})).view_creation(), ViewCreation::kDefault);
  EXPECT_EQ((*make_view().View({})).view_creation(), ViewCreation::kNoGrad) << "inherited by views of the view";
}

TEST(VariableTest, SeveralViewsOfOneOperationMayNotBeWritten) {
  const Variable x = Computed({2, 2});
  const ViewStep rows[] = {view::Select{.dim = 0, .index = 0}, view::Select{.dim = 0, .index = 1}};
  std::vector<Variable> views = *x.MultiView(rows);
  EXPECT_THAT(ToVector(views[1]), ElementsAre(2, 3));
  EXPECT_EQ(*views[0].grad_fn(), *views[1].grad_fn());
  EXPECT_EQ(views[1].output_number(), 1);
  const Variable source(Count({2}));
  EXPECT_THAT(views[1].CopyInPlace(source, Ops()), Fails(kRefused, "Output 1 of MultiViewBackward"));
  EXPECT_THAT(views[1].View({})->CopyInPlace(source, Ops()), Fails(kRefused, "multiple views"));
  Variable plain(Count({2, 2}));
  EXPECT_TRUE((*plain.MultiView(rows))[0].CopyInPlace(source, Ops()).ok()) << "no gradients are needed";
  ASSERT_TRUE(Variable(x).CopyInPlace(plain, Ops()).ok());
  EXPECT_THAT(views[0].grad_fn().status(), Fails(kRefused, "has been modified inplace"));
}

TEST(VariableTest, CopiesThatDependOnOrderAreRefused) {
  const Variable x(Count({6}));
  Variable back = *x.View({view::Slice{.dim = 0, .start = 1, .end = 6}});
  const Variable front = *x.View({view::Slice{.dim = 0, .start = 0, .end = 5}});
  EXPECT_THAT(back.CopyInPlace(front, Ops()), Fails(absl::StatusCode::kInvalidArgument, "a single memory location"));
  Variable wide = *x.View({view::Slice{.dim = 0, .start = 0, .end = 1}, view::Expand{.sizes = {3}}});
  EXPECT_THAT(wide.CopyInPlace(Variable(Count({3})), Ops()),
              Fails(absl::StatusCode::kInvalidArgument, "more than one element of the written-to tensor"));
  EXPECT_TRUE(wide.CopyInPlace(wide, Ops()).ok()) << "a copy onto itself is allowed";
  EXPECT_TRUE(Variable(x).CopyInPlace(x, Ops()).ok());
  EXPECT_THAT(ToVector(x), ElementsAre(0, 1, 2, 3, 4, 5));
}

TEST(VariableTest, GeometryChangesForOneObjectAndIsRecorded) {
  Variable x = Computed({2, 3});
  const Variable view = *x.View({view::View{.sizes = {6}}});
  ASSERT_TRUE(x.AsStridedInPlace({.sizes = {3, 2}, .strides = {1, 3}}).ok());
  EXPECT_THAT(ToVector(x), ElementsAre(0, 3, 1, 4, 2, 5));
  EXPECT_EQ(GradFn(x), "AsStridedBackward");
  EXPECT_EQ(x.version(), 1u);
  EXPECT_THAT(ToVector(view), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_EQ(x.AsStridedInPlace({.sizes = {7}, .strides = {1}}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(VariableTest, AViewsGeometryChangesWithoutTheBaseKnowing) {
  const Variable x = Computed({6});
  Variable view = *x.View({view::View{.sizes = {2, 3}}});
  ASSERT_TRUE(view.AsStridedInPlace({.sizes = {3, 2}, .strides = {1, 3}}).ok());
  EXPECT_EQ(GradFn(view), "AsStridedBackward");
  EXPECT_EQ(GradFn(x), "Scale");
  ASSERT_TRUE(Backward({view}, {Count({3, 2})}, Ops(), {.retain_graph = true}).ok());
  ASSERT_TRUE(view.CopyInPlace(Variable(Count({3, 2})), Ops()).ok());
  EXPECT_THAT(ToVector(x), ElementsAre(0, 2, 4, 1, 3, 5));
}

TEST(VariableTest, StorageIsReplacedForOneObject) {
  Variable x = Computed({4});
  const Variable view = *x.View({});
  const Variable other(Count({3}));
  EXPECT_THAT(x.SetStorage(other), Fails(kRefused, "gradients"));
  GradModeGuard off(false);
  ASSERT_TRUE(x.SetStorage(other).ok());
  EXPECT_EQ(x.tensor().storage(), other.tensor().storage());
  EXPECT_EQ(x.version(), 1u);
  EXPECT_EQ(other.version(), 0u);
  EXPECT_EQ(view.tensor().num_elements(), 4);
  EXPECT_EQ(x.SetStorage(Variable(*Tensor::Scalar<int64_t>(1))).code(), absl::StatusCode::kInvalidArgument);
  Variable leaf = Leaf({4});
  const Edge before = *leaf.GradientEdge();
  ASSERT_TRUE(leaf.SetStorage(other).ok());
  EXPECT_NE(leaf.GradientEdge()->node, before.node) << "gradients have other sizes now";
}

TEST(VariableTest, DetachInPlaceCutsTheHistory) {
  Variable x = Computed({4});
  EXPECT_THAT(x.View({})->DetachInPlace(), Fails(kRefused, "Can't detach views in-place"));
  ASSERT_TRUE(x.DetachInPlace().ok());
  EXPECT_TRUE(x.is_leaf());
  EXPECT_FALSE(x.requires_grad());
}

TEST(VariableTest, HooksNeedAGradient) {
  Variable plain(Count({2}));
  const auto hook = [](const Tensor& gradient) -> absl::StatusOr<Tensor> { return gradient; };
  const auto post = [](Variable&) { return absl::OkStatus(); };
  EXPECT_EQ(plain.AddHook(hook).status().code(), kRefused);
  EXPECT_EQ(plain.RetainGrad().code(), kRefused);
  EXPECT_EQ(plain.AddPostAccumulateHook(post).status().code(), kRefused);
  EXPECT_EQ(Computed({2}).AddPostAccumulateHook(post).status().code(), kRefused);
  for (Variable x : {Leaf({2}), Computed({2})}) {
    const HookId id = *x.AddHook(hook);
    EXPECT_TRUE(x.RemoveHook(id));
    EXPECT_FALSE(x.RemoveHook(id));
  }
}

TEST(VariableTest, ViewsMadeOutsideAreViewsWithAHistoryOfTheirOwn) {
  const Variable base(Count({6}));
  const Tensor seen = *Tensor::InStorage(base.tensor().storage(), DType::kFloat32, {.sizes = {3}, .strides = {2}});
  const Variable source = Computed({3});
  Variable view = base.ViewAs(seen, ViewCreation::kMultiOutput);
  view.SetHistory(*source.grad_fn(), source.output_number());
  EXPECT_TRUE(view.base().is_same(base));
  EXPECT_EQ(GradFn(view), "Scale");
  EXPECT_THAT(view.CheckInPlace(true), Fails(kRefused, "returns multiple views"));
  Variable(base).BumpVersion();
  EXPECT_NE(GradFn(view), "Scale") << "its memory was written";

  const Variable alias = base.DetachAs(seen);
  EXPECT_FALSE(alias.is_view());
  EXPECT_EQ(alias.version(), base.version());
  EXPECT_THAT(ToVector(alias), ElementsAre(0, 2, 4));
}

TEST(VariableTest, AViewIsALeafUntilItIsAskedForTheHistoryThatItsBaseGot) {
  Variable base(Count({6}));
  const Variable view = *base.View({view::Slice{.dim = 0, .start = 3, .end = 4}});
  ASSERT_TRUE(base.CopyInPlace(Computed({6}), Ops()).ok());
  EXPECT_EQ(view.CheckInPlace(true).code(), kRefused);
  EXPECT_NE(*view.grad_fn(), nullptr);
  EXPECT_TRUE(view.CheckInPlace(true).ok()) << view.CheckInPlace(true);
  EXPECT_EQ(Leaf({2}).CheckInPlace(true).code(), kRefused);
}

TEST(VariableTest, ConjugateViewsAreWrittenAndHaveGradients) {
  using Complex = std::complex<float>;
  const Variable x = *Variable::Leaf(*Tensor::From<Complex>({{1, 5}, {2, 6}}, {2}));
  const Variable y = *x.View({view::Conjugate{}});
  EXPECT_TRUE(y.is_view());
  EXPECT_THAT(*y.tensor().ToVector<Complex>(), ElementsAre(Complex(1, -5), Complex(2, -6)));
  const Tensor tangent = *Tensor::From<Complex>({{0, 1}, {1, 1}}, {2});
  const auto gradients = Grad({y}, {x}, {tangent}, Ops());
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  EXPECT_THAT(*(*gradients)[0].ToVector<Complex>(), ElementsAre(Complex(0, -1), Complex(1, -1)));

  Variable z(*Tensor::From<Complex>({{1, 5}, {2, 6}}, {2}));
  Variable conjugate = *z.View({view::Conjugate{}});
  ASSERT_TRUE(conjugate.CopyInPlace(Variable(tangent), Ops()).ok());
  EXPECT_THAT(*z.tensor().ToVector<Complex>(), ElementsAre(Complex(0, -1), Complex(1, -1)));
}

}  // namespace
}  // namespace cotan::autograd
