// SPDX-License-Identifier: Apache-2.0

#include "testing/blocks/block_functions.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <utility>
#include <vector>

#include "runtime/autograd/engine.h"
#include "testing/blocks/block_counts.h"

namespace cotan::testing {

using ::testing::IsEmpty;

aot::CompiledModel Compiling(const aot::TensorFunction& function, const Tensors& inputs,
                             const aot::CompileOptions& options) {
  absl::StatusOr<aot::CompiledModel> model = aot::CompileFunction(function, inputs, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

void ExpectEager(const aot::TensorFunction& function, const aot::CompiledModel& model, const Tensors& inputs) {
  Tensors sources, roots, tangents;
  const Tensors copies = Copies(inputs);
  for (const at::Tensor& copy : copies) {
    if (copy.requires_grad()) sources.push_back(copy);
  }
  const Tensors expected = function(copies);
  auto compiled = Compiled::Load(model);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Variables arguments = ToVariables(inputs);
  const Variables results = (*compiled)(arguments);
  ASSERT_EQ(results.size(), expected.size());
  Variables variables, found_roots;
  std::vector<Tensor> found_tangents;
  for (const Variable& argument : arguments) {
    if (argument.requires_grad()) variables.push_back(argument);
  }
  for (size_t i = 0; i < expected.size(); ++i) {
    ExpectNear(ToTorch(results[i].tensor()), expected[i].detach());
    EXPECT_EQ(results[i].requires_grad(), expected[i].requires_grad()) << i;
    if (!expected[i].requires_grad()) continue;
    roots.push_back(expected[i]);
    tangents.push_back(Constant(static_cast<int>(500 + i), expected[i].sizes()));
    found_roots.push_back(results[i]);
    found_tangents.push_back(ToCotan(tangents.back()));
  }
  if (roots.empty() || sources.empty()) return;
  const Tensors gradients = torch::autograd::grad(roots, sources, tangents, false, false, true);
  const auto found = autograd::Grad(found_roots, variables, found_tangents, compiled->ops(), {.allow_unused = true});
  ASSERT_TRUE(found.ok()) << found.status();
  for (size_t i = 0; i < gradients.size(); ++i) {
    ExpectNear((*found)[i].defined() ? ToTorch((*found)[i]) : at::Tensor(), gradients[i]);
  }
}

void ExpectBlocks(const aot::CompiledModel& model, int blocks, const CallCounts& calls) {
  const BlockCounts counts = CountBlocks(model);
  EXPECT_EQ(counts.blocks, blocks);
  EXPECT_EQ(counts.calls, calls);
  EXPECT_THAT(model.inlined_blocks(), IsEmpty());
}

void ExpectEagerWithBlocks(const aot::TensorFunction& function, const Tensors& inputs, int blocks,
                           const CallCounts& calls) {
  const aot::CompiledModel model = Compiling(function, inputs);
  ExpectBlocks(model, blocks, calls);
  ExpectEager(function, model, inputs);
}

}  // namespace cotan::testing
