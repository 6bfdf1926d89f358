// SPDX-License-Identifier: Apache-2.0

// A function that is compiled with its CUDA kernels runs on a machine without NVRTC: forward and backward, recorded or
// not, with a retained graph and without, also where hooks pack what is saved.
#include <ATen/ATen.h>

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "aot/compile.h"
#include "aot/cuda/embed_kernels.h"
#include "aot/saved_tensor_hooks/hook_pairs.h"
#include "base/dtype.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_cpu.h"
#include "kernels/cuda/register_cuda.h"
#include "kernels/cuda/testing/sim_device.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "serialization/schema/tensor_type.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using cuda::testing::SimDevice;
using Tensors = std::vector<at::Tensor>;

// Writes its third argument, saves values, and has two outputs with gradients.
Tensors Perceptron(const Tensors& in) {
  in[2].mul_(0.5).add_(1);
  const at::Tensor hidden = at::tanh(at::matmul(in[0], in[1]) + in[2]);
  return {(at::softmax(hidden, 1) * hidden).sum(), at::exp(hidden).mean(0)};
}

Tensors Convolution(const Tensors& in) {
  const at::Tensor features = at::relu(at::conv2d(in[0], in[1], {}, 1, 1));
  return {(features * features).mean(), at::max_pool2d(features, 2)};
}

Tensors Attention(const Tensors& in) {
  const at::Tensor attended = at::scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.0, /*is_causal=*/true);
  return {(attended * attended).mean(), attended};
}

struct Case {
  std::string name;
  Tensors (*function)(const Tensors&);
  Tensors examples;
  // Packs what is saved, with relative errors up to `precision`.
  aot::SavedTensorHooks hooks = {};
  DType packed = DType::kUndefined;
  double precision = 0;
};

std::vector<Case> Cases() {
  const at::Generator generator = at::detail::createCPUGenerator(1);
  const auto leaf = [&](at::IntArrayRef sizes) { return at::randn(sizes, generator).requires_grad_(true); };
  return {{"perceptron", Perceptron, {leaf({4, 8}), leaf({8, 16}), at::randn({16}, generator)}},
          {"convolution", Convolution, {leaf({2, 3, 8, 8}), leaf({4, 3, 3, 3})}},
          {"attention", Attention, {leaf({1, 2, 20, 8}), leaf({1, 2, 30, 8}), leaf({1, 2, 30, 8})}}};
}

std::vector<Case> PackedCases() {
  const at::Generator generator = at::detail::createCPUGenerator(2);
  // Smaller values are not packed.
  const Tensors examples = {at::randn({16, 32}, generator).requires_grad_(true),
                            (at::randn({32, 64}, generator) / 8).requires_grad_(true), at::randn({64}, generator)};
  const auto pair = [](absl::string_view name) { return *aot::ParseSavedTensorHooks(absl::StrCat(name, ":all")); };
  return {{"bf16", Perceptron, examples, pair("bf16"), DType::kBFloat16, 0x1p-8},
          {"int8", Perceptron, examples, pair("int8"), DType::kInt8, 0x1p-6},
          {"fp8_e4m3", Perceptron, examples, pair("fp8_e4m3"), DType::kFloat8E4m3fn, 0x1p-3},
          {"fp8_e4m3_scaled", Perceptron, examples, pair("fp8_e4m3_scaled"), DType::kFloat8E4m3fn, 0x1p-3},
          {"fp8_e5m2_scaled", Perceptron, examples, pair("fp8_e5m2_scaled"), DType::kFloat8E5m2, 0x1p-2},
          {"host", Perceptron, examples, pair("host"), DType::kFloat32, 0x1p-18}};
}

// Returns true if a forward saves a value of `dtype`.
bool Saves(const std::string& bytes, DType dtype) {
  const std::shared_ptr<const Program> program = *Program::LoadBytes(bytes);
  for (const serialization::Method& method : program->artifact().methods()) {
    for (int i = method.outputs_size() - static_cast<int>(method.num_saved()); i < method.outputs_size(); ++i) {
      if (ToDType(method.values(static_cast<int>(method.outputs(i))).type().dtype()) == dtype) return true;
    }
  }
  return false;
}

std::string Compiled(const Case& c) {
  aot::CompileOptions options;
  options.tracing.keep_input_mutations = false;
  options.tracing.attention = aot::AttentionForm::kFused;
  options.debug.store_references = false;
  if (c.packed != DType::kUndefined) {
    options.saved_tensor_hooks = c.hooks;
    options.partitioner = aot::Partitioner::kDefault;
  }
  const absl::StatusOr<aot::CompiledModel> model = aot::CompileFunction(c.function, c.examples, options);
  EXPECT_TRUE(model.ok()) << model.status();
  absl::StatusOr<std::string> bytes =
      aot::EmbedCudaKernels(model->bytes(), {.compute_capabilities = {90}, .sizes = {{}}});
  EXPECT_TRUE(bytes.ok()) << bytes.status();
  return *std::move(bytes);
}

// A function of a session on one device, and the values that it computed so far.
class Caller {
 public:
  Caller(const std::string& bytes, const KernelRegistry& kernels, Device& device)
      : device_(device),
        session_(*Session::Create(*Program::LoadBytes(bytes), {.kernels = &kernels, .device = &device, .threads = 1})),
        function_(*Function::Create(session_, "forward")) {}

