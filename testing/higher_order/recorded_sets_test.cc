// SPDX-License-Identifier: Apache-2.0

// Recorded backwards from some of the results of a function, for all sets of them, beside LibTorch eager. Where a
// derivative is infinite, a zero tangent instead of an undefined one would give NaN.
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/torch.h>

#include <functional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "runtime/autograd/double_backward.h"
#include "runtime/autograd/engine.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

struct Case {
  std::string name;
  aot::TensorFunction function;
  Tensors inputs;
};

std::ostream& operator<<(std::ostream& out, const Case& c) { return out << c.name; }

// A set of values, by bit.
using Mask = size_t;
constexpr Mask kAll = ~Mask{0};

// Gradients of the results, gradients of these, and so on. At each order the roots are a set of the values of the
// order before; inputs and, after the first order, its tangents are what the gradients are of.
struct Orders {
  std::vector<std::vector<size_t>> roots;  // by order: the values that are roots
  std::vector<Tensors> gradients;          // by order; undefined where there is none
};

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

at::Tensor TangentOf(size_t order, size_t root, const at::Tensor& like) {
  return Constant(static_cast<int>(300 + 20 * order + root), like.sizes());
}

// Returns the orders by eager, with the roots that exist and require grad among `masks`.
Orders EagerSets(const Case& c, const std::vector<Mask>& masks) {
  Orders orders;
  Tensors sources = Copies(c.inputs);
  Tensors values = c.function(sources);
  for (size_t k = 0; k < masks.size(); ++k) {
    std::vector<size_t> chosen;
    Tensors roots, tangents;
    for (size_t i = 0; i < values.size(); ++i) {
      if (((masks[k] >> i) & 1) == 0 || !values[i].defined() || !values[i].requires_grad()) continue;
      chosen.push_back(i);
      roots.push_back(values[i]);
      tangents.push_back(TangentOf(k, i, values[i]).set_requires_grad(k == 0));
    }
    if (roots.empty()) break;
    values = torch::autograd::grad(roots, sources, tangents, true, true, true);
    if (k == 0) sources.insert(sources.end(), tangents.begin(), tangents.end());
    orders.roots.push_back(std::move(chosen));
    orders.gradients.push_back(values);
  }
  return orders;
}

// Returns the gradients of each order by the compiled function, from the same roots: the last order by Grad(), the
// others recorded.
absl::StatusOr<std::vector<Tensors>> CompiledSets(Compiled& compiled, const Case& c, const Orders& eager,
                                                  size_t num_orders) {
  std::vector<Tensors> found;
  Variables sources = ToVariables(c.inputs);
  Variables values = compiled(sources);
  for (size_t k = 0; k < eager.roots.size(); ++k) {
    Variables roots, tangents;
    std::vector<Tensor> constants;
    for (const size_t i : eager.roots[k]) {
      if (!values[i].defined()) return absl::InternalError(absl::StrCat("order ", k, " has no value ", i));
      const at::Tensor tangent = TangentOf(k, i, ToTorch(values[i].tensor()));
      roots.push_back(values[i]);
      constants.push_back(ToCotan(tangent));
      tangents.push_back(ToVariable(tangent.set_requires_grad(k == 0)));
    }
    Tensors& gradients = found.emplace_back();
    if (k + 1 < num_orders) {
      COTAN_ASSIGN_OR_RETURN(values, autograd::GradWithGraph(roots, sources, tangents, compiled.ops(), true));
      for (const Variable& value : values) {
        gradients.push_back(value.defined() ? ToTorch(value.tensor()) : at::Tensor());
      }
    } else {
      COTAN_ASSIGN_OR_RETURN(const std::vector<Tensor> last,
                             autograd::Grad(roots, sources, constants, compiled.ops(), {.allow_unused = true}));
      for (const Tensor& value : last) gradients.push_back(value.defined() ? ToTorch(value) : at::Tensor());
    }
    if (k == 0) sources.insert(sources.end(), tangents.begin(), tangents.end());
  }
  return found;
}

