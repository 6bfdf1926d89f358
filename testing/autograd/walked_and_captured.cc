// SPDX-License-Identifier: Apache-2.0

#include "testing/autograd/walked_and_captured.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "runtime/autograd/function_node.h"
#include "runtime/compiled_autograd/compiled_autograd.h"

namespace cotan::testing {

void WalkedAndCaptured(absl::FunctionRef<void()> program) {
  program();
  SCOPED_TRACE("captured");
  ASSERT_TRUE(CompiledAutograd::Reset().ok());
  const CompiledAutograd scope;
  program();
  // Stats() does not count the captures of a backward that fails.
  EXPECT_THAT(CompiledAutograd::Reasons(), ::testing::Not(::testing::IsEmpty())) << "nothing was captured";
  EXPECT_THAT(CompiledAutograd::Messages(), ::testing::IsEmpty());
}

Variable WithInner(const Variable& x, std::function<absl::Status()> inner) {
  const auto backward = [inner = std::move(inner)](autograd::BackwardContext&,
                                                   absl::Span<Tensor> incoming) -> absl::StatusOr<autograd::Gradients> {
    const absl::Status ran = inner();
    if (!ran.ok()) return ran;
    return autograd::Gradients{incoming[0]};
  };
  return (*autograd::ApplyFunction("Reenter", {x}, {x.tensor()}, backward))[0];
}

}  // namespace cotan::testing
