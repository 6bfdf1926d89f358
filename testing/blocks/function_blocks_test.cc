// SPDX-License-Identifier: Apache-2.0

// Blocks in functions of tensors: how many are stored and called, and results and gradients beside LibTorch eager.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <string>
#include <tuple>
#include <vector>

#include "aot/blocks/block.h"
#include "aot/compile.h"
#include "runtime/autograd/engine.h"
#include "runtime/execution/program.h"
#include "testing/blocks/block_counts.h"
#include "testing/blocks/block_functions.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Returns whether the block draws random numbers.
bool Draws(const serialization::Method& block) {
  for (const serialization::Op& op : block.ops()) {
    for (const serialization::ExprInstruction& instruction : op.expr().instructions()) {
      if (instruction.fn() == serialization::FN_RANDOM_UNIFORM) return true;
    }
  }
  return false;
}

at::Tensor Product(const at::Tensor& x, const at::Tensor& y) { return (x * y).sin(); }

TEST(FunctionBlocksTest, TwoCallsShareOneForwardAndOneBackward) {
  const aot::TensorFunction function = [](const Tensors& x) {
    return Tensors{COTAN_BLOCK(Product, COTAN_BLOCK(Product, x[0], x[1]), x[1])};
  };
  ExpectEagerWithBlocks(function, {Leaf(1, {3, 4}), Leaf(2, {3, 4})}, 2, {{"forward", 2}, {"backward", 2}});
}

TEST(FunctionBlocksTest, NumbersInTheBodyArePartOfItsIdentity) {
  const aot::TensorFunction function = [](const Tensors& x) {
    at::Tensor y = x[0];
    for (const double factor : {2.0, 3.0, 2.0})
      y = COTAN_BLOCK([factor](at::Tensor t) { return (t * factor).sin(); }, y);
    return Tensors{y};
  };
  ExpectEagerWithBlocks(function, {Leaf(1, {5})}, 4, {{"forward", 3}, {"backward", 3}});
}

TEST(FunctionBlocksTest, SizesArePartOfTheIdentity) {
  const aot::TensorFunction function = [](const Tensors& x) {
    return Tensors{COTAN_BLOCK(Product, x[0], x[0]), COTAN_BLOCK(Product, x[1], x[1])};
  };
  ExpectEagerWithBlocks(function, {Leaf(1, {8, 8}), Leaf(2, {16, 16})}, 4, {{"forward", 2}, {"backward", 2}});
}

TEST(FunctionBlocksTest, TheBackwardDoesNotRepeatAProduct) {
  const auto body = [](at::Tensor x, at::Tensor y) { return torch::sin(torch::matmul(x, y)); };
  const aot::TensorFunction function = [body](const Tensors& x) {
    return Tensors{COTAN_BLOCK(body, x[0], x[1]).sin()};
  };
  const Tensors inputs{Leaf(1, {8, 512}), Leaf(2, {512, 8})};
  const aot::CompiledModel model = Compiling(function, inputs);
  ExpectBlocks(model, 2, {{"forward", 1}, {"backward", 1}});
  const serialization::Artifact artifact = StoredArtifact(model);
  EXPECT_EQ(CountOps(artifact.blocks(0), serialization::Op::kMatmul), 1);
  EXPECT_EQ(CountOps(artifact.blocks(1), serialization::Op::kMatmul), 2);
  ExpectEager(function, model, inputs);
}

TEST(FunctionBlocksTest, GradientsOfSeveralUsesAreAdded) {
  const auto square = [](at::Tensor x) { return x * x; };
  const auto difference = [square](at::Tensor x) { return square(x) - x.cos(); };
  const aot::TensorFunction function = [=](const Tensors& x) {
    const at::Tensor d = COTAN_BLOCK(difference, x[0]) - x[0].exp();
    return Tensors{2 * d};
  };
  ExpectEagerWithBlocks(function, {Leaf(1, {6})}, 2, {{"forward", 1}, {"backward", 1}});
}

TEST(FunctionBlocksTest, BackwardsThatAreDifferentiatedAreInlinedWithTheReason) {
  const aot::TensorFunction function = [](const Tensors& x) {
    return Tensors{COTAN_BLOCK(Product, COTAN_BLOCK(Product, x[0], x[1]), x[1])};
  };
  const Tensors inputs{Leaf(1, {3, 4}), Leaf(2, {3, 4})};
  aot::CompileOptions options;
  options.order = 2;
  EXPECT_THAT(Compiling(function, inputs, options).inlined_blocks(),
              ElementsAre(HasSubstr("CompileOptions.order is above 1")));
  ExpectEagerOrders(function, inputs);
}

