// SPDX-License-Identifier: Apache-2.0

// Checks that ops whose results or result sizes depend on the content of a tensor are rejected by name,
// with a reason and a message of Cotan rather than of LibTorch.
#include <ATen/ATen.h>

#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "testing/ops/compiled_function.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

using Tensors = std::vector<at::Tensor>;

struct Case {
  std::string op;  // as the message names it
  aot::TensorFunction function;
  Tensors inputs;
};

at::Tensor Longs(at::ArrayRef<int64_t> values) { return at::tensor(values, at::kLong); }

std::vector<Case> Scalars() {
  const at::Tensor x = at::rand({3, 4});
  return {
      {"aten.item.default", [](const Tensors& in) -> Tensors { return {in[0] * in[0].sum().item<float>()}; }, {x}},
      {"aten.is_nonzero.default",
       [](const Tensors& in) -> Tensors { return {in[0] * at::is_nonzero(in[0].sum())}; },
       {x}},
      {"aten.equal.default",
       [](const Tensors& in) -> Tensors { return {in[0] * at::equal(in[0], in[1])}; },
       {x, x.clone()}},
      {"aten.allclose.default",
       [](const Tensors& in) -> Tensors { return {in[0] * at::allclose(in[0], in[1])}; },
       {x, x.clone()}},
      {"aten.tensor_split.tensor_indices_or_sections",
       [](const Tensors& in) -> Tensors { return in[0].tensor_split(in[1], 1); },
       {x, at::scalar_tensor(2, at::kLong)}},
      {"aten.tensor_split.tensor_indices_or_sections",
       [](const Tensors& in) -> Tensors { return in[0].tensor_split(in[1], 1); },
       {x, Longs({1, 3})}},
      {"aten.item.default",
       [](const Tensors& in) -> Tensors { return {in[0].narrow(1, in[1].item<int64_t>(), 2)}; },
       {x, at::scalar_tensor(1, at::kLong)}},
  };
}

std::vector<Case> Sizes() {
  const at::Tensor x = at::rand({3, 4});
  const at::Tensor classes = Longs({0, 2, 1, 2});
  return {
      {"aten.nonzero.default", [](const Tensors& in) -> Tensors { return {at::nonzero(in[0])}; }, {x}},
      {"aten.argwhere.default", [](const Tensors& in) -> Tensors { return {at::argwhere(in[0])}; }, {x}},
      {"aten.nonzero_numpy.default", [](const Tensors& in) -> Tensors { return at::nonzero_numpy(in[0]); }, {x}},
      {"aten.where.default", [](const Tensors& in) -> Tensors { return at::where(in[0] > 0.5); }, {x}},
      {"aten.masked_select.default",
       [](const Tensors& in) -> Tensors { return {at::masked_select(in[0], in[0] > 0.5)}; },
       {x}},
      {"aten.index.Tensor", [](const Tensors& in) -> Tensors { return {in[0].index({in[0] > 0.5})}; }, {x}},
      {"aten._unique2.default",
       [](const Tensors& in) -> Tensors { return {std::get<0>(at::_unique2(in[0]))}; },
       {classes}},
      {"aten.unique_dim.default",
       [](const Tensors& in) -> Tensors { return {std::get<0>(at::unique_dim(in[0], 0))}; },
       {x}},
      {"aten.unique_consecutive.default",
       [](const Tensors& in) -> Tensors { return {std::get<0>(at::unique_consecutive(in[0]))}; },
       {classes}},
      {"aten.repeat_interleave.Tensor",
       [](const Tensors& in) -> Tensors { return {at::repeat_interleave(in[0], in[1], 1)}; },
       {x, classes}},
      {"aten.bincount.default", [](const Tensors& in) -> Tensors { return {at::bincount(in[0])}; }, {classes}},
      {"aten.one_hot.default", [](const Tensors& in) -> Tensors { return {at::one_hot(in[0])}; }, {classes}},
      {"aten.to_sparse.default", [](const Tensors& in) -> Tensors { return {in[0].to_sparse().to_dense()}; }, {x}},
  };
}

