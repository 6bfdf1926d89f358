// SPDX-License-Identifier: Apache-2.0

// Functions whose backward has an op that the compiler does not support.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "aot/compile.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

// 2 x, with a gradient by an unsupported op.
struct DoubleWithGeqrf : torch::autograd::Function<DoubleWithGeqrf> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x * 2; }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {std::get<0>(at::geqrf(gradients[0]))};
  }
};

absl::StatusOr<aot::CompiledModel> Compile(const aot::TensorFunction& function) {
  return aot::CompileFunction(function, {torch::rand({2, 2}).requires_grad_(true)}, {});
}

TEST(ForwardOnlyTest, ABackwardThatCannotBeLoweredLeavesTheForward) {
  const auto model = Compile([](const Tensors& in) -> Tensors { return {DoubleWithGeqrf::apply(in[0])}; });
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->methods().size(), 1);
  EXPECT_THAT(model->methods()[0].backward_refusal, HasSubstr("geqrf"));

  Session session = *Session::Create(*Program::LoadBytes(model->bytes()), {.kernels = &CpuKernels(), .threads = 1});
  Function forward = *Function::Create(session, "forward");
  EXPECT_THAT(forward.ToString(), HasSubstr("no backward: "));
  const Variable x = *Variable::Leaf(*Tensor::From<float>({1, 2, 3, 4}, {2, 2}));
  const auto results = forward.Call({x});
  ASSERT_TRUE(results.ok()) << results.status();
  const auto& y = std::get<Variable>((*results)[0]);
  EXPECT_THAT(*y.tensor().ToVector<float>(), ElementsAre(2, 4, 6, 8));
  EXPECT_TRUE(y.requires_grad());
  const Tensor ones = *Tensor::From<float>({1, 1, 1, 1}, {2, 2});
  const absl::Status refused = autograd::Backward({y}, {ones}, session.ops());
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(refused.message(), HasSubstr("function 'forward' was compiled without a backward: "));
  EXPECT_THAT(refused.message(), HasSubstr("geqrf"));
  {
    const CompiledAutograd scope;
    EXPECT_EQ(autograd::Backward({y}, {ones}, session.ops()), refused);
  }
  EXPECT_FALSE(x.grad().defined());

  const GradModeGuard no_grad(false);
  const auto inference = forward.Call({x});
  ASSERT_TRUE(inference.ok()) << inference.status();
  EXPECT_FALSE(std::get<Variable>((*inference)[0]).requires_grad());
}

TEST(ForwardOnlyTest, AForwardThatCannotBeLoweredIsRefusedWithAllOps) {
  const auto model = Compile([](const Tensors& in) -> Tensors {
    return {DoubleWithGeqrf::apply(at::real(std::get<1>(at::linalg_eig(in[0]))))};
  });
  EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented) << model.status();
  EXPECT_THAT(model.status().message(), HasSubstr("linalg_eig"));
}

TEST(ForwardOnlyTest, ATrainingStepNeedsItsBackward) {
  struct Net : torch::nn::Module {
    Net() { w = register_parameter("w", torch::ones({2, 2})); }
    at::Tensor forward(const at::Tensor& x) { return DoubleWithGeqrf::apply(x * w).sum(); }
    at::Tensor w;
  };
  aot::CompileOptions options;
  options.loss.output = 0;
  options.optimizer = aot::OptimizerConfig{aot::SgdOptions{.lr = 0.1}};
  const auto model = aot::CompileModule([] { return std::make_shared<Net>(); }, {torch::rand({2, 2})}, options);
  EXPECT_EQ(model.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(model.status().message(), HasSubstr("geqrf"));
}

}  // namespace
}  // namespace cotan