// Expects the elements of eager, NaN and infinities included. Undefined counts as zeros.
void ExpectSame(const at::Tensor& actual, const at::Tensor& expected) {
  if (!actual.defined() && !expected.defined()) return;
  const at::Tensor zeros = torch::zeros_like(actual.defined() ? actual : expected);
  const at::Tensor found = actual.defined() ? actual : zeros;
  const at::Tensor wanted = expected.defined() ? expected.detach() : zeros;
  EXPECT_TRUE(at::allclose(found, wanted, 1e-10, 1e-12, /*equal_nan=*/true)) << found << "\ninstead of\n" << wanted;
}

void ExpectEagerSets(Compiled& compiled, const Case& c, const std::vector<Mask>& masks) {
  const Orders expected = EagerSets(c, masks);
  const absl::StatusOr<std::vector<Tensors>> actual = CompiledSets(compiled, c, expected, masks.size());
  ASSERT_TRUE(actual.ok()) << actual.status();
  for (size_t k = 0; k < expected.gradients.size(); ++k) {
    ASSERT_EQ((*actual)[k].size(), expected.gradients[k].size());
    for (size_t i = 0; i < expected.gradients[k].size(); ++i) {
      SCOPED_TRACE(::testing::Message() << "order " << k + 1 << ", gradient " << i << ", sets " << masks[0] << " "
                                        << masks[1]);
      ExpectSame((*actual)[k][i], expected.gradients[k][i]);
    }
  }
}

class RecordedSetsTest : public ::testing::TestWithParam<Case> {};

TEST_P(RecordedSetsTest, SecondDerivativesAreThoseOfEager) {
  const Case& c = GetParam();
  absl::StatusOr<Compiled> compiled = Compiled::Function(c.function, c.inputs, /*order=*/2);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const size_t num_results = c.function(Copies(c.inputs)).size();
  for (Mask first = 1; first < Mask{1} << num_results; ++first) {
    for (Mask second = 1; second < Mask{1} << c.inputs.size(); ++second) {
      ExpectEagerSets(*compiled, c, {first, second});
    }
  }
}

TEST_P(RecordedSetsTest, ThirdDerivativesAreThoseOfEager) {
  const Case& c = GetParam();
  absl::StatusOr<Compiled> compiled = Compiled::Function(c.function, c.inputs, /*order=*/3);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const size_t num_results = c.function(Copies(c.inputs)).size();
  for (Mask first = 1; first < Mask{1} << num_results; ++first) {
    for (const Mask third : {Mask{1}, kAll}) ExpectEagerSets(*compiled, c, {first, kAll, third});
  }
}

at::Tensor Zeros(at::IntArrayRef sizes) { return torch::zeros(sizes, torch::kDouble).set_requires_grad(true); }
at::Tensor OnesLeaf(at::IntArrayRef sizes) { return torch::ones(sizes, torch::kDouble).set_requires_grad(true); }

// x -> singular(x), x^3.
Case Unary(const std::string& name, const std::function<at::Tensor(const at::Tensor&)>& singular) {
  return {name,
          [singular](const Tensors& in) -> Tensors {
            return {singular(in[0]), in[0] * in[0] * in[0]};
          },
          {Zeros({2})}};
}