void ExpectRefused(const Case& c, bool with_gradients) {
  SCOPED_TRACE(c.op);
  const absl::Status status = CompileOnly(c.function, c.inputs, with_gradients);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  const std::string message(status.message());
  EXPECT_THAT(message, HasSubstr(c.op));
  const std::string lower = absl::AsciiStrToLower(message);
  for (const char* word : {"functionaliz", "fake", "meta ", "internal assert", "torch.compile", "not allocated",
                           "storage", "data pointer", "exception raised"}) {
    EXPECT_THAT(lower, Not(HasSubstr(word)));
  }
}

TEST(ValueDependentOpsTest, RejectsReadsOfElementsByName) {
  for (const Case& c : Scalars()) {
    ExpectRefused(c, /*with_gradients=*/false);
    ExpectRefused(c, /*with_gradients=*/true);
  }
}

// Ops without a derivative to compile: eager mode has none for linspace, and the backward of packing is a
// separate op.
TEST(ValueDependentOpsTest, RejectsOpsWithoutGradientsByName) {
  ExpectRefused({"aten.linspace.Tensor_Tensor",
                 [](const Tensors& in) -> Tensors { return {at::linspace(in[0], in[1], 5)}; },
                 {at::rand({}), at::rand({})}},
                /*with_gradients=*/false);
  ExpectRefused({"aten._pack_padded_sequence.default",
                 [](const Tensors& in) -> Tensors {
                   return {std::get<0>(at::_pack_padded_sequence(in[0], in[1], /*batch_first=*/true))};
                 },
                 {at::rand({3, 4, 2}), Longs({4, 2, 1})}},
                /*with_gradients=*/false);
}

// The degree is the number of steps of the recurrence.
TEST(ValueDependentOpsTest, RejectsPolynomialsWhoseDegreeIsATensorByName) {
  const Tensors inputs = {at::rand({3}), Longs({0, 1, 2})};
  const std::vector<Case> cases = {
      {"aten.special_chebyshev_polynomial_t",
       [](const Tensors& in) -> Tensors { return {at::special_chebyshev_polynomial_t(in[0], in[1])}; }, inputs},
      {"aten.special_chebyshev_polynomial_t",
       [](const Tensors& in) -> Tensors { return {in[0] * at::special_chebyshev_polynomial_t(0.5, in[1])}; }, inputs},
      {"aten.special_hermite_polynomial_he",
       [](const Tensors& in) -> Tensors { return {at::special_hermite_polynomial_he(in[0], in[1])}; }, inputs},
      {"aten.special_legendre_polynomial_p",
       [](const Tensors& in) -> Tensors { return {at::special_legendre_polynomial_p(in[0], in[1])}; }, inputs},
  };
  for (const Case& c : cases) ExpectRefused(c, /*with_gradients=*/false);
}

TEST(ValueDependentOpsTest, RejectsDataDependentSizesByName) {
  for (const Case& c : Sizes()) {
    ExpectRefused(c, /*with_gradients=*/false);
    ExpectRefused(c, /*with_gradients=*/true);
  }
}

TEST(ValueDependentOpsTest, ErrorsOfEagerAreNotReportedAsLimitsOfTheCompiler) {
  const at::Tensor x = at::rand({3, 4});
  const auto split = [](const Tensors& in) -> Tensors { return in[0].tensor_split(in[1], 1); };
  const auto write_to_leaf = [](const Tensors& in) -> Tensors { return {in[0].add_(1)}; };
  const auto mismatch = [](const Tensors& in) -> Tensors { return {at::mm(in[0], in[0])}; };
  const absl::Status wrong_dtype = CompileOnly(split, {x, at::rand({2})}, /*with_gradients=*/false);
  EXPECT_EQ(wrong_dtype.code(), absl::StatusCode::kInvalidArgument) << wrong_dtype;
  const absl::Status leaf = CompileOnly(write_to_leaf, {x}, /*with_gradients=*/true);
  EXPECT_EQ(leaf.code(), absl::StatusCode::kInvalidArgument) << leaf;
  EXPECT_THAT(std::string(leaf.message()), HasSubstr("leaf"));
  const absl::Status sizes = CompileOnly(mismatch, {x}, /*with_gradients=*/false);
  EXPECT_EQ(sizes.code(), absl::StatusCode::kInvalidArgument) << sizes;
}

}  // namespace
}  // namespace cotan::testing
