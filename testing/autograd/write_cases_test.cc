// SPDX-License-Identifier: Apache-2.0

// Compiled functions that write views of results of other ones, beside LibTorch eager: which writes are refused, and
// the gradients after the others. Each backward is walked and captured. The rows C8 of cases.txt that view_cases_test
// does not have.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <string>
#include <variant>
#include <vector>

#include "runtime/autograd/engine.h"
#include "testing/autograd/walked_and_captured.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Steps = std::vector<ViewStep>;

Compiled Compile(const aot::TensorFunction& function, const Tensors& examples) {
  auto compiled = Compiled::Function(function, examples, /*order=*/1);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  return *std::move(compiled);
}

Tensors Clone(const Tensors& in) { return {in[0].clone()}; }
Tensors Sum(const Tensors& in) { return {in[0].sum()}; }
Tensors Square(const Tensors& in) { return {in[0] * in[0]}; }
Tensors Product(const Tensors& in) { return {in[0] * in[1]}; }
// Write their first argument.
Tensors Double(const Tensors& in) {
  in[0].mul_(2);
  return {};
}
Tensors Multiply(const Tensors& in) {
  in[0].mul_(in[1]);
  return {};
}

// Examples of arguments that are written: values that are computed.
at::Tensor Computed(at::IntArrayRef sizes) { return Leaf(0, sizes) * 1; }

view::Slice Part(int dim, int64_t start, int64_t end) { return {.dim = dim, .start = start, .end = end}; }
at::Tensor Seen(at::Tensor x, const Steps& slices) {
  for (const ViewStep& step : slices) {
    const auto& slice = std::get<view::Slice>(step);
    x = x.slice(slice.dim, slice.start.constant(), slice.end.constant());
  }
  return x;
}
Variable Seen(const Variable& x, const Steps& slices) { return slices.empty() ? x : *x.View(slices); }

void ExpectBackward(const Variables& roots, TensorOps& ops) {
  const absl::Status ran = autograd::Backward(roots, {}, ops);
  ASSERT_TRUE(ran.ok()) << ran;
}
void ExpectGrad(const Variable& variable, const at::Tensor& expected) {
  ASSERT_TRUE(variable.grad().defined());
  ExpectNear(ToTorch(variable.grad().tensor()), expected);
}

// AG-046 to AG-048.
TEST(WriteCasesTest, ThePartOfATensorThatIsDoubledHasTwiceItsGradient) {
  struct Case {
    Steps written, summed;
    std::vector<double> gradient;
  };
  const Steps row = {Part(0, 0, 1)}, element = {Part(0, 0, 1), Part(1, 1, 2)};
  for (const Case& c :
       std::vector<Case>{{row, {}, {2, 2, 1, 1}}, {row, row, {2, 2, 0, 0}}, {element, {}, {1, 2, 1, 1}}}) {
    const at::Tensor root = Leaf(0, {2, 2}), base = root.clone();
    const at::Tensor part = Seen(base, c.written), end = Seen(base, c.summed);
    part.mul_(2);
    end.sum().backward();
    ExpectNear(root.grad(), torch::tensor(c.gradient, torch::kDouble).view({2, 2}));

    Compiled clone = Compile(Clone, {Leaf(0, {2, 2})}), doubled = Compile(Double, {Computed(part.sizes())});
    Compiled sum = Compile(Sum, {Leaf(0, end.sizes())});
    WalkedAndCaptured([&] {
      const Variable ours = ToVariable(Leaf(0, {2, 2})), copy = clone({ours})[0];
      const Variable ours_part = Seen(copy, c.written), ours_end = Seen(copy, c.summed);
      doubled({ours_part});
      ExpectNear(ToTorch(ours_end.tensor()), end.detach());
      ExpectBackward(sum({ours_end}), sum.ops());
      ExpectGrad(ours, root.grad());
    });
  }
}

// AG-049.
TEST(WriteCasesTest, TwoBlocksThatAreMultipliedHaveTheGradientsOfBothFactors) {
  const Steps blocks[] = {{Part(0, 1, 3), Part(1, 2, 4)}, {Part(0, 1, 3), Part(1, 0, 2)}};
  const at::Tensor root = Leaf(0, {4, 4}), b = Leaf(1, {2, 2}), x = root.clone();
  for (const Steps& block : blocks) Seen(x, block).mul_(b);
  x.sum().backward();
  ExpectNear(Seen(root.grad(), blocks[0]), b.detach());
  ExpectNear(b.grad(), (Seen(root, blocks[0]) + Seen(root, blocks[1])).detach());

  Compiled clone = Compile(Clone, {Leaf(0, {4, 4})}), sum = Compile(Sum, {Leaf(0, {4, 4})});
  Compiled multiply = Compile(Multiply, {Computed({2, 2}), Leaf(1, {2, 2})});
  WalkedAndCaptured([&] {
    const Variable ours = ToVariable(Leaf(0, {4, 4})), factor = ToVariable(Leaf(1, {2, 2}));
    const Variable copy = clone({ours})[0];
    for (const Steps& block : blocks) multiply({Seen(copy, block), factor});
    ExpectNear(ToTorch(copy.tensor()), x.detach());
    ExpectBackward(sum({copy}), sum.ops());
    ExpectGrad(ours, root.grad());
    ExpectGrad(factor, b.grad());
  });
}