TEST(FunctionBlocksTest, ReturnedInputsAreInlinedWithTheReason) {
  const aot::TensorFunction function = [](const Tensors& x) {
    const auto body = [](at::Tensor a, at::Tensor b) { return std::pair(a, a * b); };
    const auto [first, second] = COTAN_BLOCK(body, x[0], x[0].view({-1}).view({2, 3}));
    return Tensors{first + 1, second};
  };
  const Tensors inputs{Leaf(1, {2, 3})};
  const aot::CompiledModel model = Compiling(function, inputs);
  EXPECT_EQ(CountBlocks(model).blocks, 0);
  EXPECT_THAT(model.inlined_blocks(), ElementsAre(HasSubstr("return its clone()")));
  ExpectEager(function, model, inputs);
}

// The caller sees a write to one result in the other.
TEST(FunctionBlocksTest, ResultsThatShareMemoryAreInlinedWithTheReason) {
  const auto value_and_view = [](at::Tensor x) {
    const at::Tensor y = x.sin();
    return std::pair(y, y.view(-1));
  };
  const auto two_views = [](at::Tensor x) {
    const at::Tensor y = x.sin();
    return std::pair(y.t(), y.view(-1));
  };
  const std::vector<aot::TensorFunction> functions = {[=](const Tensors& x) {
                                                        const auto [y, flat] = COTAN_BLOCK(value_and_view, x[0]);
                                                        flat.mul_(2);
                                                        return Tensors{y * 3, flat + 1};
                                                      },
                                                      [=](const Tensors& x) {
                                                        const auto [y, flat] = COTAN_BLOCK(two_views, x[0]);
                                                        y.mul_(2);
                                                        return Tensors{y * 3, flat + 1};
                                                      }};
  for (const aot::TensorFunction& function : functions) {
    const Tensors inputs{Leaf(1, {2, 3})};
    const aot::CompiledModel model = Compiling(function, inputs);
    EXPECT_EQ(CountBlocks(model).blocks, 0);
    EXPECT_THAT(model.inlined_blocks(), ElementsAre(HasSubstr("shares memory with an input or another result")));
    ExpectEager(function, model, inputs);
  }
}

// Parts of one tensor, which eager does not let a caller write to.
TEST(FunctionBlocksTest, PartsOfOneTensorAreResults) {
  const auto body = [](at::Tensor x) {
    const Tensors parts = x.sin().chunk(2, 1);
    return std::pair(parts[0], parts[1]);
  };
  const aot::TensorFunction function = [body](const Tensors& x) {
    const auto [first, second] = COTAN_BLOCK(body, x[0]);
    return Tensors{first * second, second + 1};
  };
  ExpectEagerWithBlocks(function, {Leaf(1, {3, 4})}, 2, {{"forward", 1}, {"backward", 1}});
}

TEST(FunctionBlocksTest, AViewOfAnIntermediateIsAResult) {
  const auto body = [](at::Tensor x) { return x.sin().t(); };
  const aot::TensorFunction function = [body](const Tensors& x) {
    return Tensors{COTAN_BLOCK(body, COTAN_BLOCK(body, x[0])) * 2};
  };
  const Tensors inputs{Leaf(1, {3, 3})};
  const aot::CompiledModel model = Compiling(function, inputs);
  EXPECT_THAT(model.inlined_blocks(), IsEmpty());
  ExpectEager(function, model, inputs);
}

TEST(FunctionBlocksTest, WritesToInputsAreInlinedWithTheReason) {
  const auto body = [](at::Tensor x) { return x.mul_(2).sin(); };
  const aot::TensorFunction function = [body](const Tensors& x) {
    const at::Tensor own = x[0] * 1.5;
    const at::Tensor y = COTAN_BLOCK(body, own);
    return Tensors{y + own};
  };
  const Tensors inputs{Leaf(1, {4})};
  const aot::CompiledModel model = Compiling(function, inputs);
  EXPECT_THAT(model.inlined_blocks(), ElementsAre(HasSubstr("in-place operation")));
  ExpectEager(function, model, inputs);
}

