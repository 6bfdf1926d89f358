// SPDX-License-Identifier: Apache-2.0

// Calls of functions whose sizes depend on data: writes to arguments, random numbers, values that wait for a backward
// while other calls run, and what is refused.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "aot/compile.h"
#include "base/test_seed.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "testing/e2e/compiled_trainer.h"
#include "testing/e2e/philox_dropout.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Tensors = std::vector<at::Tensor>;

aot::CompileOptions WithMaximum(int64_t max) {
  aot::CompileOptions options;
  options.tracing.data_dependent_sizes.range = aot::SizeRange{.min = 0, .max = max};
  return options;
}

std::shared_ptr<const Program> Load(const absl::StatusOr<aot::CompiledModel>& model) {
  EXPECT_TRUE(model.ok()) << model.status();
  return *Program::LoadBytes(model->bytes());
}

Session Open(const std::shared_ptr<const Program>& program) {
  return *Session::Create(program, {.kernels = &CpuKernels(), .threads = 1});
}

void ExpectNear(const at::Tensor& actual, const at::Tensor& expected) {
  ASSERT_EQ(actual.sizes(), expected.sizes());
  const at::Tensor a = actual.contiguous(), e = expected.detach().contiguous();
  if (e.numel() == 0) return;
  EXPECT_LE(ErrorInEps<double>({a.const_data_ptr<double>(), static_cast<size_t>(a.numel())},
                               {e.const_data_ptr<double>(), static_cast<size_t>(e.numel())}, /*floor=*/1e-2),
            kModelGradient);
}

