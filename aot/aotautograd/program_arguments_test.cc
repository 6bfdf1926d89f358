// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/program_arguments.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "aot/decompositions/trace_scope.h"

namespace cotan::aot {
namespace {

TensorGeometry Geometry(SymIntVector sizes, SymIntVector strides, int64_t offset) {
  TensorGeometry geometry;
  geometry.dtype = DType::kFloat32;
  geometry.sizes = std::move(sizes);
  geometry.strides = std::move(strides);
  geometry.offset = offset;
  return geometry;
}

// f(a, b, a, c) where a and b overlap in one tensor.
InputBinding Binding() {
  InputBinding binding;
  binding.add_dupe_map = {0, 1, 0, 2};
  binding.inner_inputs = {InputBinding::BaseView{0, Geometry({4}, {1}, 0)},
                          InputBinding::BaseView{0, Geometry({4}, {1}, 2)}, InputBinding::Argument{1}};
  binding.bases = {{Geometry({6}, {1}, 0), true, false}};
  return binding;
}

TEST(ProgramArgumentsTest, ViewsOfABaseShareItsMemoryAndItsGradient) {
  RegisterTracing();
  const at::Tensor whole = at::arange(6, at::kFloat).requires_grad_(true).clone();
  const at::Tensor a = whole.slice(0, 0, 4), b = whole.slice(0, 2, 6), c = at::ones({3});
  const std::vector<at::Tensor> examples = {a, b, a, c};
  const std::vector<std::string> names = {"a", "b", "a2", "c"};
  const TraceScope scope(/*grad_enabled=*/true);
  Recorder recorder;
  const RecordingScope recording(recorder);
  const ProgramArguments program = AddProgramArguments(Binding(), {}, examples, names, recorder);

  ASSERT_EQ(program.arguments.size(), 2u);
  EXPECT_EQ(recorder.graph().inputs()[0].name, "base.0");
  EXPECT_EQ(recorder.graph().inputs()[1].name, "c");
  EXPECT_TRUE(program.arguments[0].requires_grad);
  EXPECT_FALSE(program.arguments[1].requires_grad);
  EXPECT_EQ(program.arguments[0].example.numel(), 6);

  ASSERT_EQ(program.function_inputs.size(), 4u);
  EXPECT_TRUE(program.function_inputs[0].is_same(program.function_inputs[2]));
  EXPECT_TRUE(program.function_inputs[0].requires_grad());
  EXPECT_FALSE(program.function_inputs[0].is_leaf());
  at::Tensor first = program.function_inputs[0];
  first.mul_(10);
  EXPECT_EQ(recorder.RealOf(program.function_inputs[1]).const_data_ptr<float>()[0], 20);
  EXPECT_EQ(recorder.RealOf(program.arguments[0].tensor).const_data_ptr<float>()[3], 30);
  EXPECT_EQ(whole.const_data_ptr<float>()[3], 3);
}

// f(a, b) where both cover one storage, and neither is a view of the other.
TEST(ProgramArgumentsTest, TensorsThatOnlyShareMemoryAreNoViewsOfEachOther) {
  RegisterTracing();
  const at::Tensor a = at::arange(4, at::kFloat), b = a.detach();
  InputBinding binding;
  binding.inner_inputs = {InputBinding::BaseView{0, Geometry({4}, {1}, 0)},
                          InputBinding::BaseView{0, Geometry({4}, {1}, 0)}};
  binding.bases = {{Geometry({4}, {1}, 0), false, true}};
  const std::vector<at::Tensor> examples = {a, b};
  const std::vector<std::string> names = {"a", "b"};
  const TraceScope scope(/*grad_enabled=*/true);
  Recorder recorder;
  const RecordingScope recording(recorder);
  const ProgramArguments program = AddProgramArguments(binding, {}, examples, names, recorder);
  at::Tensor first = program.function_inputs[0], second = program.function_inputs[1];
  EXPECT_FALSE(first.is_same(second));
  EXPECT_FALSE(first.is_view());
  EXPECT_FALSE(second.is_view());
  first.requires_grad_(true);
  second.mul_(10);
  EXPECT_EQ(recorder.RealOf(first).const_data_ptr<float>()[3], 30);
}

TEST(ProgramArgumentsTest, NoGradientGoesThroughViewsMadeUnderNoGrad) {
  RegisterTracing();
  const at::Tensor leaf = at::ones({4}).requires_grad_(true);
  const std::vector<at::Tensor> examples = {leaf, leaf.slice(0, 0, 2), [&] {
                                              const at::NoGradGuard no_grad;
                                              return leaf.slice(0, 2, 4);
                                            }()};
  const std::vector<std::string> names = {"leaf", "view", "view_under_no_grad"};
  const TraceScope scope(/*grad_enabled=*/true);
  Recorder recorder;
  const RecordingScope recording(recorder);
  const ProgramArguments program = AddProgramArguments({}, {}, examples, names, recorder);
  ASSERT_EQ(program.arguments.size(), 3u);
  EXPECT_EQ(program.arguments[0].input_without_gradient, -1);
  EXPECT_EQ(program.arguments[1].input_without_gradient, -1);
  EXPECT_EQ(program.arguments[2].input_without_gradient, 2);
}

}  // namespace
}  // namespace cotan::aot
