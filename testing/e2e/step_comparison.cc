// SPDX-License-Identifier: Apache-2.0

#include "testing/e2e/step_comparison.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include "testing/e2e/compiled_trainer.h"
#include "testing/e2e/eager_trainer.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

template <typename T>
double ErrorAs(const torch::Tensor& actual, const torch::Tensor& expected) {
  const torch::Tensor a = actual.to(c10::CppTypeToScalarType<T>::value).contiguous();
  const torch::Tensor e = expected.to(c10::CppTypeToScalarType<T>::value).contiguous();
  return ErrorInEps<T>({a.data_ptr<T>(), static_cast<size_t>(a.numel())},
                       {e.data_ptr<T>(), static_cast<size_t>(e.numel())});
}

}  // namespace

void ExpectStepsMatchEager(const ModelCase& model, const aot::OptimizerConfig& optimizer, uint64_t seed,
                           double loss_tolerance) {
  at::Generator generator = at::detail::createCPUGenerator(seed);
  torch::Tensor input = model.make_input(generator), label = model.make_label(generator);
  CompiledTrainerOptions options;
  options.seed = seed;
  options.optimizer = optimizer;
  auto compiled = CompiledTrainer::Create(model, input, label, options);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EagerTrainer eager(model, seed, optimizer);
  for (int step = 0; step < 3; ++step) {
    const auto loss = (*compiled)->Step(input, label);
    ASSERT_TRUE(loss.ok()) << loss.status();
    EXPECT_NEAR(*loss, eager.Step(input, label), loss_tolerance);
    input = model.make_input(generator);
    label = model.make_label(generator);
  }
  const auto states = (*compiled)->States();
  ASSERT_TRUE(states.ok()) << states.status();
  for (const auto& [name, expected] : eager.States()) {
    const torch::Tensor& actual = states->at(name);
    const bool is_double = expected.scalar_type() == torch::kDouble;
    EXPECT_EQ(actual.scalar_type() == torch::kDouble, is_double) << name;
    EXPECT_LE(is_double ? ErrorAs<double>(actual, expected) : ErrorAs<float>(actual, expected), kModelDrift) << name;
  }
}

}  // namespace cotan::testing