// Hooks of an argument get the gradient of the caller's value, of which the block has a part only.
TEST(FunctionBlocksTest, HooksThatReplaceTheGradientOfAnArgumentAreInlinedWithTheReason) {
  const auto body = [](at::Tensor x) {
    x.register_hook([](const at::Tensor& gradient) { return gradient.clamp(-0.5, 0.5); });
    return x.exp();
  };
  const aot::TensorFunction function = [body](const Tensors& x) {
    const at::Tensor y = x[0].sin();
    return Tensors{COTAN_BLOCK(body, y) + 3 * y};
  };
  const Tensors inputs{Leaf(1, {4})};
  const aot::CompiledModel model = Compiling(function, inputs);
  EXPECT_THAT(model.inlined_blocks(), ElementsAre(HasSubstr("a hook that the function adds to argument 0")));
  ExpectEager(function, model, inputs);
}

TEST(FunctionBlocksTest, RetainedGradientsOfArgumentsAndResultsAreInlinedWithTheReason) {
  for (const bool of_result : {false, true}) {
    const auto body = [of_result](at::Tensor x) {
      const at::Tensor y = x.exp();
      (of_result ? y : x).retain_grad();
      return y;
    };
    const aot::TensorFunction function = [body](const Tensors& x) { return Tensors{COTAN_BLOCK(body, x[0].sin())}; };
    const Tensors inputs{Leaf(1, {4})};
    const aot::CompiledModel model = Compiling(function, inputs);
    EXPECT_THAT(model.inlined_blocks(),
                ElementsAre(HasSubstr(of_result ? "retain_grad() of result 0" : "retain_grad() of an argument")));
    ExpectEager(function, model, inputs);
  }
}

// sin, with a backward of its own.
class Cosine : public torch::autograd::Function<Cosine> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    return x.sin();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const at::Tensor x = context->get_saved_variables()[0];
    return {x * gradients[0].cos()};
  }
};

TEST(FunctionBlocksTest, NodesOfUsersArePartOfTheBlock) {
  const auto body = [](at::Tensor x) { return Cosine::apply(x); };
  const aot::TensorFunction function = [body](const Tensors& x) {
    return Tensors{COTAN_BLOCK(body, COTAN_BLOCK(body, x[0]))};
  };
  ExpectEagerWithBlocks(function, {Leaf(1, {4})}, 2, {{"forward", 2}, {"backward", 2}});
}

// Scales gradients by a number that its forward does not use.
class ScaledGradient : public torch::autograd::Function<ScaledGradient> {
 public:
  static at::Tensor forward(AutogradContext* context, const at::Tensor& x, double scale) {
    context->saved_data["scale"] = scale;
    return x.clone();
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {gradients[0] * context->saved_data["scale"].toDouble(), at::Tensor()};
  }
};

TEST(FunctionBlocksTest, NumbersOfTheBackwardArePartOfTheIdentity) {
  const aot::TensorFunction function = [](const Tensors& x) {
    at::Tensor y = x[0];
    for (const double scale : {2.0, -1.0}) {
      y = COTAN_BLOCK([scale](at::Tensor t) { return ScaledGradient::apply(t, scale).sin(); }, y);
    }
    return Tensors{y};
  };
  ExpectEagerWithBlocks(function, {Leaf(1, {4})}, 4, {{"forward", 2}, {"backward", 2}});
}

TEST(FunctionBlocksTest, EqualTangentsOfOneCallDoNotServeAnother) {
  const auto body = [](at::Tensor x) { return std::pair(x.sin(), x.cos()); };
  const aot::TensorFunction function = [body](const Tensors& x) {
    const auto first = COTAN_BLOCK(body, x[0]);
    const auto second = COTAN_BLOCK(body, first.first);
    return Tensors{(first.second + second.first + second.second).sum()};
  };
  ExpectEagerWithBlocks(function, {Leaf(1, {4})}, 2, {{"forward", 2}, {"backward", 2}});
}

// A block does not know its callers: it has all of its results.
TEST(FunctionBlocksTest, ResultsThatNobodyUsesGetNoGradient) {
  const auto body = [](at::Tensor x) { return std::pair(x.sin(), x.exp()); };
  for (const bool one_call_uses_it : {false, true}) {
    const aot::TensorFunction function = [=](const Tensors& x) {
      const auto first = COTAN_BLOCK(body, x[0]);
      const auto second = COTAN_BLOCK(body, first.first);
      return Tensors{one_call_uses_it ? second.first + second.second : second.first};
    };
    const Tensors inputs{Leaf(1, {4})};
    const aot::CompiledModel model = Compiling(function, inputs);
    ExpectBlocks(model, 2, {{"forward", 2}, {"backward", 2}});
    EXPECT_EQ(StoredArtifact(model).blocks(0).outputs_size(), 2);
    EXPECT_EQ(StoredArtifact(model).blocks(1).outputs_size(), 1);
    ExpectEager(function, model, inputs);
  }
}

