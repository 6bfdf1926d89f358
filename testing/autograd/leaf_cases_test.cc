// SPDX-License-Identifier: Apache-2.0

// Leaves of compiled functions: the layout and dtype of their gradients beside LibTorch eager, and which hooks only
// they have. Rows C3 of cases.txt.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <complex>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "runtime/autograd/engine.h"
#include "runtime/autograd/function_node.h"
#include "runtime/autograd/node.h"
#include "testing/autograd/walked_and_captured.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::HasSubstr;

Compiled Compile(const aot::TensorFunction& function, const Tensors& examples) {
  auto compiled = Compiled::Function(function, examples, /*order=*/1);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

// Returns a leaf with the elements and the strides of `tensor`.
Variable StridedLeaf(const at::Tensor& tensor) {
  const at::Tensor flat = tensor.detach().as_strided({static_cast<int64_t>(tensor.storage().nbytes() / sizeof(double))},
                                                     {1}, /*storage_offset=*/0);
  const StridedLayout layout = {.sizes = DimVector(tensor.sizes().begin(), tensor.sizes().end()),
                                .strides = DimVector(tensor.strides().begin(), tensor.strides().end()),
                                .offset = tensor.storage_offset()};
  return *Variable::Leaf(*Tensor::InStorage(ToCotan(flat).storage(), DType::kFloat64, layout));
}

Tensors Total(const Tensors& in) { return {in[0].sum()}; }
Tensors TotalOfProduct(const Tensors& in) { return {(in[0] * in[1]).sum()}; }

// Gives its tangent to an f32 argument as it is, in f64.
struct EagerToDouble : torch::autograd::Function<EagerToDouble> {
  static at::Tensor forward(torch::autograd::AutogradContext*, const at::Tensor& x) { return x.to(torch::kDouble); }
  static Tensors backward(torch::autograd::AutogradContext*, const Tensors& tangents) { return {tangents[0]}; }
};

// AG-010: kUndefined keeps the dtype of the gradient.
TEST(LeafCasesTest, ALeafMayHaveAnotherDTypeOfItsGradient) {
  const auto square = [](const Tensors& in) -> Tensors { return {in[0] * in[0]}; };
  Compiled f = Compile(square, {Leaf(0, {2}) * 1});
  const struct {
    DType dtype;
    std::optional<at::ScalarType> eager;
    at::ScalarType gradient;
  } cases[] = {{DType::kFloat32, torch::kFloat, torch::kFloat},
               {DType::kUndefined, std::nullopt, torch::kDouble},
               {DType::kFloat16, torch::kHalf, torch::kHalf}};
  for (const auto& c : cases) {
    at::Tensor eager = torch::tensor({0.5F, 3.0F}).requires_grad_();
    eager.set_grad_dtype(c.eager);
    square({EagerToDouble::apply(eager)})[0].backward(torch::ones({2}, torch::kDouble));
    EXPECT_EQ(eager.grad().scalar_type(), c.gradient);

    const auto pass = [](autograd::BackwardContext&, absl::Span<Tensor> g) -> absl::StatusOr<autograd::Gradients> {
      return autograd::Gradients{g[0]};
    };
    WalkedAndCaptured([&] {
      Variable x = *Variable::Leaf(*Tensor::From<float>({0.5F, 3}, {2}));
      ASSERT_TRUE(x.SetGradDType(c.dtype).ok());
      EXPECT_EQ(x.grad_dtype(), c.dtype);
      const auto in_double =
          autograd::ApplyFunction("ToDouble", {x}, {ToCotan(torch::tensor({0.5, 3.0}, torch::kDouble))}, pass);
      ASSERT_TRUE(in_double.ok()) << in_double.status();
      const absl::Status ran = autograd::Backward(f(*in_double), {ToCotan(torch::ones({2}))}, f.ops());
      ASSERT_TRUE(ran.ok()) << ran;
      EXPECT_EQ(x.grad().dtype(), c.dtype == DType::kUndefined ? DType::kFloat64 : c.dtype);
      const absl::StatusOr<Tensor> gradient = f.ops().Cast(x.grad().tensor(), DType::kFloat64);
      ASSERT_TRUE(gradient.ok()) << gradient.status();
      ExpectNear(ToTorch(*gradient), eager.grad().to(torch::kDouble));
    });
  }
}

// AG-010.
TEST(LeafCasesTest, TheDTypeOfAGradientIsSetOnALeafThatHasNoneOfAnother) {
  Compiled f = Compile([](const Tensors& in) -> Tensors { return {in[0] * 2}; }, {Leaf(0, {2})});
  Variable x = ToVariable(Leaf(0, {2})), y = f({x})[0];
  ASSERT_TRUE(autograd::Backward({y}, {ToCotan(torch::ones({2}))}, f.ops()).ok());
  const absl::Status late = x.SetGradDType(DType::kFloat16), computed = y.SetGradDType(DType::kFloat16);
  EXPECT_EQ(late.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(late.message(), HasSubstr("cannot be set to f16 while grad() is f64[2]"));
  EXPECT_EQ(computed.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(computed.message(), HasSubstr("can only be set on leaf tensors"));
  EXPECT_EQ(x.SetGradDType(DType::kComplex64).code(), absl::StatusCode::kInvalidArgument);
  for (const DType dtype : {DType::kFloat8E4m3fn, DType::kFloat8E5m2}) {
    const absl::Status stored_only = x.SetGradDType(dtype);
    EXPECT_EQ(stored_only.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(stored_only.message(), HasSubstr("8-bit floats cannot be added"));
  }

  at::Tensor eager = Leaf(0, {2}), eager_y = eager * 2;
  eager_y.backward(torch::ones({2}, torch::kDouble));
  // The check of a grad() that exists is in the setter of Python.
  EXPECT_ANY_THROW(eager_y.set_grad_dtype(torch::kHalf));
  x.ClearGrad();
  EXPECT_TRUE(x.SetGradDType(DType::kFloat32).ok());
  EXPECT_FALSE(x.SetGrad(Variable(ToCotan(torch::ones({2})))).ok());
  EXPECT_TRUE(x.SetGrad(Variable(*Tensor::From<float>({1, 2}, {2}))).ok());
}

// AG-011.
TEST(LeafCasesTest, TheGradientOfADenseLeafHasItsStridesThatOfAnotherOneIsRowMajor) {
  const at::Tensor channels_last = Constant(0, {2, 3, 4, 5}).contiguous(at::MemoryFormat::ChannelsLast);
  const at::Tensor gaps = Constant(1, {2, 4}).slice(1, 0, 4, 2);
  ASSERT_EQ(gaps.strides(), (std::vector<int64_t>{4, 2}));
  for (const at::Tensor& values : {channels_last, gaps}) {
    for (const auto& function : {Total, TotalOfProduct}) {
      const at::Tensor leaf = values.detach().requires_grad_(), other = Constant(2, values.sizes());
      function({leaf, other})[0].backward();
      Compiled f = Compile(function, {values.detach().requires_grad_(), other});
      WalkedAndCaptured([&] {
        const Variable x = StridedLeaf(values);
        const absl::Status ran = autograd::Backward(f({x, ToVariable(other)}), {}, f.ops());
        ASSERT_TRUE(ran.ok()) << ran;
        const Tensor& gradient = x.grad().tensor();
        ExpectNear(ToTorch(gradient), leaf.grad());
        const DimVector& strides = gradient.layout().strides;
        EXPECT_EQ(std::vector<int64_t>(strides.begin(), strides.end()), leaf.grad().strides());
      });
    }
  }
}

// AG-014.
TEST(LeafCasesTest, PostAccumulateHooksOfResultsAndOfViewsAreRefused) {
  Compiled f = Compile([](const Tensors& in) -> Tensors { return {in[0] * 2}; }, {Leaf(0, {4})});
  WalkedAndCaptured([&] {
    Variable x = ToVariable(Leaf(0, {4}));
    Variable view = *x.View({view::View{.sizes = {2, 2}}}), result = f({x})[0];
    int calls = 0;
    const auto hook = [&calls](Variable&) {
      ++calls;
      return absl::OkStatus();
    };
    for (Variable* computed : {&view, &result}) {
      const absl::Status refused = computed->AddPostAccumulateHook(hook).status();
      EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(refused.message(), HasSubstr("can only be registered on a leaf"));
    }
    ASSERT_TRUE(x.AddPostAccumulateHook(hook).ok());
    ASSERT_TRUE(autograd::Backward({result}, {ToCotan(torch::ones({4}))}, f.ops()).ok());
    EXPECT_EQ(calls, 1);
  });
}

// As LibTorch, which refuses to add to an expanded tensor in place.
TEST(LeafCasesTest, NothingIsAddedToAGradWhoseElementsShareMemory) {
  const at::Tensor eager = Leaf(0, {3});
  eager.mutable_grad() = torch::ones({1}, torch::kDouble).expand({3});
  EXPECT_ANY_THROW(Total({eager})[0].backward());

  Compiled f = Compile(Total, {Leaf(0, {3})});
  WalkedAndCaptured([&] {
    Variable x = ToVariable(Leaf(0, {3}));
    const Tensor one = ToCotan(torch::ones({1}, torch::kDouble));
    const StridedLayout expanded = {.sizes = {3}, .strides = {0}};
    ASSERT_TRUE(x.SetGrad(Variable(*Tensor::InStorage(one.storage(), DType::kFloat64, expanded))).ok());
    const absl::Status refused = autograd::Backward(f({x}), {}, f.ops());
    EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
    ExpectNear(ToTorch(one), torch::ones({1}, torch::kDouble));
  });
}

// CA-029 and CA-030: of a dense leaf, and of every other element of a matrix.
TEST(LeafCasesTest, TheGradientOfALeafIsNotTheTensorThatAHookKeeps) {
  const auto seven = [](const Tensors& in) -> Tensors { return {in[0] * 7}; };
  const at::Tensor ones = torch::ones({2, 2}, torch::kDouble);
  const at::Tensor gaps = Constant(1, {4, 4}).slice(0, 0, 4, 2).slice(1, 0, 4, 2);
  for (const at::Tensor& values : {Constant(0, {2, 2}), gaps}) {
    const at::Tensor leaf = values.detach().requires_grad_();
    at::Tensor kept_by_eager;
    leaf.register_hook([&kept_by_eager](const at::Tensor& gradient) { kept_by_eager = gradient; });
    seven({leaf})[0].backward(ones);
    EXPECT_NE(leaf.grad().data_ptr(), kept_by_eager.data_ptr());
    EXPECT_EQ(leaf.grad().strides(), (std::vector<int64_t>{2, 1}));
    kept_by_eager.fill_(0);
    ExpectNear(leaf.grad(), 7 * ones);

    Compiled f = Compile(seven, {values.detach().requires_grad_()});
    WalkedAndCaptured([&] {
      Variable x = StridedLeaf(values);
      Tensor kept;
      const auto keep = [&kept](const Tensor& gradient) -> absl::StatusOr<Tensor> {
        kept = gradient;
        return Tensor();
      };
      ASSERT_TRUE(x.AddHook(keep).ok());
      const absl::Status ran = autograd::Backward(f({x}), {ToCotan(ones)}, f.ops());
      ASSERT_TRUE(ran.ok()) << ran;
      const Tensor& gradient = x.grad().tensor();
      EXPECT_NE(gradient.storage(), kept.storage());
      const DimVector& strides = gradient.layout().strides;
      EXPECT_EQ(std::vector<int64_t>(strides.begin(), strides.end()), leaf.grad().strides());
      ASSERT_TRUE(f.ops().Fill(0, kept).ok());
      ExpectNear(ToTorch(gradient), leaf.grad());
    });
  }
}

// CA-031: a backward that is recorded replaces grad() by a variable with history.
TEST(LeafCasesTest, ALaterGradientIsAddedInPlaceOrReplacesTheFirstOne) {
  const auto function = [](const Tensors& in) -> Tensors { return {1.5 * in[0] * in[0]}; };
  const at::Tensor ones = torch::ones({3}, torch::kDouble);
  absl::StatusOr<Compiled> f = Compiled::Function(function, {Leaf(0, {3})}, /*order=*/2);
  ASSERT_TRUE(f.ok()) << f.status();
  for (const bool create_graph : {false, true}) {
    const at::Tensor x = ones.clone().set_requires_grad(true), first = ones.clone();
    x.mutable_grad() = first;
    function({x})[0].backward(ones, /*keep_graph=*/create_graph, create_graph);
    ExpectNear(x.grad().detach(), 4 * ones);
    EXPECT_EQ(x.grad().is_same(first), !create_graph);
    EXPECT_EQ(x.grad().requires_grad(), create_graph);

    const auto run = [&] {
      Variable ours = ToVariable(ones.clone().set_requires_grad(true));
      const Variable grad = ToVariable(ones);
      ASSERT_TRUE(ours.SetGrad(grad).ok());
      const absl::Status ran =
          autograd::Backward((*f)({ours}), {ToCotan(ones)}, f->ops(), {.create_graph = create_graph});
      ASSERT_TRUE(ran.ok()) << ran;
      ExpectNear(ToTorch(ours.grad().tensor()), x.grad().detach());
      ExpectNear(ToTorch(grad.tensor()), first.detach());
      EXPECT_EQ(ours.grad().is_same(grad), !create_graph);
      EXPECT_EQ(ours.grad().requires_grad(), create_graph);
      ours.ClearGrad();  // a cycle of the leaf and the graph of its gradient
    };
    if (create_graph) {
      run();
    } else {
      WalkedAndCaptured(run);
    }
    x.mutable_grad().reset();
  }
}

// CA-032: tensors of the runtime are strided, so that no other gradient arrives there.
TEST(LeafCasesTest, ASparseGradientIsRefusedWhenItsFunctionIsCompiled) {
  const auto look_up = [](const Tensors& in) -> Tensors {
    return {at::embedding(in[0], in[1], /*padding_idx=*/-1, /*scale_grad_by_freq=*/false, /*sparse=*/true).sum()};
  };
  const at::Tensor table = Leaf(0, {5, 3}), rows = torch::tensor({0, 2, 2});
  look_up({table, rows})[0].backward();
  EXPECT_TRUE(table.grad().is_sparse());
  const absl::Status refused = Compiled::Function(look_up, {Leaf(0, {5, 3}), rows}, /*order=*/1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnimplemented) << refused;
  EXPECT_THAT(std::string(refused.message()), HasSubstr("not a dense tensor"));
}

// AG-103.
TEST(LeafCasesTest, AnEdgeKeepsTheGraphOfAResultThatIsDropped) {
  const auto square = [](const Tensors& in) -> Tensors { return {in[0] * in[0]}; };
  const auto thrice = [](const Tensors& in) -> Tensors { return {in[0] * 3}; };
  const Tensor ones = ToCotan(torch::ones({3}, torch::kDouble));
  Compiled f = Compile(square, {Leaf(0, {3})}), g = Compile(thrice, {Leaf(0, {3})});
  const Variable a = ToVariable(Leaf(0, {3}));
  Variables y = f({a});
  const autograd::Edge edge = *y[0].GradientEdge();
  const Variables z = g(y);
  y.clear();
  edge.node->MutableHooks().AddPreHook([](absl::Span<Tensor> incoming) {
    incoming[0] = ToCotan(2 * ToTorch(incoming[0]));
    return absl::OkStatus();
  });
  for (const int backwards : {1, 2}) {  // nothing was freed with y
    ASSERT_TRUE(autograd::Backward(z, {ones}, g.ops(), {.retain_graph = true}).ok());
    ExpectNear(ToTorch(a.grad().tensor()), backwards * 12 * Constant(0, {3}));
  }
}

// AG-103: as LibTorch, gradients of another real dtype are cast; others are refused.
TEST(LeafCasesTest, GradientsOfRootsAreCheckedOrCast) {
  const auto square = [](const Tensors& in) -> Tensors { return {in[0] * in[0]}; };
  Compiled f = Compile(square, {Leaf(0, {3})});
  const at::Tensor eager = Leaf(0, {3});
  EXPECT_ANY_THROW(square({eager})[0].backward());
  EXPECT_ANY_THROW(square({eager})[0].backward(torch::ones({2}, torch::kDouble)));
  EXPECT_ANY_THROW(square({eager})[0].backward(torch::ones({3}, torch::kComplexDouble)));
  square({eager})[0].backward(torch::ones({3}, torch::kFloat));

  const Variable x = ToVariable(Leaf(0, {3}));
  const auto refused = [&](const std::vector<Tensor>& gradients) {
    return std::string(autograd::Backward(f({x}), gradients, f.ops()).message());
  };
  EXPECT_THAT(refused({}), HasSubstr("only for scalar"));
  EXPECT_THAT(refused({ToCotan(torch::ones({2}))}), HasSubstr("expected shape compatible with f64[3]"));
  EXPECT_THAT(refused({*Tensor::From<std::complex<double>>({{1, 0}, {1, 0}, {1, 0}}, {3})}),
              HasSubstr("both or neither must be complex"));
  EXPECT_FALSE(x.grad().defined());
  ASSERT_TRUE(autograd::Backward(f({x}), {*Tensor::From<float>({1, 1, 1}, {3})}, f.ops()).ok());
  EXPECT_EQ(x.grad().dtype(), DType::kFloat64);
  ExpectNear(ToTorch(x.grad().tensor()), eager.grad());
}

}  // namespace
}  // namespace cotan::testing