// How a tensor of 4 rows is taken apart: by LibTorch, and by view steps.
struct Parts {
  std::function<Tensors(const at::Tensor&)> eager;
  Steps steps;
};

void ExpectRefused(const absl::Status& status, const std::string& part) {
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(part));
}

// AG-051, the forms whose results know that they are one of several.
TEST(WriteCasesTest, OneOfSeveralViewsIsNotWrittenNorIsAViewOfIt) {
  const Parts all[] = {
      {[](const at::Tensor& x) { return x.unbind(); },
       {view::Select{.dim = 0, .index = 0}, view::Select{.dim = 0, .index = 1}, view::Select{.dim = 0, .index = 2},
        view::Select{.dim = 0, .index = 3}}},
      {[](const at::Tensor& x) { return x.chunk(2); }, {Part(0, 0, 2), Part(0, 2, 4)}},
      {[](const at::Tensor& x) { return x.split(3); }, {Part(0, 0, 3), Part(0, 3, 4)}},
  };
  Compiled clone = Compile(Clone, {Leaf(0, {4, 2})});
  for (const Parts& parts : all) {
    for (const bool of_a_view : {false, true}) {
      const at::Tensor root = Leaf(0, {4, 2}), base = root.clone();
      const at::Tensor part = parts.eager(of_a_view ? base.view({4, 2}) : base)[0];
      EXPECT_ANY_THROW(part.mul_(2));
      EXPECT_ANY_THROW(part.view_as(part).mul_(2));
      part.sum().backward();

      Compiled doubled = Compile(Double, {Computed(part.sizes())}), sum = Compile(Sum, {Leaf(0, part.sizes())});
      WalkedAndCaptured([&] {
        const Variable ours = ToVariable(Leaf(0, {4, 2})), copy = clone({ours})[0];
        const Variable whole = of_a_view ? *copy.View({view::View{.sizes = {4, 2}}}) : copy;
        const Variable first = (*whole.MultiView(parts.steps))[0];
        ExpectRefused(doubled.function().Call({first}).status(), "Output 0 of MultiViewBackward");
        ExpectRefused(doubled.function().Call({*first.View({})}).status(), "multiple views");
        ExpectBackward(sum({first}), sum.ops());
        ExpectGrad(ours, root.grad());
      });
    }
  }
}

// AG-051, the unsafe forms. A view of its own for each part knows nothing of the others.
TEST(WriteCasesTest, PartsThatAreViewsOfTheirOwnAreWritten) {
  const Parts all[] = {
      {[](const at::Tensor& x) { return x.unsafe_chunk(2); }, {Part(0, 0, 2)}},
      {[](const at::Tensor& x) { return x.unsafe_split(3); }, {Part(0, 0, 3)}},
  };
  Compiled clone = Compile(Clone, {Leaf(0, {4, 2})});
  for (const Parts& parts : all) {
    const at::Tensor root = Leaf(0, {4, 2}), part = parts.eager(root.clone())[0];
    part.mul_(2);
    part.sum().backward();

    Compiled doubled = Compile(Double, {Computed(part.sizes())}), sum = Compile(Sum, {Leaf(0, part.sizes())});
    WalkedAndCaptured([&] {
      const Variable ours = ToVariable(Leaf(0, {4, 2})), first = Seen(clone({ours})[0], parts.steps);
      doubled({first});
      ExpectBackward(sum({first}), sum.ops());
      ExpectGrad(ours, root.grad());
    });
  }
}

// AG-052. The factor that is saved is a copy of the block: the block itself is written.
TEST(WriteCasesTest, ATensorWithoutGradientGetsOneFromWhatIsWrittenToItsBlock) {
  const Steps block = {Part(1, 2, 4)};
  const at::Tensor x = Constant(0, {2, 4}).clone(), b = Leaf(1, {2, 2}), old = Seen(x, block).clone();
  Seen(x, block).mul_(b);
  ASSERT_TRUE(x.requires_grad());
  x.sum().backward();
  ExpectNear(b.grad(), old);

  Compiled product = Compile(Product, {Constant(0, {2, 2}), Leaf(1, {2, 2})}), sum = Compile(Sum, {Leaf(0, {2, 4})});
  WalkedAndCaptured([&] {
    const Variable ours = ToVariable(Constant(0, {2, 4})), factor = ToVariable(Leaf(1, {2, 2}));
    EXPECT_FALSE(ours.requires_grad());
    const Variable written = product({ToVariable(old), factor})[0];
    ASSERT_TRUE(Seen(ours, block).CopyInPlace(written, sum.ops()).ok());
    EXPECT_TRUE(ours.requires_grad());
    ExpectNear(ToTorch(ours.tensor()), x.detach());
    ExpectBackward(sum({ours}), sum.ops());
    ExpectGrad(factor, b.grad());
  });
}