TEST(FunctionBlocksTest, InputsWithoutGradientGetNone) {
  const auto body = [](at::Tensor x, at::Tensor w) { return torch::matmul(x, w).sin(); };
  const aot::TensorFunction function = [body](const Tensors& x) { return Tensors{COTAN_BLOCK(body, x[0], x[1])}; };
  const Tensors inputs{Constant(1, {4, 4}), Leaf(2, {4, 4})};
  const aot::CompiledModel model = Compiling(function, inputs);
  ExpectBlocks(model, 2, {{"forward", 1}, {"backward", 1}});
  EXPECT_EQ(StoredArtifact(model).blocks(1).outputs_size(), 1);
  ExpectEager(function, model, inputs);
}

TEST(FunctionBlocksTest, AnInputThatIsPassedTwiceGetsBothGradients) {
  const aot::TensorFunction function = [](const Tensors& x) { return Tensors{COTAN_BLOCK(Product, x[0], x[0])}; };
  ExpectEagerWithBlocks(function, {Leaf(1, {4})}, 2, {{"forward", 1}, {"backward", 1}});
}

TEST(FunctionBlocksTest, AGradientInsideOfTheFunctionCallsTheBackward) {
  const auto body = [](at::Tensor x, at::Tensor w) { return torch::matmul(x, w).sin(); };
  const aot::TensorFunction function = [body](const Tensors& x) {
    const at::Tensor w = x[2].detach().requires_grad_();
    const at::Tensor loss = (COTAN_BLOCK(body, x[0], w) + COTAN_BLOCK(body, x[1], w)).sum();
    return Tensors{torch::autograd::grad({loss}, {w})[0]};
  };
  const Tensors inputs{Constant(1, {8, 512}), Constant(3, {8, 512}), Constant(2, {512, 8})};
  ExpectEagerWithBlocks(function, inputs, 2, {{"forward", 4}});
}

TEST(FunctionBlocksTest, ADifferentiatedBackwardIsRefused) {
  const aot::TensorFunction function = [](const Tensors& x) {
    const at::Tensor loss = COTAN_BLOCK(Product, x[0], x[1]).sum();
    return Tensors{torch::autograd::grad({loss}, {x[0]}, {}, true, true)[0]};
  };
  const auto model = aot::CompileFunction(function, {Leaf(1, {4}), Leaf(2, {4})}, {});
  EXPECT_EQ(model.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(model.status().message(), HasSubstr("call it without COTAN_BLOCK"));
}

// Returns sin and its sign, which is not differentiable.
class SineAndSign : public torch::autograd::Function<SineAndSign> {
 public:
  static variable_list forward(AutogradContext* context, const at::Tensor& x) {
    context->save_for_backward({x});
    const at::Tensor sign = x.sin().sign();
    context->mark_non_differentiable({sign});
    return {x.sin(), sign};
  }
  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    return {gradients[0] * context->get_saved_variables()[0].cos()};
  }
};

TEST(FunctionBlocksTest, ResultsWithoutGradientStayWithoutGradient) {
  const auto body = [](at::Tensor x) {
    const variable_list results = SineAndSign::apply(x);
    return std::pair(results[0], results[1]);
  };
  const aot::TensorFunction function = [body](const Tensors& x) {
    const auto [sine, sign] = COTAN_BLOCK(body, x[0]);
    return Tensors{sine, sign};
  };
  ExpectEagerWithBlocks(function, {Leaf(1, {4})}, 2, {{"forward", 1}, {"backward", 1}});
}

TEST(FunctionBlocksTest, WithoutGradientsThereIsNoBackward) {
  const aot::TensorFunction function = [](const Tensors& x) {
    return Tensors{COTAN_BLOCK(Product, COTAN_BLOCK(Product, x[0], x[1]), x[1])};
  };
  ExpectEagerWithBlocks(function, {Constant(1, {3, 4}), Constant(2, {3, 4})}, 1, {{"forward", 2}});
}

TEST(FunctionBlocksTest, BlocksMayCallBlocks) {
  const auto inner = [](at::Tensor x) { return x.sin() * 2; };
  const auto outer = [inner](at::Tensor x) { return COTAN_BLOCK(inner, COTAN_BLOCK(inner, x)) + x; };
  const aot::TensorFunction function = [outer](const Tensors& x) {
    return Tensors{COTAN_BLOCK(outer, COTAN_BLOCK(outer, x[0]))};
  };
  const Tensors inputs{Leaf(1, {4})};
  const aot::CompiledModel model = Compiling(function, inputs);
  ExpectBlocks(model, 4, {{"forward", 2}, {"backward", 2}});
  ExpectEager(function, model, inputs);
}

