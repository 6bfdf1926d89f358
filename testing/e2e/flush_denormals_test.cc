// SPDX-License-Identifier: Apache-2.0

// Compares sessions that take subnormal numbers as zeros with LibTorch eager after torch.set_flush_denormal(true).
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <type_traits>
#include <vector>

#include "aot/compile.h"
#include "aot/optimizer/optimizer.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/session.h"
#include "testing/e2e/compiled_trainer.h"
#include "testing/e2e/eager_trainer.h"
#include "testing/models/models.h"

namespace cotan::testing {
namespace {

using Tensors = std::vector<at::Tensor>;

// Sets LibTorch's mode in its scope. The mode is that of the calling thread, so LibTorch computes on one thread.
class EagerFlushes {
 public:
  explicit EagerFlushes(bool flush) : threads_(at::get_num_threads()) {
    at::set_num_threads(1);
    at::globalContext().setFlushDenormal(flush);
  }
  ~EagerFlushes() {
    at::globalContext().setFlushDenormal(false);
    at::set_num_threads(threads_);
  }

 private:
  const int threads_;
};

// Returns how many elements are neither zero nor normal. Looks at the bits, whatever the mode of this thread.
int64_t CountSubnormal(const at::Tensor& tensor) {
  const at::Tensor magnitudes = tensor.contiguous().view(torch::kInt).bitwise_and(0x7fffffff);
  return magnitudes.gt(0).logical_and(magnitudes.lt(0x00800000)).sum().item<int64_t>();
}

int64_t CountZeros(const at::Tensor& tensor) {
  return tensor.contiguous().view(torch::kInt).bitwise_and(0x7fffffff).eq(0).sum().item<int64_t>();
}

// --- training ----------------------------------------------------------------

constexpr int kSteps = 20;

// Trains with one batch so small that the first layer's gradients are nearly subnormal, and then with zeros, for which
// they are zero, so that momenta decay.
template <typename Trainer>
void TrainUntilMomentaVanish(const ModelCase& model, Trainer& trainer) {
  const at::Tensor input = model.make_input(at::detail::createCPUGenerator(1)) * 1e-34;
  const at::Tensor label = model.make_label(at::detail::createCPUGenerator(2));
  const auto step = [&](const at::Tensor& batch) {
    if constexpr (std::is_same_v<Trainer, EagerTrainer>) {
      trainer.Step(batch, label);
    } else {
      const absl::StatusOr<double> loss = trainer.Step(batch, label);
      ASSERT_TRUE(loss.ok()) << loss.status();
    }
  };
  step(input);
  for (int i = 1; i < kSteps; ++i) step(torch::zeros_like(input));
}

class FlushDenormalsTest : public ::testing::TestWithParam<bool> {};

TEST_P(FlushDenormalsTest, MomentaVanishAsInEagerMode) {
  const bool flush = GetParam();
  const ModelCase& model = *FindModel("mlp");
  const aot::OptimizerConfig optimizer = {.options = aot::SgdOptions{.lr = 0.01, .momentum = 0.5}};
  std::map<std::string, at::Tensor> expected;
  {
    const EagerFlushes eager(flush);
    EagerTrainer trainer(model, /*seed=*/3, optimizer);
    TrainUntilMomentaVanish(model, trainer);
    expected = trainer.States();
  }
  const at::Tensor input = model.make_input(at::detail::createCPUGenerator(1));
  const at::Tensor label = model.make_label(at::detail::createCPUGenerator(2));
  std::map<std::string, at::Tensor> on_one_thread;
  for (const int threads : {1, 2}) {
    const auto trainer = CompiledTrainer::Create(
        model, input, label, {.seed = 3, .optimizer = optimizer, .threads = threads, .flush_denormals = flush});
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    TrainUntilMomentaVanish(model, **trainer);
    const auto states = *(*trainer)->States();
    if (threads == 1) on_one_thread = states;
    int64_t subnormal = 0;
    for (const auto& [name, state] : states) {
      if (state.scalar_type() != torch::kFloat) continue;
      EXPECT_TRUE(state.view(torch::kInt).equal(on_one_thread[name].view(torch::kInt))) << name;
      EXPECT_EQ(CountSubnormal(state) == 0, CountSubnormal(expected.at(name)) == 0) << name;
      EXPECT_TRUE(torch::allclose(state, expected.at(name), 1e-4, 1e-5)) << name;
      subnormal += CountSubnormal(state);
    }
    EXPECT_EQ(subnormal == 0, flush) << subnormal;
  }
}

INSTANTIATE_TEST_SUITE_P(Modes, FlushDenormalsTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Flushed" : "AsIeee754"; });

// --- kernels -----------------------------------------------------------------

at::Tensor Filled(at::IntArrayRef sizes, double value) { return torch::full(sizes, value, torch::kFloat); }

// A function whose result is subnormal in each element, by one kind of kernel.
struct KernelCase {
  std::string name;
  std::function<at::Tensor(const Tensors&)> function;
  Tensors inputs;
};

// Large enough for two threads.
std::vector<KernelCase> KernelCases() {
  return {
      {"expression",
       [](const Tensors& in) { return in[0] * in[1]; },
       {Filled({512, 1024}, 1e-20), Filled({1024}, 1e-20)}},
      {"operand", [](const Tensors& in) { return in[0] * 1e30; }, {Filled({512, 1024}, 1e-39)}},
      {"sum", [](const Tensors& in) { return in[0].sum({1}); }, {Filled({4096, 64}, 1e-41)}},
      {"softmax",
       [](const Tensors& in) { return torch::softmax(in[0], 1); },
       {torch::cat({Filled({512, 1}, 0), Filled({512, 63}, -90)}, 1)}},
      {"matmul",
       [](const Tensors& in) { return in[0].matmul(in[1]); },
       {Filled({256, 256}, 1e-21), Filled({256, 256}, 1e-20)}},
      {"matmul_with_transposed",
       [](const Tensors& in) { return in[0].t().matmul(in[1]); },
       {Filled({250, 130}, 1e-21), Filled({250, 70}, 1e-20)}},
      {"batch_matmul",
       [](const Tensors& in) { return in[0].bmm(in[1]); },
       {Filled({24, 64, 64}, 1e-21), Filled({24, 64, 64}, 1e-20)}},
      {"convolution",
       [](const Tensors& in) { return torch::conv2d(in[0], in[1]); },
       {Filled({4, 32, 24, 24}, 1e-21), Filled({32, 32, 3, 3}, 1e-20)}},
      {"convolution_with_strides",
       [](const Tensors& in) { return torch::conv2d(in[0], in[1], at::Tensor(), /*stride=*/2); },
       {Filled({4, 24, 32, 32}, 1e-21), Filled({40, 24, 5, 5}, 1e-20)}},
      {"depthwise",
       [](const Tensors& in) {
         return at::conv2d(in[0], in[1], {}, at::IntArrayRef{1}, at::IntArrayRef{0}, at::IntArrayRef{1}, /*groups=*/32);
       },
       {Filled({4, 32, 48, 48}, 1e-21), Filled({32, 1, 3, 3}, 1e-20)}},
      {"average_pool", [](const Tensors& in) { return torch::avg_pool2d(in[0], 2); }, {Filled({8, 32, 32, 32}, 1e-39)}},
      {"cumsum", [](const Tensors& in) { return in[0].cumsum(1).slice(1, 1); }, {Filled({512, 64}, 1e-41)}},
  };
}

// Runs a compiled case.
at::Tensor RunCase(const aot::CompiledModel& model, const KernelCase& test, int threads, bool flush) {
  auto session = Session::Create(*Program::LoadBytes(model.bytes()),
                                 {.kernels = &CpuKernels(), .threads = threads, .flush_denormals = flush});
  EXPECT_TRUE(session.ok()) << session.status();
  std::vector<Tensor> arguments;
  for (const at::Tensor& input : test.inputs) arguments.push_back(*ToCotan(input));
  const auto results = session->Run("forward", arguments);
  EXPECT_TRUE(results.ok()) << results.status();
  return *ToTorch((*results)[0]);
}

TEST(FlushDenormalsKernelTest, EachKindOfKernelFlushesOnAllThreads) {
  for (const KernelCase& test : KernelCases()) {
    SCOPED_TRACE(test.name);
    const auto model =
        aot::CompileFunction([&test](const Tensors& in) -> Tensors { return {test.function(in)}; }, test.inputs, {});
    ASSERT_TRUE(model.ok()) << model.status();
    for (const int threads : {1, 2}) {
      const at::Tensor flushed = RunCase(*model, test, threads, /*flush=*/true);
      EXPECT_EQ(CountSubnormal(flushed), 0) << threads << " threads";
      EXPECT_GE(CountZeros(flushed), flushed.numel() * 9 / 10) << threads << " threads";
      const at::Tensor kept = RunCase(*model, test, threads, /*flush=*/false);
      EXPECT_EQ(CountZeros(kept), 0) << threads << " threads";
    }
    // Neither the mode of this thread nor that of LibTorch's threads has changed.
    EXPECT_EQ(CountZeros(test.function(test.inputs)), 0);
  }
}

TEST(FlushDenormalsKernelTest, SubnormalHalvesStay) {
  const auto model = aot::CompileFunction(
      [](const Tensors& in) -> Tensors {
        return {in[0].to(torch::kFloat), in[0] * 0.5};
      },
      {torch::full({2048}, 1, torch::kHalf)}, {});
  ASSERT_TRUE(model.ok()) << model.status();
  // All numbers of f16 that are subnormal in f16.
  const at::Tensor halves = torch::arange(0, 2048, torch::kShort).sub(1024).abs().to(torch::kShort).view(torch::kHalf);
  auto session = Session::Create(*Program::LoadBytes(model->bytes()),
                                 {.kernels = &CpuKernels(), .threads = 1, .flush_denormals = true});
  ASSERT_TRUE(session.ok()) << session.status();
  const auto results = session->Run("forward", {*ToCotan(halves)});
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_TRUE(ToTorch((*results)[0])->equal(halves.to(torch::kFloat)));
  EXPECT_TRUE(ToTorch((*results)[1])->equal(halves * 0.5));
}

}  // namespace
}  // namespace cotan::testing
