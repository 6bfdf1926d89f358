// SPDX-License-Identifier: Apache-2.0

// Values on the host beside a GPU, in compiled artifacts: numbers that are arguments of functions and nodes (the rows
// C7 of testing/autograd/cases.txt), and saved values that wait on the host for the backward.
#include <ATen/ATen.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "aot/compile.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/cuda/open_cuda_device.h"
#include "kernels/cuda/register_cuda.h"
#include "kernels/cuda/testing/sim_device.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/function_node.h"
#include "runtime/autograd/host_offload.h"
#include "runtime/autograd/saved_variable.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"

namespace cotan::testing {
namespace {

using cuda::testing::SimDevice;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

std::string Compiled(const aot::TensorFunction& function, const Tensors& examples) {
  aot::CompileOptions options;
  options.debug.store_references = false;
  const absl::StatusOr<aot::CompiledModel> model = aot::CompileFunction(function, examples, options);
  EXPECT_TRUE(model.ok()) << model.status();
  return std::string(model->bytes());
}

at::Tensor Parameter(at::IntArrayRef sizes, at::ScalarType dtype = at::kFloat) {
  return at::ones(sizes, dtype).requires_grad_(true);
}

// A function of an artifact in a session of its own.
class Callable {
 public:
  Callable(const std::string& bytes, const KernelRegistry& kernels, Device& device)
      : session_(*Session::Create(*Program::LoadBytes(bytes), {.kernels = &kernels, .device = &device, .threads = 1})),
        function_(*Function::Create(session_, "forward")) {}

  // Returns the first result.
  Variable operator()(const std::vector<Variable>& arguments) {
    const absl::StatusOr<std::vector<FunctionResult>> results = function_.Call(arguments);
    EXPECT_TRUE(results.ok()) << results.status();
    return results.ok() ? std::get<Variable>((*results)[0]) : Variable();
  }
  TensorOps& ops() { return session_.ops(); }

 private:
  Session session_;
  Function function_;
};

Tensor Floats(const std::vector<float>& values, const DimVector& sizes) { return *Tensor::From<float>(values, sizes); }
std::vector<float> ValuesOf(const Tensor& tensor) { return *tensor.ToHost()->ToVector<float>(); }

Tensor Half(const at::Tensor& values) {
  Tensor tensor = *Tensor::Empty(DType::kFloat16, {values.sizes().data(), values.sizes().size()});
  const at::Tensor dense = values.to(at::kHalf).contiguous();
  std::memcpy(tensor.address(), dense.const_data_ptr(), dense.nbytes());
  return tensor;
}

// Drops what the thread has captured, which has plans on the device, before the device.
struct CloseDevice {
  void operator()(SimDevice* device) const {
    EXPECT_TRUE(CompiledAutograd::Reset().ok());
    delete device;
  }
};
using DevicePtr = std::unique_ptr<SimDevice, CloseDevice>;

// Returns a simulated GPU, by default one on which addresses repeat, so that steps become graphs.
DevicePtr NewDevice(bool keeps_freed_memory = true) {
  return DevicePtr(SimDevice::Create({.keeps_freed_memory = keeps_freed_memory})->release());
}

int64_t MovesToDevice(SimDevice& gpu) {
  const cuda::sim::Statistics counts = gpu.gpu().statistics();
  const auto found = counts.calls.find("cuMemcpyHtoDAsync_v2");
  return found == counts.calls.end() ? 0 : found->second;
}

class HostValuesTest : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_TRUE(CompiledAutograd::Reset().ok()); }
};

Tensors DividedLinear(const Tensors& in) { return {at::matmul(in[0], in[1].t()).sum() / in[2]}; }

