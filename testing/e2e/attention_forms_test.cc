// SPDX-License-Identifier: Apache-2.0

// Attention compiled into one op (TracingOptions::attention), beside LibTorch eager.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "aot/capture/autocast.h"
#include "aot/compile.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "testing/e2e/compiled_trainer.h"
#include "testing/tolerance.h"

namespace cotan::testing {
namespace {

using aot::AttentionForm;
using Tensors = std::vector<torch::Tensor>;

struct Case {
  std::string name;
  std::function<Tensors(const Tensors&)> function;
  std::function<Tensors(int64_t batch, int64_t length)> inputs;
};

Tensors Leaves(std::vector<torch::Tensor> tensors) {
  for (torch::Tensor& tensor : tensors) tensor.requires_grad_();
  return tensors;
}

// q, k and v as parts of one projection, and the result of all heads in one row.
Tensors SelfAttention(const Tensors& in, int64_t heads, bool is_causal) {
  const int64_t batch = in[0].size(0), length = in[0].size(1), width = in[0].size(2);
  const Tensors parts = torch::matmul(in[0], in[1]).view({batch, length, 3, heads, width / heads}).unbind(2);
  const torch::Tensor attended = at::scaled_dot_product_attention(parts[0].transpose(1, 2), parts[1].transpose(1, 2),
                                                                  parts[2].transpose(1, 2), {}, 0.0, is_causal);
  return {attended.transpose(1, 2).reshape({batch, length, width})};
}

std::vector<Case> Cases() {
  const auto qkv = [](int64_t batch, int64_t length) {
    return Leaves({torch::randn({batch, 2, length, 8}), torch::randn({batch, 2, length + 3, 8}),
                   torch::randn({batch, 2, length + 3, 8})});
  };
  const auto projected = [](int64_t batch, int64_t length) {
    return Leaves({torch::randn({batch, length, 16}), torch::randn({16, 48}) / 4});
  };
  return {
      {"plain", [](const Tensors& x) -> Tensors { return {at::scaled_dot_product_attention(x[0], x[1], x[2])}; }, qkv},
      {"causal_scaled",
       [](const Tensors& x) -> Tensors {
         return {at::scaled_dot_product_attention(x[0], x[1], x[2], {}, 0.0, true, 0.7)};
       },
       qkv},
      {"masked",
       [](const Tensors& x) -> Tensors {
         const torch::Tensor keep = torch::ones({x[0].size(2), x[1].size(2)}, torch::kBool).tril(2);
         return {at::scaled_dot_product_attention(x[0], x[1], x[2], keep)};
       },
       qkv},
      {"self_attention", [](const Tensors& x) { return SelfAttention(x, 2, false); }, projected},
      {"causal_self_attention", [](const Tensors& x) { return SelfAttention(x, 2, true); }, projected},
      {"shared_heads",
       [](const Tensors& x) -> Tensors {
         return {at::scaled_dot_product_attention(x[0], x[1], x[1], {}, 0.0, false, {}, true)};
       },
       [](int64_t batch, int64_t length) {
         return Leaves({torch::randn({batch, 4, length, 8}), torch::randn({batch, 2, length + 1, 8})});
       }},
  };
}

// Returns the number of attentions of all methods, backwards included.
int AttentionsOf(const Program& program) {
  int count = 0;
  for (const serialization::Method& method : program.artifact().methods()) {
    count += static_cast<int>(std::count_if(method.ops().begin(), method.ops().end(), [](const serialization::Op& op) {
      return op.has_attention() || op.has_attention_backward();
    }));
  }
  return count;
}

double Error(const torch::Tensor& actual, const torch::Tensor& expected) {
  const torch::Tensor a = actual.detach().to(torch::kFloat).contiguous();
  const torch::Tensor e = expected.detach().to(torch::kFloat).contiguous();
  return ErrorInEps<float>({a.data_ptr<float>(), static_cast<size_t>(a.numel())},
                           {e.data_ptr<float>(), static_cast<size_t>(e.numel())});
}

// A compiled function on the CPU.
class Compiled {
 public:
  Compiled(const Case& c, const Tensors& examples, const aot::CompileOptions& options) {
    const auto model = aot::CompileFunction(c.function, examples, options);
    EXPECT_TRUE(model.ok()) << c.name << ": " << model.status();
    program_ = *Program::LoadBytes(model->bytes());
    session_ = std::make_unique<Session>(*Session::Create(program_, {.kernels = &CpuKernels(), .threads = 1}));
    function_ = std::make_unique<Function>(*Function::Create(*session_, "forward"));
  }

  const Program& program() const { return *program_; }