// AG-053.
TEST(WriteCasesTest, AViewHasTheGradientOfWhatWasAddedToItsBase) {
  const auto add = [](const Tensors& in) -> Tensors { return {in[0] + in[1]}; };
  const at::Tensor x = torch::ones({5}, torch::kDouble), r = Leaf(0, {1}), v = x.select(0, 1);
  x.add_(r);
  ASSERT_TRUE(v.requires_grad());
  v.backward();
  ExpectNear(r.grad(), torch::ones({1}, torch::kDouble));

  Compiled f = Compile(add, {Constant(0, {5}), Leaf(0, {1})});
  WalkedAndCaptured([&] {
    Variable base = ToVariable(torch::ones({5}, torch::kDouble));
    const Variable added = ToVariable(Leaf(0, {1})), view = *base.View({view::Select{.dim = 0, .index = 1}});
    EXPECT_FALSE(view.requires_grad());
    ASSERT_TRUE(base.CopyInPlace(f({base, added})[0], f.ops()).ok());
    EXPECT_TRUE(view.requires_grad());
    ExpectNear(ToTorch(view.tensor()), v.detach());
    ExpectBackward({view}, f.ops());
    ExpectGrad(added, r.grad());
  });
}

// AG-056.
TEST(WriteCasesTest, AViewOfALeafIsRefusedBeforeItIsWritten) {
  const at::Tensor leaf = Leaf(0, {4});
  EXPECT_ANY_THROW(Double({leaf}));
  EXPECT_ANY_THROW(Double({leaf.view({2, 2})}));
  EXPECT_ANY_THROW(Double({leaf.slice(0, 0, 2)}));

  Compiled whole = Compile(Double, {Computed({4})}), square = Compile(Double, {Computed({2, 2})});
  Compiled half = Compile(Double, {Computed({2})});
  const Variable ours = ToVariable(leaf);
  ExpectRefused(whole.function().Call({ours}).status(), "a leaf Variable that requires grad");
  const std::string refusal = "a view of a leaf Variable that requires grad";
  ExpectRefused(square.function().Call({*ours.View({view::View{.sizes = {2, 2}}})}).status(), refusal);
  ExpectRefused(half.function().Call({*ours.View({Part(0, 0, 2)})}).status(), refusal);
  ExpectNear(ToTorch(ours.tensor()), leaf.detach());
  EXPECT_EQ(ours.version(), 0u);
}

// AG-060: `saved` is the argument that the square saves, `written` what is written after it.
TEST(WriteCasesTest, TheBackwardOfASavedValueThatWasWrittenNamesBothVersions) {
  struct Case {
    Steps saved, written;
  };
  const Steps half = {Part(0, 0, 2)};
  for (const Case& c : std::vector<Case>{{{}, {}}, {{}, half}, {half, {}}}) {
    const at::Tensor base = Leaf(0, {4}).clone(), argument = Seen(base, c.saved), end = Square({argument})[0];
    Seen(base, c.written).add_(1);
    const auto message_of_eager = [&end]() -> std::string {
      try {
        end.backward(torch::ones_like(end));
      } catch (const c10::Error& error) {
        return error.what_without_backtrace();
      }
      return "";
    };
    const auto names_both =
        AllOf(HasSubstr("modified by an inplace operation"), HasSubstr("is at version 1; expected version 0"));
    EXPECT_THAT(message_of_eager(), names_both);

    Compiled clone = Compile(Clone, {Leaf(0, {4})}), square = Compile(Square, {Leaf(0, argument.sizes())});
    WalkedAndCaptured([&] {
      const Variable ours = ToVariable(Leaf(0, {4})), copy = clone({ours})[0];
      const Variables result = square({Seen(copy, c.saved)});
      const std::vector<Tensor> ones = {ToCotan(torch::ones(end.sizes(), torch::kDouble))};
      ASSERT_TRUE(autograd::Backward(result, ones, square.ops(), {.retain_graph = true}).ok());
      const at::Tensor grad = ToTorch(ours.grad().tensor());
      Variable part = Seen(copy, c.written);
      ASSERT_TRUE(part.CopyInPlace(ToVariable(Constant(1, Seen(base, c.written).sizes())), square.ops()).ok());
      const absl::Status status = autograd::Backward(result, ones, square.ops());
      EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
      EXPECT_THAT(std::string(status.message()), names_both);
      ExpectGrad(ours, grad);
    });
  }
}

}  // namespace
}  // namespace cotan::testing