std::vector<Case> Cases() {
  return {
      Unary("sqrt", [](const at::Tensor& x) { return x.sqrt(); }),
      Unary("log", [](const at::Tensor& x) { return x.log(); }),
      Unary("pow", [](const at::Tensor& x) { return x.pow(0.5); }),
      Unary("rsqrt", [](const at::Tensor& x) { return x.rsqrt(); }),
      Unary("reciprocal", [](const at::Tensor& x) { return x.reciprocal(); }),
      Unary("norm", [](const at::Tensor& x) { return (x * x).sum().sqrt(); }),
      {"div",
       [](const Tensors& in) -> Tensors {
         return {in[0] / in[1], in[0] * in[1], (in[0] + in[1]).exp()};
       },
       {Zeros({2}), Zeros({2})}},
      {"product_of_a_root",
       [](const Tensors& in) -> Tensors {
         return {in[0].sqrt() * in[1], in[0] * in[0]};
       },
       {Zeros({2}), OnesLeaf({2})}},
      {"shared_intermediate",
       [](const Tensors& in) -> Tensors {
         const at::Tensor h = in[0] * in[1];
         return {h.sqrt(), h.exp(), h * h + in[0]};
       },
       {Zeros({2}), OnesLeaf({2})}},
      {"chain",
       [](const Tensors& in) -> Tensors {
         const at::Tensor a = in[0] * in[0];
         const at::Tensor b = (a + in[0]).sqrt();
         return {a, b, b.sqrt() + a};
       },
       {Zeros({2})}},
      {"matmul",
       [](const Tensors& in) -> Tensors {
         const at::Tensor h = in[0].mm(in[1]);
         return {h.exp(), h.sqrt(), (in[0] * in[0]).sum()};
       },
       {Zeros({2, 3}), OnesLeaf({3, 2})}},
      {"broadcast",
       [](const Tensors& in) -> Tensors {
         return {(in[0] + in[1]).sqrt(), in[0] * in[0], in[1].exp()};
       },
       {Zeros({2, 3}), Zeros({3})}},
      {"apart",
       [](const Tensors& in) -> Tensors {
         return {in[0].sqrt(), in[1].exp()};
       },
       {Zeros({2}), Zeros({2})}},
      {"unbind",
       [](const Tensors& in) -> Tensors {
         const Tensors parts = in[0].unbind(0);
         return {parts[0] * parts[0], parts[1].sqrt(), in[0].exp().sum()};
       },
       {Zeros({2, 2})}},
      {"var_mean",
       [](const Tensors& in) -> Tensors {
         const auto [variance, mean] = at::var_mean(in[0]);
         return {variance.sqrt(), mean * mean};
       },
       {OnesLeaf({4})}},
      {"linear_results",
       [](const Tensors& in) -> Tensors {
         return {in[0].sqrt(), in[0] * 2, in[0] + in[1]};
       },
       {Zeros({2}), OnesLeaf({2})}},
      {"custom_function",
       [](const Tensors& in) -> Tensors {
         const Tensors parts = DoubleAndRoot::apply(in[0]);
         return {parts[0] * parts[0], parts[1], in[0].exp()};
       },
       {Zeros({2})}},
      {"finite",
       [](const Tensors& in) -> Tensors {
         const at::Tensor h = in[0].sin() * in[1];
         return {h.exp(), h * in[0], in[1].tanh()};
       },
       {Leaf(1, {3}), Leaf(2, {3})}},
  };
}

INSTANTIATE_TEST_SUITE_P(Functions, RecordedSetsTest, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

// The result that is not in the loss has an infinite derivative.
TEST(RecordedSetTest, AnInfiniteDerivativeOutsideOfTheLossIsSkipped) {
  absl::StatusOr<Compiled> f = Compiled::Function(
      [](const Tensors& in) -> Tensors {
        return {in[0].sqrt(), in[0] * in[0]};
      },
      {Zeros({1})}, /*order=*/2);
  ASSERT_TRUE(f.ok()) << f.status();
  const Variable x = ToVariable(Zeros({1}));
  const auto first = autograd::GradWithGraph({(*f)({x})[1]}, {x}, {}, f->ops());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(ToTorch((*first)[0].tensor()).item<double>(), 0);
  const auto second = autograd::Grad({(*first)[0]}, {x}, {}, f->ops());
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(ToTorch((*second)[0]).item<double>(), 2);
}

}  // namespace
}  // namespace cotan::testing
