// SPDX-License-Identifier: Apache-2.0

// Compares gradients with LibTorch for functions of which some results do not contribute to the loss.
// Where a derivative is infinite, a zero tangent instead of an undefined one would give NaN.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "aot/compile.h"
#include "base/status_macros.h"
#include "gtest/gtest.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/autograd/engine.h"
#include "runtime/execution/program.h"
#include "runtime/function.h"
#include "runtime/session.h"
#include "testing/ops/compiled_function.h"
#include "testing/ops/tensor_bridge.h"

namespace cotan::testing {
namespace {

using Tensors = std::vector<at::Tensor>;

constexpr float kInf = std::numeric_limits<float>::infinity();

struct Case {
  std::string name;
  aot::TensorFunction function;
  Tensors inputs;
  bool writes_inputs = false;  // writes the first input, which is then not a leaf
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

// Adds both gradients; the second one is multiplied by infinity at 0.
struct DoubleAndRoot : torch::autograd::Function<DoubleAndRoot> {
  static torch::autograd::variable_list forward(torch::autograd::AutogradContext* context, at::Tensor x) {
    context->save_for_backward({x});
    return {x * 2, x.sqrt()};
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list g) {
    const at::Tensor x = context->get_saved_variables()[0];
    return {g[0] * 2 + g[1] * 0.5 / x.sqrt()};
  }
};

// Returns the gradients of the leaves, undefined ones included, if the roots are the results for which
// `given` has a tangent.
Tensors EagerGradients(const Case& c, const Tensors& given) {
  const Tensors leaves = Leaves(c.inputs, true);
  Tensors arguments = leaves;
  if (c.writes_inputs) arguments[0] = leaves[0] * 1;
  const Tensors results = c.function(arguments);
  Tensors roots, tangents;
  for (size_t i = 0; i < given.size(); ++i) {
    if (!given[i].defined()) continue;
    roots.push_back(results[i]);
    tangents.push_back(given[i]);
  }
  return torch::autograd::grad(roots, leaves, tangents, false, false, /*allow_unused=*/true);
}

// A compiled function with its own session.
class Compiled {
 public:
  absl::Status Load(const aot::TensorFunction& function, const Tensors& examples) {
    COTAN_ASSIGN_OR_RETURN(const aot::CompiledModel model,
                           aot::CompileFunction(function, examples, {.debug = {.store_references = false}}));
    COTAN_ASSIGN_OR_RETURN(const std::shared_ptr<const Program> program, Program::LoadBytes(model.bytes()));
    COTAN_ASSIGN_OR_RETURN(session_, Session::Create(program, {.kernels = &CpuKernels(), .threads = 1}));
    COTAN_ASSIGN_OR_RETURN(forward_, Function::Create(*session_, "forward"));
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<Variable>> Call(const std::vector<Variable>& arguments) {
    COTAN_ASSIGN_OR_RETURN(const std::vector<FunctionResult> results, forward_->Call(arguments));
    std::vector<Variable> variables;
    for (const FunctionResult& result : results) variables.push_back(std::get<Variable>(result));
    return variables;
  }

  TensorOps& ops() { return session_->ops(); }

 private:
  std::optional<Session> session_;
  std::optional<Function> forward_;
};

class CompiledCase {
 public:
  explicit CompiledCase(const Case& c) : case_(c) {}

  absl::Status Load() {
    Tensors examples = Leaves(case_.inputs, true);
    if (case_.writes_inputs) {
      COTAN_RETURN_IF_ERROR(copy_.Load([](const Tensors& in) { return Tensors{in[0] * 1}; }, {examples[0]}));
      examples[0] = examples[0] * 1;
    }
    return function_.Load(case_.function, examples);
  }

  absl::StatusOr<Tensors> Gradients(const Tensors& given) {
    const Tensors leaves = Leaves(case_.inputs, true);
    std::vector<Variable> sources;
    for (const at::Tensor& leaf : leaves) {
      COTAN_ASSIGN_OR_RETURN(Tensor borrowed, BorrowTensor(leaf.detach()));
      COTAN_ASSIGN_OR_RETURN(sources.emplace_back(), Variable::Leaf(std::move(borrowed)));
    }
    std::vector<Variable> arguments = sources;
    if (case_.writes_inputs) {
      COTAN_ASSIGN_OR_RETURN(const std::vector<Variable> copy, copy_.Call({sources[0]}));
      arguments[0] = copy[0];
    }
    COTAN_ASSIGN_OR_RETURN(const std::vector<Variable> results, function_.Call(arguments));
    std::vector<Variable> roots;
    std::vector<Tensor> tangents;
    for (size_t i = 0; i < given.size(); ++i) {
      if (!given[i].defined()) continue;
      roots.push_back(results[i]);
      COTAN_ASSIGN_OR_RETURN(tangents.emplace_back(), BorrowTensor(given[i]));
    }
    COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> gradients,
                           autograd::Grad(roots, sources, tangents, function_.ops(), {.allow_unused = true}));
    Tensors found;
    for (const Tensor& gradient : gradients) found.push_back(gradient.defined() ? ToAten(gradient) : at::Tensor());
    return found;
  }