TEST(FunctionBlocksTest, SizesMayBeDynamic) {
  const auto body = [](at::Tensor x) { return (x.view({x.size(1), x.size(0)}).sin() * x.size(0)).sum(0); };
  const aot::TensorFunction function = [body](const Tensors& x) {
    return Tensors{COTAN_BLOCK(body, x[0]).sum() + COTAN_BLOCK(body, x[0] * 2).sum()};
  };
  aot::CompileOptions options;
  options.dynamic_dims = {{0, 0, "rows", 2, 64}, {0, 1, "columns", 2, 64}};
  const aot::CompiledModel model = Compiling(function, {Leaf(1, {8, 12})}, options);
  ExpectBlocks(model, 2, {{"forward", 2}, {"backward", 2}});
  for (const auto& [rows, columns] : {std::pair(64, 2), std::pair(8, 9), std::pair(16, 16), std::pair(4, 5)}) {
    ExpectEager(function, model, {Leaf(3, {rows, columns})});
  }
}

// With the row of numbers as one column and as a square.
TEST(FunctionBlocksTest, SizesMayBeOne) {
  const auto body = [](at::Tensor x) { return (x.view({x.size(1), x.size(0)}).sin() * x.size(0)).sum(0); };
  const aot::TensorFunction function = [body](const Tensors& x) {
    return Tensors{COTAN_BLOCK(body, x[0]).sum() + COTAN_BLOCK(body, x[0] * 2).sum()};
  };
  aot::CompileOptions options;
  options.dynamic_dims = {{0, 0, "rows", 1, 256}, {0, 1, "columns", 1, 64}};
  const aot::CompiledModel model = Compiling(function, {Leaf(1, {8, 12})}, options);
  ExpectBlocks(model, 2, {{"forward", 2}, {"backward", 2}});
  for (const auto& [rows, columns] : {std::pair(64, 1), std::pair(8, 8), std::pair(256, 1), std::pair(16, 16),
                                      std::pair(16, 1), std::pair(4, 4), std::pair(1, 5), std::pair(1, 1)}) {
    ExpectEager(function, model, {Leaf(3, {rows, columns})});
  }
}

TEST(FunctionBlocksTest, CallsOfDropoutDrawTheirOwnNumbers) {
  const auto body = [](at::Tensor x) { return torch::dropout(x, 0.5, true); };
  const aot::TensorFunction function = [body](const Tensors& x) {
    return Tensors{COTAN_BLOCK(body, x[0]), COTAN_BLOCK(body, x[0])};
  };
  const Tensors inputs{Leaf(1, {64})};
  const aot::CompiledModel model = Compiling(function, inputs);
  ExpectBlocks(model, 2, {{"forward", 2}, {"backward", 2}});
  auto compiled = Compiled::Load(model);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Variables arguments = ToVariables(inputs);
  const Variables results = (*compiled)(arguments);
  ASSERT_EQ(results.size(), 2u);
  const at::Tensor first = ToTorch(results[0].tensor()), second = ToTorch(results[1].tensor());
  EXPECT_FALSE(torch::equal(first != 0, second != 0));
  const auto gradient = autograd::Grad({results[0], results[1]}, arguments,
                                       {ToCotan(torch::ones({64})), ToCotan(torch::full({64}, 10))}, compiled->ops());
  ASSERT_TRUE(gradient.ok()) << gradient.status();
  ExpectNear(ToTorch((*gradient)[0]), (first != 0) * 2.0 + (second != 0) * 20.0);
}