TEST_F(HostValuesTest, ANumberOfAFunctionIsMovedOncePerBackwardWhichIsAGraph) {
  const std::string bytes =
      Compiled(DividedLinear, {at::ones({2, 4}, at::kHalf), Parameter({3, 4}, at::kHalf), at::ones({}, at::kHalf)});
  const DevicePtr gpu = NewDevice();
  Callable on_gpu(bytes, CudaKernels(), gpu->device());
  Callable on_cpu(bytes, CpuKernels(), HostDevice());
  const Tensor x = Half(at::arange(8).reshape({2, 4}));
  const Variable number(Half(at::full({}, 4.0)));
  const Variable x_gpu(*x.ToDevice(gpu->device()));
  const Variable weight_gpu = *Variable::Leaf(*Half(at::ones({3, 4})).ToDevice(gpu->device()));
  const Variable weight_cpu = *Variable::Leaf(Half(at::ones({3, 4})));
  constexpr int kSteps = 8;
  for (int i = 0; i < kSteps; ++i) {
    CompiledAutograd scope;
    const Variable loss = on_gpu({x_gpu, weight_gpu, number});
    const int64_t before = MovesToDevice(*gpu);
    ASSERT_TRUE(autograd::Backward({loss}, {}, on_gpu.ops()).ok());
    EXPECT_EQ(MovesToDevice(*gpu) - before, 1) << i;
    const int64_t moved = MovesToDevice(*gpu);
    ASSERT_TRUE(autograd::Backward({on_cpu({Variable(x), weight_cpu, number})}, {}, on_cpu.ops()).ok());
    EXPECT_EQ(MovesToDevice(*gpu), moved);
  }
  // A first backward without a gradient in each leaf, and one that adds to it, on both devices.
  EXPECT_EQ(CompiledAutograd::Stats().captures, 4) << ::testing::PrintToString(CompiledAutograd::Reasons());
  EXPECT_THAT(CompiledAutograd::Messages(), ElementsAre());
  ASSERT_TRUE(gpu->device().Synchronize().ok());
  EXPECT_GT(gpu->gpu().statistics().graph_launches, 0);
  EXPECT_EQ(&number.tensor().device(), &HostDevice());
  const Tensor on_host = *weight_gpu.grad().tensor().ToHost();
  EXPECT_EQ(std::memcmp(on_host.address(), weight_cpu.grad().tensor().address(), 24), 0);
  EXPECT_EQ(std::memcmp(on_host.address(), Half(at::tensor({8., 12., 16., 20.})).address(), 8), 0);
}

// A node whose backward multiplies by what it saved: a tensor without dimensions on the host, and a number.
Variable TimesSaved(const Variable& x, const Variable& factor, std::vector<Device*>& seen) {
  auto self = std::make_shared<std::weak_ptr<autograd::Node>>();
  const autograd::SavedVariable saved(factor);
  constexpr float kNumber = 5;
  const auto backward = [self, saved, &seen](autograd::BackwardContext& context,
                                             absl::Span<Tensor> incoming) -> absl::StatusOr<autograd::Gradients> {
    const absl::StatusOr<Tensor> value = saved.Unpack(*self->lock());
    if (!value.ok()) return value.status();
    seen.push_back(&value->device());
    std::vector<float> gradient = ValuesOf(incoming[0]);
    for (float& element : gradient) element *= *value->Item<float>() * kNumber;
    return autograd::Gradients{*Floats(gradient, {10}).ToDevice(context.ops().device())};
  };
  const auto results = autograd::ApplyFunction("TimesSaved", {x}, {x.tensor()}, backward);
  EXPECT_TRUE(results.ok()) << results.status();
  *self = *(*results)[0].grad_fn();
  return (*results)[0];
}

TEST_F(HostValuesTest, ATensorThatANodeSavesStaysOnTheHost) {
  const std::string square = Compiled([](const Tensors& in) -> Tensors { return {in[0] * in[0]}; }, {Parameter({10})});
  const std::string sum = Compiled([](const Tensors& in) -> Tensors { return {in[0].sum()}; }, {Parameter({10})});
  const DevicePtr gpu = NewDevice();
  Callable first(square, CudaKernels(), gpu->device());
  Callable last(sum, CudaKernels(), gpu->device());
  const Variable x = *Variable::Leaf(*Floats(std::vector<float>(10, 0.5f), {10}).ToDevice(gpu->device()));
  const Variable five(Floats({5}, {}));
  std::vector<Device*> seen;
  constexpr int kSteps = 8;
  for (int i = 0; i < kSteps; ++i) {
    CompiledAutograd scope;
    const Variable loss = last({TimesSaved(first({x}), five, seen)});
    ASSERT_TRUE(autograd::Backward({loss}, {}, first.ops()).ok());
  }
  EXPECT_EQ(CompiledAutograd::Stats().called_nodes, kSteps);
  EXPECT_EQ(CompiledAutograd::Stats().walked_segments, 0) << ::testing::PrintToString(CompiledAutograd::Messages());
  EXPECT_THAT(seen, Each(&HostDevice()));
  EXPECT_THAT(ValuesOf(x.grad().tensor()), Each(25 * kSteps));
  EXPECT_GT(gpu->gpu().statistics().graph_launches, kSteps);  // of the parts around the node, forward and backward
}

