// SPDX-License-Identifier: Apache-2.0

// How a compiled artifact is called: the stages of a call, when the backward is planned, what arguments must be, and
// the refusals of a backward. The rows R1, R9, R12, R14 and R16 of docs/spec_rows.md.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "aot/compile.h"
#include "kernels/api/kernel.h"
#include "kernels/api/registry.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/autograd/grad_mode.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

Compiled Compile(const aot::TensorFunction& function, const Tensors& examples) {
  auto compiled = Compiled::Function(function, examples, /*order=*/1);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

Tensors Square(const Tensors& in) { return {in[0] * in[0]}; }

TEST(CompiledCallTest, StagesAreThoseThatTheFunctionNeeds) {
  Compiled square = Compile(Square, {Leaf(0, {2})});
  EXPECT_THAT(
      square.function().ToString(),
      AllOf(HasSubstr("call of 'forward'\n  check       1 arguments"), HasSubstr("record      backward 'backward'"),
            HasSubstr("wrap "), HasSubstr("save "), HasSubstr("results     output 0 new"), Not(HasSubstr("write back")),
            Not(HasSubstr("dedupe")), Not(HasSubstr("bases"))));

  // Nothing requires grad.
  Compiled plain = Compile(Square, {Constant(0, {2})});
  EXPECT_THAT(plain.function().ToString(),
              AllOf(HasSubstr("forward "), Not(HasSubstr("record")), Not(HasSubstr("save "))));

  // One tensor in two places, which is written; a view of it is returned.
  const at::Tensor both = Constant(0, {4});
  Compiled writes = Compile(
      [](const Tensors& in) -> Tensors {
        at::Tensor a = in[0];
        a.add_(1);
        return {in[1].slice(0, 0, 2), in[2] * in[1]};
      },
      {both, both, Leaf(1, {4})});
  EXPECT_THAT(writes.function().ToString(),
              AllOf(HasSubstr("  dedupe"), HasSubstr("  write back"), HasSubstr("  record")));

  // Two views of one storage, one of which is written.
  const at::Tensor storage = Constant(0, {4});
  Compiled bases = Compile(
      [](const Tensors& in) -> Tensors {
        at::Tensor a = in[0];
        a.add_(1);
        return {in[1] * 2};
      },
      {storage.slice(0, 0, 3), storage.slice(0, 1, 4)});
  EXPECT_THAT(bases.function().ToString(), HasSubstr("  bases"));
}

TEST(CompiledCallTest, StagesComeInTheOrderOfTheirDescription) {
  Compiled f = Compile(
      [](const Tensors& in) -> Tensors {
        at::Tensor a = in[0];
        a.mul_(2);
        return {a.view({2, 2}), in[1] * a};
      },
      {Constant(0, {4}), Leaf(1, {4})});
  const std::string text = f.function().ToString();
  size_t last = 0;
  for (const char* stage :
       {"\n  check", "\n  forward", "\n  record", "\n  wrap", "\n  write back", "\n  save", "\n  results"}) {
    const size_t at = text.find(stage);
    ASSERT_NE(at, std::string::npos) << stage << " in\n" << text;
    EXPECT_GE(at, last) << stage << " in\n" << text;
    last = at;
  }
}

TEST(CompiledCallTest, ForwardsAloneNeverPlanABackward) {
  Compiled f = Compile([](const Tensors& in) -> Tensors { return {in[0].exp()}; }, {Leaf(0, {2})});
  const Variable x = ToVariable(Leaf(0, {2}));
  Variable y;
  for (int i = 0; i < 3; ++i) y = f({x})[0];
  EXPECT_EQ(f.session().num_plans_made(), 1);
  const Tensor one = ToCotan(torch::ones({2}));
  ASSERT_TRUE(autograd::Backward({y}, {one}, f.ops()).ok());
  EXPECT_EQ(f.session().num_plans_made(), 2);
  ASSERT_TRUE(autograd::Backward({f({x})[0]}, {one}, f.ops()).ok());
  EXPECT_EQ(f.session().num_plans_made(), 2) << "the second backward uses the plan of the first";
  ExpectNear(ToTorch(x.grad().tensor()), 2 * Constant(0, {2}).exp());
}

TEST(CompiledCallTest, WithoutGradModeNothingIsSaved) {
  Compiled f = Compile([](const Tensors& in) -> Tensors { return {in[0].exp()}; }, {Leaf(0, {2})});
  const GradModeGuard no_grad(false);
  const Variable y = f({ToVariable(Leaf(0, {2}))})[0];
  EXPECT_FALSE(y.requires_grad());
  EXPECT_TRUE(y.is_leaf());
  EXPECT_EQ(f.session().num_plans_made(), 1);
}

TEST(CompiledCallTest, ArgumentsMustBeAsTraced) {
  Compiled f = Compile([](const Tensors& in) -> Tensors { return {in[0] * in[1]}; }, {Leaf(0, {2}), Constant(1, {2})});
  const Variable x = ToVariable(Leaf(0, {2})), c = ToVariable(Constant(1, {2}));
  const auto refusal = [&](const Variables& arguments) {
    const absl::Status status = f.function().Call(arguments).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(refusal({c, c}), HasSubstr("argument 'input.0' required grad when the program was traced"));
  EXPECT_THAT(refusal({x, x}), HasSubstr("'input.1'"));
  EXPECT_THAT(refusal({x}), HasSubstr("takes 2 arguments (input.0, input.1), got 1"));
  EXPECT_THAT(refusal({x, Variable()}), HasSubstr("is undefined"));
  EXPECT_EQ(f.session().num_plans_made(), 0) << "nothing has run";
  EXPECT_THAT(refusal({x, ToVariable(Constant(1, {3}))}), HasSubstr("expected f64[2], got f64[3]"));
  EXPECT_THAT(refusal({x, Variable(*f.ops().Ones(DType::kFloat32, {2}))}), HasSubstr("expected f64[2], got f32[2]"));
  ExpectNear(ToTorch(f({x, c})[0].tensor()), Constant(0, {2}) * Constant(1, {2}));
}

TEST(CompiledCallTest, ArgumentsThatWereOneTensorMustBeOne) {
  const at::Tensor both = Constant(0, {3});
  Compiled f = Compile(
      [](const Tensors& in) -> Tensors {
        at::Tensor a = in[0];
        a.add_(1);
        return {in[0] * in[1]};
      },
      {both, both});
  const Variable x = ToVariable(Constant(0, {3}));
  const absl::Status refused = f.function().Call({x, ToVariable(Constant(0, {3}))}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_THAT(refused.message(), HasSubstr("argument 'input.1' was the same tensor as 'input.0' when the program"));
  ExpectNear(ToTorch(x.tensor()), Constant(0, {3}));
  ExpectNear(ToTorch(f({x, x})[0].tensor()), (Constant(0, {3}) + 1).pow(2));
  ExpectNear(ToTorch(x.tensor()), Constant(0, {3}) + 1);
}

TEST(CompiledCallTest, VerifiedCallsGiveTheSame) {
  Compiled f = Compile(
      [](const Tensors& in) -> Tensors {
        at::Tensor a = in[0];
        a.add_(1);
        return {a.slice(0, 1, 3), in[1] * a};
      },
      {Constant(0, {4}), Leaf(1, {4})});
  auto verified = Function::Create(f.session(), "forward", {.verify_calls = true});
  ASSERT_TRUE(verified.ok()) << verified.status();
  EXPECT_THAT(verified->ToString(), AllOf(HasSubstr("verify in"), HasSubstr("verify out")));
  EXPECT_THAT(f.function().ToString(), Not(HasSubstr("verify")));
  const auto results = verified->Call({ToVariable(Constant(0, {4})), ToVariable(Leaf(1, {4}))});
  ASSERT_TRUE(results.ok()) << results.status();
  ExpectNear(ToTorch(std::get<Variable>((*results)[1]).tensor()), Constant(1, {4}) * (Constant(0, {4}) + 1));
}

// The kernel of an expression of f64, which also increases the first element of its first input.
class WritesItsInput final : public Kernel {
 public:
  explicit WritesItsInput(std::unique_ptr<Kernel> kernel) : kernel_(std::move(kernel)) {
    scratch_bytes_ = kernel_->scratch_bytes();
  }

  absl::Status Run(const KernelArgs& args) override {
    if (absl::Status status = kernel_->Run(args); !status.ok()) return status;
    *static_cast<double*>(args.inputs[0]) += 1;
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
};

absl::StatusOr<std::unique_ptr<Kernel>> MakeFaultyExpr(const KernelRequest& request) {
  const auto factory = CpuKernels().Find(DeviceType::kCpu, serialization::Op::kExpr, DType::kFloat64);
  if (!factory.ok()) return factory.status();
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = (*factory)(request);
  if (!kernel.ok()) return kernel.status();
  return std::make_unique<WritesItsInput>(*std::move(kernel));
}

TEST(CompiledCallTest, AVerifiedCallNamesTheArgumentThatAFaultyKernelWrites) {
  const auto function = [](const Tensors& in) -> Tensors { return {in[0] * 2 + in[0].exp()}; };
  const auto model = aot::CompileFunction(function, {Constant(0, {4})}, {});
  ASSERT_TRUE(model.ok()) << model.status();
  KernelRegistry faulty;
  ASSERT_TRUE(faulty.Register(DeviceType::kCpu, serialization::Op::kExpr, DType::kFloat64, &MakeFaultyExpr).ok());
  for (const KernelRegistry* kernels : {&CpuKernels(), static_cast<const KernelRegistry*>(&faulty)}) {
    const Session session = *Session::Create(*Program::LoadBytes(model->bytes()), {.kernels = kernels, .threads = 1});
    for (const bool verified : {false, true}) {
      Function f = *Function::Create(session, "forward", {.verify_calls = verified});
      const auto results = f.Call({ToVariable(Constant(0, {4}))});
      if (verified && kernels == &faulty) {
        EXPECT_EQ(results.status().code(), absl::StatusCode::kInternal);
        EXPECT_THAT(
            results.status().message(),
            AllOf(HasSubstr("function 'forward': argument '"),
                  HasSubstr("' is not mutated, but its elements have changed: a kernel or the planner is wrong")));
        continue;
      }
      ASSERT_TRUE(results.ok()) << results.status();
      ExpectNear(ToTorch(std::get<Variable>((*results)[0]).tensor()), function({Constant(0, {4})})[0]);
    }
  }
}

TEST(CompiledCallTest, ASecondBackwardNeedsTheGraphRetained) {
  Compiled f = Compile([](const Tensors& in) -> Tensors { return {in[0].exp()}; }, {Leaf(0, {2})});
  const Variable x = ToVariable(Leaf(0, {2}));
  const Variable y = f({x})[0];
  const Tensor one = ToCotan(torch::ones({2}));
  ASSERT_TRUE(autograd::Backward({y}, {one}, f.ops(), {.retain_graph = true}).ok());
  ASSERT_TRUE(autograd::Backward({y}, {one}, f.ops()).ok());
  const absl::Status second = autograd::Backward({y}, {one}, f.ops());
  EXPECT_EQ(second.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(second.message(), AllOf(HasSubstr("second time"), HasSubstr("retain_graph")));
  ExpectNear(ToTorch(x.grad().tensor()), 2 * Constant(0, {2}).exp());
}

}  // namespace
}  // namespace cotan::testing
