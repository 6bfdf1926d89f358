#include "aot/metadata/view_and_mutation.h"

#include <ATen/ATen.h>
#include <ATen/FunctionalTensorWrapper.h>
#include <c10/core/impl/LocalDispatchKeySet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cotan::aot {
namespace {

using serialization::ViewAndMutationMeta;

// Ones under functionalization.
at::Tensor Functional(at::IntArrayRef sizes, bool requires_grad = false) {
  const at::Tensor real = [&] {
    const c10::impl::ExcludeDispatchKeyGuard plain(c10::DispatchKey::Functionalize);
    return at::ones(sizes);
  }();
  return at::functionalization::impl::to_functional_tensor(real).requires_grad_(requires_grad);
}

class ViewAndMutationTest : public ::testing::Test {
 private:
  const c10::impl::IncludeDispatchKeyGuard functionalize_{c10::DispatchKey::Functionalize};
};

TEST_F(ViewAndMutationTest, UntouchedInputIsNotMutated) {
  const at::Tensor x = Functional({2}, true);
  const ViewAndMutationMeta meta = AnalyzeViewsAndMutations({x}, {x * 2});
  EXPECT_TRUE(meta.input_info(0).is_leaf());
  EXPECT_TRUE(meta.input_info(0).requires_grad());
  EXPECT_FALSE(meta.input_info(0).mutates_data());
  EXPECT_TRUE(meta.input_info(0).mutations_hidden_from_autograd());
  EXPECT_FALSE(meta.input_info(0).mutations_under_no_grad_or_inference_mode());
  EXPECT_EQ(meta.output_info(0).output_type(), serialization::NON_ALIAS);
  EXPECT_TRUE(meta.output_info(0).requires_grad());
}

TEST_F(ViewAndMutationTest, MutationThroughAViewIsOneOfTheInput) {
  const at::Tensor x = Functional({4});
  x.view({2, 2}).select(0, 0).mul_(2);
  const ViewAndMutationMeta meta = AnalyzeViewsAndMutations({x}, {});
  EXPECT_TRUE(meta.input_info(0).mutates_data());
  EXPECT_FALSE(meta.input_info(0).mutates_metadata());
  EXPECT_FALSE(meta.input_info(0).mutations_under_no_grad_or_inference_mode());
}

TEST_F(ViewAndMutationTest, MutationUnderNoGradIsToldApart) {
  const at::Tensor x = Functional({4}, true);
  {
    at::NoGradGuard no_grad;
    x.mul_(2);
  }
  EXPECT_TRUE(AnalyzeViewsAndMutations({x}, {}).input_info(0).mutations_under_no_grad_or_inference_mode());
}

TEST_F(ViewAndMutationTest, TransposeInPlaceChangesMetadataOnly) {
  const at::Tensor x = Functional({2, 3});
  x.transpose_(0, 1);
  const ViewAndMutationMeta meta = AnalyzeViewsAndMutations({x}, {});
  EXPECT_FALSE(meta.input_info(0).mutates_data());
  EXPECT_TRUE(meta.input_info(0).mutates_metadata());
}

TEST_F(ViewAndMutationTest, ClassifiesOutputs) {
  const at::Tensor x = Functional({2, 3}), y = Functional({2, 3});
  const at::Tensor fresh = x + y;
  const ViewAndMutationMeta meta = AnalyzeViewsAndMutations({x, y}, {y, x.t(), fresh, (x * 2).view({-1})});
  EXPECT_EQ(meta.output_info(0).output_type(), serialization::IS_INPUT);
  EXPECT_EQ(meta.output_info(0).base_index(), 1u);
  EXPECT_EQ(meta.output_info(1).output_type(), serialization::ALIAS_OF_INPUT);
  EXPECT_EQ(meta.output_info(1).base_index(), 0u);
  EXPECT_EQ(meta.output_info(2).output_type(), serialization::NON_ALIAS);
  EXPECT_FALSE(meta.output_info(2).has_base_index());
  EXPECT_EQ(meta.output_info(3).output_type(), serialization::UNSAFE_VIEW_ALIAS);
}

TEST(GeometryTest, HasStridesInElements) {
  const TensorGeometry geometry = GeometryOf(at::zeros({4, 6}, at::kInt).slice(0, 1, 3).t());
  EXPECT_EQ(geometry, (TensorGeometry{DType::kInt32, {6, 2}, {1, 6}, 6}));
}

}  // namespace
}  // namespace cotan::aot