TEST_F(HostValuesTest, ANumberThatANodeReadsTooIsMovedForTheFunctionOnly) {
  const std::string bytes =
      Compiled([](const Tensors& in) -> Tensors { return {(in[0] * in[1]).sum()}; }, {Parameter({10}), at::ones({})});
  const DevicePtr gpu = NewDevice();
  Callable on_gpu(bytes, CudaKernels(), gpu->device());
  const Variable x = *Variable::Leaf(*Floats(std::vector<float>(10, 1), {10}).ToDevice(gpu->device()));
  const Variable number(Floats({3}, {}));
  std::vector<Device*> seen;
  CompiledAutograd scope;
  ASSERT_TRUE(autograd::Backward({on_gpu({TimesSaved(x, number, seen), number})}, {}, on_gpu.ops()).ok());
  EXPECT_THAT(ValuesOf(x.grad().tensor()), Each(45));
  EXPECT_THAT(seen, ElementsAre(&HostDevice()));
  EXPECT_EQ(&number.tensor().device(), &HostDevice());
}

TEST_F(HostValuesTest, AHostProgramBesideAGpuMovesNothing) {
  const std::string bytes =
      Compiled([](const Tensors& in) -> Tensors { return {(in[0] * in[1]).sum()}; }, {Parameter({10}), at::ones({})});
  const DevicePtr gpu = NewDevice();
  Callable on_cpu(bytes, CpuKernels(), HostDevice());
  const Variable x = *Variable::Leaf(Floats(std::vector<float>(10, 1), {10}));
  gpu->gpu().ResetStatistics();
  CompiledAutograd scope;
  ASSERT_TRUE(autograd::Backward({on_cpu({x, Variable(Floats({3}, {}))})}, {}, on_cpu.ops()).ok());
  EXPECT_THAT(ValuesOf(x.grad().tensor()), Each(3));
  EXPECT_TRUE(gpu->gpu().statistics().calls.empty());
}

TEST_F(HostValuesTest, NumbersOnTheHostHaveTheirGradientsThere) {
  const std::string product =
      Compiled([](const Tensors& in) -> Tensors { return {(in[0] * in[1]).sum()}; }, {Parameter({}), at::ones({2, 2})});
  const std::string affine = Compiled([](const Tensors& in) -> Tensors { return {(in[2] * in[0] + in[1]).sum()}; },
                                      {Parameter({}), Parameter({}), at::ones({4, 10})});
  for (const bool captured : {false, true}) {
    SCOPED_TRACE(captured);
    const DevicePtr gpu = NewDevice();
    const CompiledAutograd scope = captured ? CompiledAutograd() : CompiledAutograd(CompiledAutograd::kDisabled);
    Callable times(product, CudaKernels(), gpu->device());
    const Variable x = *Variable::Leaf(Floats({1}, {}));
    const Variable y(*Floats({1, 2, 3, 4}, {2, 2}).ToDevice(gpu->device()));
    for (const float expected : {10.f, 20.f}) {
      ASSERT_TRUE(autograd::Backward({times({x, y})}, {}, times.ops()).ok());
      EXPECT_EQ(&x.grad().tensor().device(), &HostDevice());
      EXPECT_THAT(*x.grad().tensor().ToVector<float>(), ElementsAre(expected));
    }
    Callable line(affine, CudaKernels(), gpu->device());
    const Variable a = *Variable::Leaf(Floats({2}, {}));
    const Variable b = *Variable::Leaf(Floats({3}, {}));
    const Variable rows(*Floats(std::vector<float>(40, 0.5f), {4, 10}).ToDevice(gpu->device()));
    ASSERT_TRUE(autograd::Backward({line({a, b, rows})}, {}, line.ops()).ok());
    EXPECT_THAT(*a.grad().tensor().ToVector<float>(), ElementsAre(20));
    EXPECT_THAT(*b.grad().tensor().ToVector<float>(), ElementsAre(40));
    EXPECT_EQ(&a.grad().tensor().device(), &HostDevice());
    EXPECT_EQ(&b.grad().tensor().device(), &HostDevice());
  }
}