 private:
  const Case& case_;
  Compiled copy_;  // of the input that is written
  Compiled function_;
};

std::string Described(const at::Tensor& tensor) {
  return tensor.defined() ? c10::str(tensor) : std::string("undefined");
}

class UndefinedTangentsTest : public ::testing::TestWithParam<Case> {};

TEST_P(UndefinedTangentsTest, GradientsAreThoseOfEagerModeForAllSetsOfRoots) {
  const Case& c = GetParam();
  CompiledCase compiled(c);
  const absl::Status loaded = compiled.Load();
  ASSERT_TRUE(loaded.ok()) << loaded;
  const Tensors examples = c.function(Leaves(c.inputs, false));
  bool any_finite = false;
  for (size_t mask = 1; mask < size_t{1} << examples.size(); ++mask) {
    Tensors given;
    for (size_t i = 0; i < examples.size(); ++i) {
      const bool is_root = ((mask >> i) & 1) != 0;
      given.push_back(is_root ? at::full_like(examples[i], 1.5 + static_cast<double>(i)).contiguous() : at::Tensor());
    }
    const Tensors expected = EagerGradients(c, given);
    const absl::StatusOr<Tensors> actual = compiled.Gradients(given);
    ASSERT_TRUE(actual.ok()) << actual.status();
    for (size_t i = 0; i < expected.size(); ++i) {
      ASSERT_EQ((*actual)[i].defined(), expected[i].defined()) << "roots " << mask << ", input " << i;
      if (!expected[i].defined()) continue;
      EXPECT_TRUE(at::allclose((*actual)[i], expected[i], 1e-5, 1e-6, /*equal_nan=*/true))
          << "roots " << mask << ", input " << i << ": " << Described((*actual)[i]) << ", eager "
          << Described(expected[i]);
      any_finite = any_finite || expected[i].isfinite().all().item<bool>();
    }
  }
  EXPECT_TRUE(any_finite) << "the case compares what is NaN or infinite alone";
}

Case Unary(const std::string& name, std::function<at::Tensor(const at::Tensor&)> singular, float at = 0) {
  return {name, [singular](const Tensors& in) { return Tensors{in[0] * 2, singular(in[0])}; }, {at::full({2}, at)}};
}

std::vector<Case> Cases() {
  const at::Tensor zeros = at::zeros({2});
  return {
      Unary("sqrt", [](const at::Tensor& x) { return x.sqrt(); }),
      Unary("log", [](const at::Tensor& x) { return x.log(); }),
      Unary("pow", [](const at::Tensor& x) { return x.pow(0.5); }),
      Unary("rsqrt", [](const at::Tensor& x) { return x.rsqrt(); }),
      Unary("reciprocal", [](const at::Tensor& x) { return x.reciprocal(); }),
      Unary(
          "acos", [](const at::Tensor& x) { return x.acos(); }, 1),
      Unary("norm", [](const at::Tensor& x) { return (x * x).sum().sqrt(); }),
      Unary("softmax", [](const at::Tensor& x) { return (x - kInf).softmax(0); }),
      Unary("sum", [](const at::Tensor& x) { return x.sqrt().sum(); }),
      {"div",
       [](const Tensors& in) {
         return Tensors{in[0] / in[1], in[0] * in[1], in[0] + in[1]};
       },
       {zeros, zeros}},
      {"atan2",
       [](const Tensors& in) {
         return Tensors{at::atan2(in[0], in[1]), in[0] * 3, in[1] * in[0]};
       },
       {zeros, zeros}},
      {"where",
       [](const Tensors& in) {
         return Tensors{at::where(in[0] > 0, in[0].sqrt(), in[0] * 2), in[0] * 3, in[0].exp()};
       },
       {zeros}},
      {"shared_intermediate",
       [](const Tensors& in) {
         const at::Tensor h = in[0] * in[1];
         return Tensors{h.sqrt(), h.log(), h * 2, h + in[0]};
       },
       {zeros, at::ones({2})}},
      {"chain",
       [](const Tensors& in) {
         const at::Tensor a = in[0] * 2;
         const at::Tensor b = a.sqrt();
         const at::Tensor c = b.sqrt() + a;
         return Tensors{a, b, c};
       },
       {zeros}},
      {"matmul",
       [](const Tensors& in) {
         const at::Tensor h = in[0].mm(in[1]);
         return Tensors{h.relu(), h.sqrt(), (in[0] * in[0]).sum()};
       },
       {at::zeros({2, 3}), at::ones({3, 2})}},
      {"apart",
       [](const Tensors& in) {
         return Tensors{in[0].sqrt(), in[1] * 2};
       },
       {zeros, zeros}},
      {"broadcast",
       [](const Tensors& in) {
         return Tensors{(in[0] + in[1]).sqrt(), in[0] * 2, in[1].exp()};
       },
       {at::zeros({2, 3}), at::zeros({3})}},
      {"unbind",
       [](const Tensors& in) {
         const Tensors parts = in[0].unbind(0);
         return Tensors{parts[0] * 2, parts[1].sqrt(), in[0].sum()};
       },
       {at::zeros({2, 2})}},
      {"split",
       [](const Tensors& in) {
         const Tensors parts = (in[0] * 2).split(2);
         return Tensors{parts[0].exp(), parts[1].sqrt(), in[0] * 3};
       },
       {at::zeros({5})}},
      {"chunk",
       [](const Tensors& in) {
         const Tensors parts = in[0].chunk(2);
         return Tensors{parts[0] * parts[1], parts[1].sqrt()};
       },
       {at::zeros({4})}},
      {"var_mean",
       [](const Tensors& in) {
         const auto [variance, mean] = at::var_mean(in[0]);
         return Tensors{variance.sqrt(), mean};
       },
       {at::ones({4})}},
      {"aminmax",
       [](const Tensors& in) {
         const auto [least, largest] = at::aminmax(in[0]);
         return Tensors{least.sqrt(), largest * 2};
       },
       {at::arange(3).to(at::kFloat)}},
      {"max_with_indices",
       [](const Tensors& in) {
         const at::Tensor best = std::get<0>(in[0].max(1));
         const at::Tensor sorted = std::get<0>(in[0].sort(1));
         return Tensors{best.log(), sorted * 2};
       },
       {at::zeros({2, 3})}},
      {"batch_norm",
       [](const Tensors& in) {
         const at::Tensor y = at::batch_norm(in[0], in[1], in[2], {}, {}, true, 0.1, 1e-5, false);
         return Tensors{y, in[0] * 2, in[1] * 3};
       },
       {at::ones({3, 2}), at::ones({2}), at::zeros({2})}},
      {"complex",
       [](const Tensors& in) {
         const at::Tensor z = at::complex(in[0], in[0]);
         return Tensors{z.abs().sqrt(), at::real(z * 2), at::imag(z)};
       },
       {zeros}},
      {"bf16",
       [](const Tensors& in) {
         const at::Tensor h = in[0].to(at::kBFloat16);
         return Tensors{h * 2, h.sqrt(), in[0] * 3};
       },
       {zeros}},
      {"mutated_input",
       [](const Tensors& in) {
         at::Tensor x = in[0];
         const at::Tensor root = (x * 3).sqrt();
         x.mul_(2);
         return Tensors{root, x.log(), x * 5};
       },
       {zeros},
       true},
      {"mutated_and_returned",
       [](const Tensors& in) {
         at::Tensor x = in[0];
         const at::Tensor root = (x * 3).sqrt();
         x.mul_(2);
         return Tensors{x, root};
       },
       {zeros},
       true},
      {"write_to_a_part",
       [](const Tensors& in) {
         at::Tensor x = in[0] * 1;
         x[0].copy_(in[1].sqrt());
         return Tensors{x.sqrt(), x * 2, in[1] * 3};
       },
       {zeros, at::zeros({})}},
      {"views_of_an_intermediate",
       [](const Tensors& in) {
         const at::Tensor h = in[0] * 2;
         return Tensors{h.view({4}), h.t(), h.sqrt()};
       },
       {at::zeros({2, 2})}},
      {"zeros_of_what_was_computed",
       [](const Tensors& in) {
         return Tensors{in[0].sqrt(), (in[0] * 2).zero_()};
       },
       {zeros}},
      {"custom_function",
       [](const Tensors& in) {
         const auto parts = DoubleAndRoot::apply(in[0]);
         return Tensors{parts[0], parts[1], in[0] * 3};
       },
       {zeros}},
  };
}

INSTANTIATE_TEST_SUITE_P(Functions, UndefinedTangentsTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// A method called without autograd gets all tangents as defined.
TEST(TangentFlagsOfSessionTest, MarkAllTangentsAsDefined) {
  const Case c = Unary(
      "sqrt", [](const at::Tensor& x) { return x.sqrt(); }, 4);
  const absl::StatusOr<CompiledFunction> compiled = CompiledFunction::Create(c.function, c.inputs, true);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  absl::StatusOr<Session> session = Session::Create(*compiled->program(), {.kernels = &CpuKernels(), .threads = 1});
  ASSERT_TRUE(session.ok()) << session.status();
  const Tensor x = *BorrowTensor(c.inputs[0]);
  const at::Tensor ones = at::ones({2});
  const Tensor one = *BorrowTensor(ones);
  ASSERT_TRUE(session->Run("forward", {x}).ok());
  const auto both = session->Run("backward", {one, one});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_TRUE(ToAten((*both)[0]).equal(at::full({2}, 2.25)));
  ASSERT_TRUE(session->Run("forward", {x}).ok());
  const auto first = session->Run("backward", {one, one, *Tensor::Scalar(true), *Tensor::Scalar(false)});
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_TRUE(ToAten((*first)[0]).equal(at::full({2}, 2.0)));
}

}  // namespace
}  // namespace cotan::testing