// The argument is written before it is counted, so that the sizing method computes the new content, and the method that
// goes on writes it.
TEST(DataSizeCallsTest, ArgumentsAreWrittenOnceAndNotAtAllIfACountIsRefused) {
  const auto function = [](at::Tensor x) {
    x.mul_(2);
    return x.index({x > 3});
  };
  const auto program = Load(aot::CompileFunction(function, {at::tensor({1.0, 2.0, 3.0, 4.0})}, WithMaximum(3)));
  Session session = Open(program);
  Function compiled = *Function::Create(session, "forward");
  for (const std::vector<double>& values : {std::vector<double>{1, 2, 3, 0}, {0, 0, 1, 1}, {2, 0.5, 2, 9}}) {
    at::Tensor expected = at::tensor(values);
    const at::Tensor found = function(expected);
    const Tensor argument = *Tensor::From<double>(values, {4});
    const auto results = compiled.Call({Variable(argument)});
    ASSERT_TRUE(results.ok()) << results.status();
    ExpectNear(*ToTorch(std::get<Variable>((*results)[0]).tensor()), found);
    ExpectNear(*ToTorch(argument), expected);
  }
  const Tensor many = *Tensor::From<double>({2, 3, 4, 5}, {4});
  const absl::Status status = compiled.Call({Variable(many)}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_THAT(status.message(), HasSubstr("has 4 elements, and 0 to 3"));
  EXPECT_THAT(*many.ToVector<double>(), ElementsAre(2, 3, 4, 5));
}

// What the sizing method computes and the backward needs is not overwritten by later calls.
TEST(DataSizeCallsTest, BackwardsMayRunAfterOtherCalls) {
  torch::manual_seed(TestSeed());
  const auto function = [](const at::Tensor& x) {
    const at::Tensor y = x.exp();  // needed by the count and by the backward
    return y.index({y.sum(1) > 3}).pow(2);
  };
  const at::Tensor example = torch::randn({6, 3}, torch::kDouble).requires_grad_(true);
  const auto program = Load(aot::CompileFunction(function, {example}, WithMaximum(6)));
  Session session = Open(program);
  Function compiled = *Function::Create(session, "forward");
  Tensors inputs, tangents;
  std::vector<Variable> leaves, results;
  for (int call = 0; call < 4; ++call) {
    inputs.push_back(torch::randn({6, 3}, torch::kDouble).requires_grad_(true));
    leaves.push_back(*Variable::Leaf(*ToCotan(inputs.back().detach())));
    const auto called = compiled.Call({leaves.back()});
    ASSERT_TRUE(called.ok()) << called.status();
    results.push_back(std::get<Variable>((*called)[0]));
  }
  for (size_t call : {2, 0, 3, 1}) {
    SCOPED_TRACE(call);
    const at::Tensor expected = function(inputs[call]);
    const at::Tensor tangent = torch::randn_like(expected);
    expected.backward(tangent);
    ExpectNear(*ToTorch(results[call].tensor()), expected);
    const absl::Status ran = autograd::Backward({results[call]}, {*ToCotan(tangent)}, session.ops());
    ASSERT_TRUE(ran.ok()) << ran;
    ExpectNear(*ToTorch(leaves[call].grad().tensor()), inputs[call].grad());
  }
}

// Dropout decides which rows are taken, and applies to these rows.
struct Dropped : torch::nn::Module {
  Dropped()
      : first(register_module("first", torch::nn::Linear(5, 8))),
        second(register_module("second", torch::nn::Linear(8, 3))),
        before(register_module("before", torch::nn::Dropout(0.5))),
        after(register_module("after", torch::nn::Dropout(0.25))) {
    to(torch::kDouble);
  }

  Tensors forward(const at::Tensor& x) {
    const at::Tensor hidden = before(torch::tanh(first(x)));
    const at::Tensor taken = hidden.index({hidden.select(1, 0) > 0});
    return {second(after(taken)), taken};
  }

  torch::nn::Linear first, second;
  torch::nn::Dropout before, after;
};

TEST(DataSizeCallsTest, RandomNumbersBeforeAndAfterACountAreThoseOfOneProgram) {
  constexpr double kLearningRate = 0.1;
  torch::manual_seed(TestSeed());
  PhiloxDropout dropout;
  const auto eager = std::make_shared<Dropped>();
  aot::CompileOptions options = WithMaximum(24);
  options.loss.function = [](const Tensors& outputs, const Tensors&) {
    return outputs[0].pow(2).sum() + outputs[1].sum();
  };
  options.optimizer = aot::OptimizerConfig{aot::SgdOptions{.lr = kLearningRate}};
  options.dynamic_dims = {{.argument = 0, .dim = 0, .symbol = "batch", .min = 2, .max = 24}};
  const auto program = Load(
      aot::CompileModule([] { return std::make_shared<Dropped>(); }, {torch::randn({8, 5}, torch::kDouble)}, options));
  Session session = Open(program);
  ASSERT_TRUE(session.SetRng({.seed = 3, .offset = 0}).ok());
  for (const auto& parameter : eager->named_parameters()) {
    ASSERT_TRUE(session.SetState(parameter.key(), *ToCotan(parameter.value().detach())).ok());
  }
  torch::optim::SGD optimizer(eager->parameters(), torch::optim::SGDOptions(kLearningRate));
  dropout.Seek(3, 0);
  for (const int64_t batch : {8, 3, 24, 8, 2}) {
    SCOPED_TRACE(batch);
    const at::Tensor x = torch::randn({batch, 5}, torch::kDouble);
    optimizer.zero_grad();
    const Tensors expected = eager->forward(x);
    const at::Tensor loss = options.loss.function(expected, {});
    loss.backward();
    optimizer.step();
    const auto results = session.Run("train_step", {*ToCotan(x)});
    ASSERT_TRUE(results.ok()) << results.status();
    ExpectNear(*ToTorch((*results)[0]), expected[0]);
    ExpectNear(*ToTorch(results->back()), loss);
    for (const auto& parameter : eager->named_parameters()) {
      ExpectNear(*ToTorch(*session.State(parameter.key())), parameter.value());
    }
    EXPECT_EQ(session.Rng()->offset, static_cast<int64_t>(dropout.offset()));
  }
}

TEST(DataSizeCallsTest, ACountThatNeedsTheNumberOfCountedRowsIsRefused) {
  const auto by_number = [](const at::Tensor& x) {
    const at::Tensor found = x.index({x > 0});
    const at::Tensor share = x.abs() / static_cast<double>(found.size(0) + 1);
    return x.index({share > 0.5});
  };
  const at::Tensor example = at::tensor({1.0, -2.0, 3.0, 4.0, -1.0, 0.5});
  const absl::Status status = aot::CompileFunction(by_number, {example}, WithMaximum(6)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(status.message(), HasSubstr("it needs the number of elements 'index'"));
  const auto by_random_place = [](const at::Tensor& x) {
    const at::Tensor found = at::dropout(x.index({x > 0}), 0.5, true);
    const at::Tensor drawn = at::dropout(x, 0.5, true);
    return found.sum() + drawn.index({drawn > 0}).sum();
  };
  EXPECT_FALSE(aot::CompileFunction(by_random_place, {example}, WithMaximum(6)).ok());
}

}  // namespace
}  // namespace cotan::testing