TEST_F(HostValuesTest, AnArrayOnTheHostThatNeedsAGradientIsRefused) {
  const std::string bytes = Compiled([](const Tensors& in) -> Tensors { return {in[0].sum()}; }, {Parameter({10})});
  const DevicePtr gpu = NewDevice();
  Callable sum(bytes, CudaKernels(), gpu->device());
  const Variable x = *Variable::Leaf(Floats(std::vector<float>(10, 1), {10}));
  const absl::Status status = autograd::Backward({sum({x})}, {}, sum.ops());
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("is on another device than the value"));
}

// --- saved values on the host -------------------------------------------------

constexpr int64_t kRows = 32, kInner = 128, kOuter = 64;

Tensors Perceptron(const Tensors& in) {
  const at::Tensor hidden = at::tanh(at::matmul(in[0], in[1]));
  return {at::tanh(at::matmul(hidden, in[2])).sum()};
}

struct OffloadRun {
  std::vector<std::vector<float>> gradients;
  int64_t held_bytes = 0;   // of device memory in all, between forward and backward
  int64_t moved_bytes = 0;  // to the host in the forward
};

OffloadRun RunPerceptron(const std::string& bytes, bool offloads, bool captured) {
  const DevicePtr gpu = NewDevice(/*keeps_freed_memory=*/false);
  Callable call(bytes, CudaKernels(), gpu->device());
  const auto leaf = [&](int64_t rows, int64_t columns) {
    std::vector<float> values(static_cast<size_t>(rows * columns));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i * 37 % 101) / 1000 - 0.05f;
    return *Variable::Leaf(*Floats(values, {rows, columns}).ToDevice(gpu->device()));
  };
  const std::vector<Variable> leaves = {leaf(kRows, kOuter), leaf(kOuter, kInner), leaf(kInner, kOuter)};
  const int64_t moved = gpu->gpu().statistics().to_host.bytes;
  const auto forward = [&] {
    if (!offloads) return call(leaves);
    const autograd::SavedTensorHooksScope scope(autograd::OffloadToHost(**CudaPinnedMemory(gpu->device())));
    return call(leaves);
  };
  OffloadRun run;
  {
    const Variable loss = forward();
    size_t available = 0, total = 0;
    EXPECT_TRUE(gpu->device().Synchronize().ok());
    EXPECT_EQ(gpu->device().driver().cuMemGetInfo_v2(&available, &total), cuda::driver::CUDA_SUCCESS);
    run.held_bytes = static_cast<int64_t>(total - available);
    run.moved_bytes = gpu->gpu().statistics().to_host.bytes - moved;
    const CompiledAutograd scope = captured ? CompiledAutograd() : CompiledAutograd(CompiledAutograd::kDisabled);
    for (const bool retain : {true, false}) {
      const absl::Status status = autograd::Backward({loss}, {}, call.ops(), {.retain_graph = retain});
      EXPECT_TRUE(status.ok()) << status;
    }
  }
  for (const Variable& each : leaves) run.gradients.push_back(ValuesOf(each.grad().tensor()));
  return run;
}

TEST_F(HostValuesTest, SavedValuesOnTheHostFreeDeviceMemoryUntilTheBackward) {
  const std::string bytes =
      Compiled(Perceptron, {Parameter({kRows, kOuter}), Parameter({kOuter, kInner}), Parameter({kInner, kOuter})});
  constexpr int64_t kActivations = (kRows * kInner + kRows * kOuter) * static_cast<int64_t>(sizeof(float));
  for (const bool captured : {false, true}) {
    SCOPED_TRACE(captured);
    const OffloadRun kept = RunPerceptron(bytes, /*offloads=*/false, captured);
    const OffloadRun offloaded = RunPerceptron(bytes, /*offloads=*/true, captured);
    EXPECT_GE(kept.held_bytes - offloaded.held_bytes, kActivations);
    EXPECT_GE(offloaded.moved_bytes, kActivations);
    EXPECT_LT(kept.moved_bytes, 1024);
    EXPECT_EQ(offloaded.gradients, kept.gradients);
  }
}

TEST_F(HostValuesTest, OnlyAGpuHasPinnedMemory) {
  EXPECT_EQ(CudaPinnedMemory(HostDevice()).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::testing