  // Expects the result of one call and the gradients of eager, within `tolerance` eps of f32.
  void ExpectEager(const Case& c, const Tensors& inputs, double tolerance, DType autocast = DType::kUndefined) {
    std::vector<Variable> arguments;
    for (const torch::Tensor& input : inputs) arguments.push_back(*Variable::Leaf(*ToCotan(input)));
    const auto results = function_->Call(arguments);
    ASSERT_TRUE(results.ok()) << results.status();
    torch::Tensor expected;
    {
      const aot::AutocastScope scope(autocast);
      expected = c.function(inputs)[0];
    }
    const Variable& result = std::get<Variable>((*results)[0]);
    EXPECT_LE(Error(*ToTorch(result.tensor()), expected), tolerance);
    const torch::Tensor tangent = torch::randn(expected.sizes()).to(expected.scalar_type());
    const auto gradients = autograd::Grad({result}, arguments, {*ToCotan(tangent)}, session_->ops());
    ASSERT_TRUE(gradients.ok()) << gradients.status();
    const Tensors expected_gradients = torch::autograd::grad({expected}, inputs, {tangent});
    for (size_t i = 0; i < inputs.size(); ++i) {
      EXPECT_LE(Error(*ToTorch((*gradients)[i]), expected_gradients[i]), tolerance) << "gradient " << i;
    }
  }

 private:
  std::shared_ptr<const Program> program_;
  std::unique_ptr<Session> session_;
  std::unique_ptr<Function> function_;
};

TEST(AttentionFormsTest, FusedMatchesEager) {
  torch::manual_seed(3);
  aot::CompileOptions options;
  options.tracing.attention = AttentionForm::kFused;
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    const Tensors inputs = c.inputs(2, 9);
    Compiled compiled(c, inputs, options);
    EXPECT_EQ(AttentionsOf(compiled.program()), 2);
    compiled.ExpectEager(c, inputs, kMatmul);
  }
}

TEST(AttentionFormsTest, FusedUnderAutocastMatchesEager) {
  torch::manual_seed(4);
  aot::CompileOptions options;
  options.tracing.attention = AttentionForm::kFused;
  options.tracing.autocast = DType::kBFloat16;
  for (const Case& c : Cases()) {
    SCOPED_TRACE(c.name);
    const Tensors inputs = c.inputs(2, 9);
    Compiled compiled(c, inputs, options);
    EXPECT_EQ(AttentionsOf(compiled.program()), 2);
    compiled.ExpectEager(c, inputs, kAutocastGradient / Epsilon(DType::kFloat32), DType::kBFloat16);
  }
}

// One artifact has one form, whatever lengths are traced.
TEST(AttentionFormsTest, AutoFusesForCudaAlsoIfSizesAreDynamic) {
  torch::manual_seed(5);
  const Case c = {"self attention", [](const Tensors& x) { return SelfAttention(x, 2, true); },
                  [](int64_t batch, int64_t length) {
                    return Leaves({torch::randn({batch, length, 16}), torch::randn({16, 48}) / 4});
                  }};
  aot::CompileOptions options;
  options.target = aot::CompileTarget::kCuda;
  options.dynamic_dims = {{0, 0, "batch", 1, 8}, {0, 1, "length", 2, 200}};
  Compiled compiled(c, c.inputs(3, 8), options);
  EXPECT_EQ(AttentionsOf(compiled.program()), 2);
  for (const auto& [batch, length] : {std::pair(1, 2), std::pair(4, 33), std::pair(2, 150)}) {
    SCOPED_TRACE(length);
    compiled.ExpectEager(c, c.inputs(batch, length), kMatmul);
  }
}

TEST(AttentionFormsTest, AutoDependsOnTargetLengthAndOrder) {
  const Case c = Cases()[1];  // causal
  const auto attentions = [&](aot::CompileTarget target, int64_t length, int order) {
    aot::CompileOptions options;
    options.target = target;
    options.order = order;
    return AttentionsOf(Compiled(c, c.inputs(1, length), options).program());
  };
  EXPECT_EQ(attentions(aot::CompileTarget::kCuda, 128, 1), 2);
  EXPECT_EQ(attentions(aot::CompileTarget::kCuda, 16, 1), 0);
  EXPECT_EQ(attentions(aot::CompileTarget::kCpu, 16, 1), 0);
  EXPECT_EQ(attentions(aot::CompileTarget::kCpu, 32, 1), 2);
  EXPECT_EQ(attentions(aot::CompileTarget::kCuda, 128, 2), 0);
}

}  // namespace
}  // namespace cotan::testing
