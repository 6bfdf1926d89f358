// SPDX-License-Identifier: Apache-2.0

#include "aot/decompositions/assert_ops.h"

#include <ATen/ops/ne.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <string>
#include <string_view>

#include "aot/capture/effects.h"
#include "aot/capture/number.h"

namespace cotan::aot {
namespace {

void AssertAsyncMessage(const at::Tensor& self, std::string_view message) {
  TORCH_CHECK(self.numel() == 1, "_assert_async: the condition must have one element, but has sizes ", self.sizes());
  Assert(at::ne(self, 0), "assert", std::string(message));
}

void AssertAsync(const at::Tensor& self) { AssertAsyncMessage(self, "Expected Tensor with single nonzero value"); }

// In LibTorch, using the result orders later ops after the check; effects are ordered by their tokens.
at::Tensor FunctionalAssertAsync(const at::Tensor& self, std::string_view message, const at::Tensor& order) {
  AssertAsyncMessage(self, message);
  return order.clone();
}

void AssertScalar(const at::Scalar& self, std::string_view message) {
  if (IsSymbolicNumber(self)) return AssertAsyncMessage(PlainTensorOfNumber(self), message);
  TORCH_CHECK(self.toBool(), message.empty() ? std::string_view("Assertion is failed") : message);
}

at::Tensor FunctionalAssertScalar(const at::Scalar& self, std::string_view message, const at::Tensor& order) {
  AssertScalar(self, message);
  return order.clone();
}

void PrintText(std::string_view text) { Print(at::zeros({0}), "print", std::string(text)); }

}  // namespace

void AddAssertRewrites(torch::Library& library) {
  library.impl("_assert_async", AssertAsync);
  library.impl("_assert_async.msg", AssertAsyncMessage);
  library.impl("_functional_assert_async.msg", FunctionalAssertAsync);
  library.impl("_assert_scalar", AssertScalar);
  library.impl("_functional_assert_scalar", FunctionalAssertScalar);
  library.impl("_print", PrintText);
}

}  // namespace cotan::aot