// The products are exact but for one rounding each, so that eager's bits follow from the mask.
TEST(FunctionBlocksTest, DropoutThatIsComputedAgainHasTheMaskOfTheForward) {
  const auto body = [](at::Tensor x) { return torch::dropout(x * x, 0.5, true); };
  const aot::TensorFunction function = [body](const Tensors& x) {
    return Tensors{COTAN_BLOCK(body, COTAN_BLOCK(body, x[0]))};
  };
  const Tensors inputs{Leaf(1, {64})};
  const aot::CompiledModel model = Compiling(function, inputs, {.activation_memory_budget = 0});
  ExpectBlocks(model, 2, {{"forward", 2}, {"backward", 2}});
  EXPECT_TRUE(Draws(StoredArtifact(model).blocks(0)));
  EXPECT_TRUE(Draws(StoredArtifact(model).blocks(1))) << "the mask is not computed again";
  std::vector<at::Tensor> results, gradients;
  for (int run = 0; run < 2; ++run) {
    auto compiled = Compiled::Load(model);
    ASSERT_TRUE(compiled.ok()) << compiled.status();
    const Variables arguments = ToVariables(inputs);
    const Variables outputs = (*compiled)(arguments);
    const auto gradient = autograd::Grad(outputs, arguments, {ToCotan(torch::ones({64}))}, compiled->ops());
    ASSERT_TRUE(gradient.ok()) << gradient.status();
    results.push_back(ToTorch(outputs[0].tensor()));
    gradients.push_back(ToTorch((*gradient)[0]));
  }
  EXPECT_TRUE(torch::equal(results[0], results[1]));
  EXPECT_TRUE(torch::equal(gradients[0], gradients[1]));
  const at::Tensor x = Leaf(1, {64}), kept = (results[0] != 0).to(x.scalar_type());
  ASSERT_GT(kept.sum().item<double>(), 0);
  ASSERT_LT(kept.sum().item<double>(), 64);
  const at::Tensor inner = x * x * kept * 2;
  const at::Tensor outer = inner * inner * kept * 2;
  EXPECT_TRUE(torch::equal(results[0], outer.detach()));
  EXPECT_TRUE(torch::equal(gradients[0], torch::autograd::grad({outer}, {x}, {torch::ones_like(x)})[0]));
}

TEST(FunctionBlocksTest, AnEmptyPlaceAmongTheResultsStaysEmpty) {
  const auto body = [](at::Tensor x) { return std::tuple(2 * x, at::Tensor(), 3 * x); };
  bool was_empty = false;
  const aot::TensorFunction function = [body, &was_empty](const Tensors& x) {
    const auto [twice, empty, thrice] = COTAN_BLOCK(body, x[0]);
    was_empty = !empty.defined();
    return Tensors{(twice + thrice).sum()};
  };
  const Tensors inputs{Leaf(1, {4})};
  const aot::CompiledModel model = Compiling(function, inputs);
  EXPECT_TRUE(was_empty);
  ExpectBlocks(model, 2, {{"forward", 1}, {"backward", 1}});  // a forward and a backward
  ExpectEager(function, model, inputs);
  auto compiled = Compiled::Load(model);
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const Variable x = ToVariable(inputs[0]);
  ASSERT_TRUE(autograd::Backward((*compiled)({x}), {}, compiled->ops()).ok());
  EXPECT_TRUE(torch::equal(ToTorch(x.grad().tensor()), torch::full({4}, 5.0, torch::kDouble)));
}

// A block that is called once is stored as one, too. What runs has no calls, whatever their number.
TEST(FunctionBlocksTest, NothingRunsAsACallHoweverOftenABlockIsCalled) {
  const auto sine = [](at::Tensor x) { return x.sin(); };
  const auto inner = [sine](at::Tensor x) { return COTAN_BLOCK(sine, x) * 2; };
  const aot::TensorFunction once = [=](const Tensors& x) { return Tensors{COTAN_BLOCK(sine, x[0])}; };
  const aot::TensorFunction twice = [=](const Tensors& x) {
    return Tensors{COTAN_BLOCK(sine, COTAN_BLOCK(sine, x[0]))};
  };
  const aot::TensorFunction nested = [=](const Tensors& x) {
    return Tensors{COTAN_BLOCK(inner, COTAN_BLOCK(sine, x[0]))};
  };
  const Tensors inputs{Leaf(1, {4})};
  const std::vector<std::tuple<aot::TensorFunction, int, int>> cases = {{once, 2, 1}, {twice, 2, 2}, {nested, 4, 2}};
  for (const auto& [function, blocks, calls] : cases) {
    const aot::CompiledModel model = Compiling(function, inputs);
    ExpectBlocks(model, blocks, {{"forward", calls}, {"backward", calls}});
    const auto program = Program::LoadBytes(std::string(model.bytes()));
    ASSERT_TRUE(program.ok()) << program.status();
    EXPECT_EQ((*program)->artifact().blocks_size(), 0);
    for (const serialization::Method& method : (*program)->artifact().methods()) {
      EXPECT_EQ(CountOps(method, serialization::Op::kCall), 0) << method.name();
    }
    ExpectEager(function, model, inputs);
  }
}

}  // namespace
}  // namespace cotan::testing
