// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/grad_mode.h"

#include <utility>

#include "gtest/gtest.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::Fresh;
using testing::LoadedFunction;
using testing::MethodBuilder;
using testing::Plain;
using testing::Plus;
using testing::ProgramBuilder;
using testing::Vector;

// torch.set_grad_enabled(False); return x * x
TEST(GradModeTest, GradModeIsAsTheFunctionLeftIt) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  f.Output("y", Plus(f, f.Input("x", DType::kFloat32, {"2"}), 1.0));
  ViewAndMutationMetaFields facts;
  facts.grad_enabled_mutation = false;
  facts.input_info = {Plain()};
  facts.output_info = {Fresh(false)};
  SetMetadata(f, facts);
  LoadedFunction program(std::move(builder));
  const GradModeGuard restore(true);
  program.Call({Variable(Vector({1, 2}))});
  EXPECT_FALSE(GradMode::enabled());
}

}  // namespace
}  // namespace cotan
