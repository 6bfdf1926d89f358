// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/view_node.h"

#include <complex>
#include <vector>

#include "base/status_macros.h"
#include "runtime/autograd/test_support.h"

namespace cotan::autograd {
namespace {

using ::testing::ElementsAre;

ViewedGeometry Dense(DimVector sizes, DType dtype = DType::kFloat32) {
  const DimVector strides = ContiguousStrides(sizes);
  return {dtype, {.sizes = std::move(sizes), .strides = strides}};
}

// Returns the gradient of the source, given that of the view.
absl::StatusOr<Tensor> Back(const std::shared_ptr<Node>& node, Tensor gradient) {
  const bool needed[] = {true};
  BackwardContext context(Ops(), needed);
  COTAN_ASSIGN_OR_RETURN(const Gradients results, node->Apply(context, absl::MakeSpan(&gradient, 1)));
  return results[0];
}

absl::StatusOr<Tensor> Back(const ViewStep& step, const ViewedGeometry& source, Tensor gradient) {
  COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<Node> node, MakeViewNode(step, source));
  return Back(node, std::move(gradient));
}

TEST(ViewNodeTest, ReshapingsAreTurnedBackWithoutACopy) {
  const Tensor gradient = Count({3, 2});
  const Tensor result = *Back(view::View{.sizes = {3, 2}}, Dense({2, 3}), gradient);
  EXPECT_EQ(result.layout(), Count({2, 3}).layout());
  EXPECT_EQ(result.storage(), gradient.storage());
  EXPECT_EQ(Back(view::Squeeze{.dims = {0, 2}}, Dense({1, 3, 1}), Count({3}))->sizes(),
            (std::vector<int64_t>{1, 3, 1}));
  EXPECT_EQ(Back(view::Unsqueeze{.dim = 1}, Dense({2, 3}), Count({2, 1, 3}))->sizes(), (std::vector<int64_t>{2, 3}));
  EXPECT_EQ(Back(view::Alias{}, Dense({6}), Count({6}))->sizes(), (std::vector<int64_t>{6}));
}

TEST(ViewNodeTest, ATransposedGradientIsCopiedToBeReshaped) {
  const Tensor columns =
      *Tensor::InStorage(Count({6}).storage(), DType::kFloat32, {.sizes = {3, 2}, .strides = {1, 3}});
  EXPECT_THAT(ToVector(*Back(view::View{.sizes = {3, 2}}, Dense({6}), columns)), ElementsAre(0, 3, 1, 4, 2, 5));
}

TEST(ViewNodeTest, GradientsOfConjugatesAreConjugated) {
  using Complex = std::complex<float>;
  const Tensor gradient = *Tensor::From<Complex>({{1, 5}, {2, 6}}, {2});
  const Tensor result = *Back(view::Conjugate{}, Dense({2}, DType::kComplex64), gradient);
  EXPECT_TRUE(result.is_plain());
  EXPECT_THAT(*result.ToVector<Complex>(), ElementsAre(Complex(1, -5), Complex(2, -6)));
  EXPECT_THAT(ToVector(*Back(view::Negate{}, Dense({2}), Count({2}))), ElementsAre(-0.0f, -1));
  // A conjugate view that is given by its layout.
  ViewedGeometry place = Dense({2}, DType::kComplex64);
  place.reading.conjugate = true;
  const auto node = MakeStridedViewNode("AsStridedBackward", Dense({2}, DType::kComplex64), place);
  EXPECT_THAT(*Back(node, gradient)->ToVector<Complex>(), ElementsAre(Complex(1, -5), Complex(2, -6)));
}

TEST(ViewNodeTest, PermutationsAreInverted) {
  // The source [2, 3, 4] is permuted to [4, 2, 3].
  const Tensor result = *Back(view::Permute{.dims = {2, 0, 1}}, Dense({2, 3, 4}), Count({4, 2, 3}));
  EXPECT_EQ(result.layout().sizes, (DimVector{2, 3, 4}));
  EXPECT_EQ(result.layout().strides, (DimVector{3, 1, 6}));
}

TEST(ViewNodeTest, ExpandedDimensionsAreSummed) {
  EXPECT_THAT(ToVector(*Back(view::Expand{.sizes = {2, 3}}, Dense({3}), Count({2, 3}))), ElementsAre(3, 5, 7));
  EXPECT_THAT(ToVector(*Back(view::Expand{.sizes = {2, 3}}, Dense({2, 1}), Count({2, 3}))), ElementsAre(3, 12));
}

TEST(ViewNodeTest, PartsAreScatteredIntoZeros) {
  EXPECT_THAT(ToVector(*Back(view::Slice{.dim = 0, .start = 1, .end = 6, .step = 2}, Dense({6}), Vector({1, 2, 3}))),
              ElementsAre(0, 1, 0, 2, 0, 3));
  EXPECT_THAT(ToVector(*Back(view::Select{.dim = 1, .index = 2}, Dense({2, 3}), Vector({1, 2}))),
              ElementsAre(0, 0, 1, 0, 0, 2));
  EXPECT_THAT(ToVector(*Back(view::Diagonal{.dim1 = 0, .dim2 = 1, .offset = 1}, Dense({2, 3}), Vector({1, 2}))),
              ElementsAre(0, 1, 0, 0, 0, 2));
  EXPECT_THAT(ToVector(*Back(view::Unfold{.dim = 0, .size = 3, .step = 1}, Dense({5}),
                             Values({1, 1, 1, 2, 2, 2, 3, 3, 3}, {3, 3}))),
              ElementsAre(1, 3, 6, 5, 3));
}

TEST(ViewNodeTest, TheGradientOfAPartOfAnExpandedSourceIsDense) {
  const ViewedGeometry expanded = {DType::kFloat32, {.sizes = {2, 2}, .strides = {0, 1}}};
  EXPECT_THAT(ToVector(*Back(view::Select{.dim = 0, .index = 1}, expanded, Vector({1, 2}))), ElementsAre(0, 0, 1, 2));
}

TEST(ViewNodeTest, StridedViewsAddUpWhereTheyOverlap) {
  const view::AsStrided step = {.sizes = {3, 2}, .strides = {1, 1}, .offset = 0};
  EXPECT_THAT(ToVector(*Back(step, Dense({4}), Count({3, 2}))), ElementsAre(0, 3, 7, 5));
}

TEST(ViewNodeTest, ElementsOutsideTheSourceGetNoGradient) {
  const ViewedGeometry slice = {DType::kFloat32, {.sizes = {2}, .strides = {2}, .offset = 1}};  // elements 1 and 3
  const view::AsStrided whole = {.sizes = {5}, .strides = {1}, .offset = 0};
  EXPECT_THAT(ToVector(*Back(whole, slice, Vector({1, 2, 3, 4, 5}))), ElementsAre(2, 4));
}

TEST(ViewNodeTest, AnElementThatTheSourceHasTwiceSharesItsGradient) {
  const ViewedGeometry expanded = {DType::kFloat32, {.sizes = {3}, .strides = {0}}};
  const view::AsStrided step = {.sizes = {2}, .strides = {0}, .offset = 0};
  const std::vector<float> result = ToVector(*Back(step, expanded, Vector({1, 1})));
  for (const float value : result) EXPECT_FLOAT_EQ(value, 2.0f / 3);
}

TEST(ViewNodeTest, ComplexNumbersAndPairsTurnIntoEachOther) {
  const Tensor complex = *Back(view::ViewAsReal{}, Dense({2}, DType::kComplex64), Count({2, 2}));
  EXPECT_THAT(*complex.ToVector<std::complex<float>>(),
              ElementsAre(std::complex<float>(0, 1), std::complex<float>(2, 3)));
  EXPECT_THAT(ToVector(*Back(view::ViewAsComplex{}, Dense({2, 2}), complex)), ElementsAre(0, 1, 2, 3));
}

TEST(ViewNodeTest, NoGradientStaysNone) {
  const std::vector<ViewStep> steps = {view::View{.sizes = {4}}, view::Permute{.dims = {1, 0}},
                                       view::Expand{.sizes = {3, 2, 2}}, view::Select{.dim = 0, .index = 0},
                                       view::AsStrided{.sizes = {1}, .strides = {1}, .offset = 0}};
  for (const ViewStep& step : steps) {
    const absl::StatusOr<Tensor> result = Back(step, Dense({2, 2}), Tensor());
    ASSERT_TRUE(result.ok()) << ToString(step) << result.status();
    EXPECT_FALSE(result->defined()) << ToString(step);
  }
}

TEST(ViewNodeTest, SeveralViewsGiveOneGradient) {
  const std::shared_ptr<Node> node =
      MakeMultiViewNode(Dense({2, 3}), {{.sizes = {3}, .strides = {1}}, {.sizes = {3}, .strides = {1}, .offset = 3}});
  const bool needed[] = {true};
  BackwardContext context(Ops(), needed);
  Tensor gradients[] = {Tensor(), Vector({1, 2, 3})};
  EXPECT_THAT(ToVector((*node->Apply(context, absl::MakeSpan(gradients)))[0]), ElementsAre(0, 0, 0, 1, 2, 3));
  Tensor none[] = {Tensor(), Tensor()};
  EXPECT_FALSE((*node->Apply(context, absl::MakeSpan(none)))[0].defined());
}

}  // namespace
}  // namespace cotan::autograd
