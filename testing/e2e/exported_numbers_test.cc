// SPDX-License-Identifier: Apache-2.0

// Runs exported models whose inputs are numbers, from the archive to the device, beside LibTorch eager. testdata/
// make_numbers.py exports these functions of x f32[8,3] and an int n:
//
//   numbers.pt2       y = x * weight * n; return y + (n * 2 - 1) * 0.25, sum(y) / n, x > n
//   number_sizes.pt2  rows = x[:n] * weight; return rows * n, sum(rows, 0) / n
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <variant>
#include <vector>

#include "aot/compile.h"
#include "aot/frontend/pt2/model.h"
#include "base/status_macros.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "testing/e2e/compiled_trainer.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;
using Tensors = std::vector<torch::Tensor>;

absl::StatusOr<Session> CompileArchive(const std::string& name) {
  COTAN_ASSIGN_OR_RETURN(const aot::pt2::Model model, aot::pt2::Model::Load("aot/frontend/pt2/testdata/" + name));
  COTAN_ASSIGN_OR_RETURN(const Tensors examples, model.ExampleInputs());
  COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel compiled, aot::CompilePt2(model, examples, aot::CompileOptions()));
  COTAN_ASSIGN_OR_RETURN(const auto program, Program::LoadBytes(compiled.bytes()));
  return Session::Create(program, {.kernels = &CpuKernels(), .threads = 1});
}

void ExpectSame(const Variable& actual, const torch::Tensor& expected) {
  const torch::Tensor found = *ToTorch(actual.tensor());
  ASSERT_EQ(found.scalar_type(), expected.scalar_type());
  ASSERT_EQ(found.sizes(), expected.sizes());
  EXPECT_TRUE(torch::allclose(found.to(torch::kDouble), expected.to(torch::kDouble), 1e-5, 1e-5)) << found << expected;
}

// Compares the results of a call, and the gradient of the weight.
void ExpectLikeEager(const Session& session, Function& forward, int64_t n,
                     Tensors (*function)(torch::Tensor, torch::Tensor, int64_t)) {
  const torch::Tensor x = torch::linspace(-4, 4, 24).view({8, 3});
  const torch::Tensor weight = torch::tensor({0.5f, -1.0f, 2.0f}).requires_grad_();
  const auto results = forward.Call({Variable(*ToCotan(x)), n});
  ASSERT_TRUE(results.ok()) << results.status();
  const Tensors expected = function(x, weight, n);
  ASSERT_EQ(results->size(), expected.size());
  std::vector<Variable> roots;
  std::vector<Tensor> tangents;
  Tensors eager_roots, eager_tangents;
  for (size_t i = 0; i < expected.size(); ++i) {
    ExpectSame(std::get<Variable>((*results)[i]), expected[i].detach());
    if (!expected[i].requires_grad()) continue;
    roots.push_back(std::get<Variable>((*results)[i]));
    eager_roots.push_back(expected[i]);
    eager_tangents.push_back(torch::ones_like(expected[i]) * 0.5);
    tangents.push_back(*ToCotan(eager_tangents.back()));
  }
  const Variable parameter = *session.Parameter("weight");
  const auto gradients = autograd::Grad(roots, {parameter}, tangents, session.ops());
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  ExpectSame(Variable((*gradients)[0]), torch::autograd::grad(eager_roots, {weight}, eager_tangents)[0]);
}

TEST(ExportedNumbersTest, OneArtifactRunsWithAnyInteger) {
  const auto session = CompileArchive("numbers.pt2");
  ASSERT_TRUE(session.ok()) << session.status();
  auto forward = Function::Create(*session, "forward");
  ASSERT_TRUE(forward.ok()) << forward.status();
  for (const int64_t n : {int64_t{5}, int64_t{1}, int64_t{-3}, int64_t{1} << 40, -(int64_t{1} << 61)}) {
    SCOPED_TRACE(n);
    ExpectLikeEager(*session, *forward, n, [](torch::Tensor x, torch::Tensor weight, int64_t number) {
      const torch::Tensor y = x * weight * number;
      const double shift = static_cast<double>(number * 2 - 1) * 0.25;
      return Tensors{y + shift, y.sum() / number, x > number};
    });
  }
  EXPECT_EQ(session->num_plans_made(), 2);  // forward and backward
}

TEST(ExportedNumbersTest, AnIntegerThatCutsATensorIsADynamicSize) {
  const auto session = CompileArchive("number_sizes.pt2");
  ASSERT_TRUE(session.ok()) << session.status();
  auto forward = Function::Create(*session, "forward");
  ASSERT_TRUE(forward.ok()) << forward.status();
  for (const int64_t n : {5, 2, 3, 4, 8, 1}) {
    SCOPED_TRACE(n);
    ExpectLikeEager(*session, *forward, n, [](torch::Tensor x, torch::Tensor weight, int64_t number) {
      const torch::Tensor rows = x.narrow(0, 0, number) * weight;
      return Tensors{rows * number, rows.sum(0) / number};
    });
  }
  const absl::Status outside = forward->Call({Variable(*ToCotan(torch::ones({8, 3}))), 9}).status();
  EXPECT_EQ(outside.code(), absl::StatusCode::kOutOfRange) << outside;
  EXPECT_THAT(std::string(outside.message()), HasSubstr("in [1, 8], got 9"));
}

TEST(ExportedNumbersTest, NumbersThatTheExportSpecializedAreNoInputs) {
  const auto model = aot::pt2::Model::Load("aot/frontend/pt2/testdata/numbers.pt2");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->InputSizes().size(), 2u);  // x and n, not the float
  EXPECT_EQ(model->in_spec().ToString(), "((*, *, none), {})");
  const auto examples = model->ExampleInputs();
  ASSERT_TRUE(examples.ok()) << examples.status();
  EXPECT_TRUE(aot::IsNumber((*examples)[1]));
  EXPECT_EQ((*examples)[1].item<int64_t>(), 5);
}

}  // namespace
}  // namespace cotan::testing