  void MakeArguments(const Tensors& examples) {
    arguments_.clear();
    for (const at::Tensor& example : examples) {
      Tensor value = *Tensor::Empty(DType::kFloat32, {example.sizes().data(), example.sizes().size()});
      std::memcpy(value.address(), example.const_data_ptr(), example.nbytes());
      value = *value.ToDevice(device_);
      arguments_.push_back(example.requires_grad() ? *Variable::Leaf(value) : Variable(value));
    }
  }

  void Call() {
    absl::StatusOr<std::vector<FunctionResult>> results = function_.Call(arguments_);
    ASSERT_TRUE(results.ok()) << results.status();
    results_ = *std::move(results);
    for (const FunctionResult& result : results_) Keep(std::get<Variable>(result).tensor());
    for (const Variable& argument : arguments_) Keep(argument.tensor());
  }

  // Runs the backward from the first result, which is one number, or from all results. Keeps the gradients.
  void Backward(bool from_all, bool retain_graph) {
    std::vector<Variable> roots;
    std::vector<Tensor> gradients;
    for (const FunctionResult& result : results_) {
      const Variable& root = std::get<Variable>(result);
      if (!from_all && !roots.empty()) break;
      roots.push_back(root);
      gradients.emplace_back();
      if (root.tensor().num_elements() == 1) continue;
      const std::vector<float> tangent(static_cast<size_t>(root.tensor().num_elements()), 0.25f);
      gradients.back() = *Tensor::From<float>(tangent, root.sizes())->ToDevice(device_);
    }
    const absl::Status status = autograd::Backward(roots, gradients, session_.ops(), {.retain_graph = retain_graph});
    ASSERT_TRUE(status.ok()) << status;
    for (const Variable& argument : arguments_) {
      if (argument.grad().defined()) Keep(argument.grad().tensor());
    }
  }

  const std::vector<std::vector<float>>& values() const { return values_; }
  const FunctionStats& stats() const { return function_.stats(); }

 private:
  void Keep(const Tensor& tensor) { values_.push_back(*tensor.ToHost()->ToVector<float>()); }

  Device& device_;
  Session session_;
  Function function_;
  std::vector<Variable> arguments_;
  std::vector<FunctionResult> results_;
  std::vector<std::vector<float>> values_;
};

// Calls with and without gradients; backwards from one result and from all, which keep the graph, then one that does
// not.
void Use(Caller& caller, const Tensors& examples) {
  caller.MakeArguments(examples);
  caller.Call();
  caller.Backward(/*from_all=*/false, /*retain_graph=*/true);
  caller.Backward(/*from_all=*/true, /*retain_graph=*/true);
  caller.Backward(/*from_all=*/false, /*retain_graph=*/false);
  const GradModeGuard no_grad(false);
  caller.MakeArguments(examples);
  caller.Call();
}

TEST(FunctionKernelsTest, PackedValuesAreThoseOfTheCpu) {
  for (const Case& c : PackedCases()) {
    SCOPED_TRACE(c.name);
    const std::string bytes = Compiled(c);
    EXPECT_TRUE(Saves(bytes, c.packed));
    Caller cpu(bytes, CpuKernels(), HostDevice());
    Use(cpu, c.examples);
    const std::unique_ptr<SimDevice> gpu = *SimDevice::Create({});
    Caller simulated(bytes, CudaKernels(), gpu->device());
    Use(simulated, c.examples);
    ASSERT_EQ(simulated.values().size(), cpu.values().size());
    // A value that differs in its last bit may be packed as the next value of the format.
    for (size_t i = 0; i < cpu.values().size(); ++i) {
      EXPECT_LE(ErrorInEps<float>(simulated.values()[i], cpu.values()[i]), c.precision / Epsilon(DType::kFloat32)) << i;
    }
    EXPECT_EQ(gpu->device().kernels().statistics().compiled, 0);
  }
}

TEST(FunctionKernelsTest, ForwardAndBackwardNeedNoCompiler) {
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    const std::string bytes = Compiled(c);
    Caller cpu(bytes, CpuKernels(), HostDevice());
    Use(cpu, c.examples);
    const std::unique_ptr<SimDevice> gpu = *SimDevice::Create({});
    Caller simulated(bytes, CudaKernels(), gpu->device());
    Use(simulated, c.examples);
    ASSERT_EQ(simulated.values().size(), cpu.values().size());
    for (size_t i = 0; i < cpu.values().size(); ++i) {
      EXPECT_LE(ErrorInEps<float>(simulated.values()[i], cpu.values()[i]), kMatmul) << i;
    }
    EXPECT_EQ(simulated.stats().backwards, 3);
    EXPECT_EQ(simulated.stats().backwards_in_donated_memory, 1);
    EXPECT_GT(gpu->device().kernels().statistics().from_images, 0);
    EXPECT_EQ(gpu->device().kernels().statistics().from_cache, 0);
    EXPECT_EQ(gpu->device().kernels().statistics().compiled, 0);
  }
}

}  // namespace
}  // namespace cotan::testing
