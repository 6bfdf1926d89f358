// SPDX-License-Identifier: Apache-2.0

// Calls of blocks without a key: which of them are found to be equal without a trace, and which must not be.
#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <utility>

#include "aot/blocks/block.h"
#include "aot/compile.h"
#include "testing/blocks/block_counts.h"
#include "testing/blocks/block_functions.h"
#include "testing/higher_order/compiled.h"

namespace cotan::testing {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

TEST(EqualCallsTest, OnlyTheFirstOfThemIsTraced) {
  int traced = 0, compared = 0;
  const auto body = [&](at::Tensor x) {
    ++(x.unsafeGetTensorImpl()->has_storage() ? traced : compared);
    return (x * 2).sin();
  };
  const aot::TensorFunction function = [&](const Tensors& x) {
    at::Tensor y = x[0];
    for (int call = 0; call < 5; ++call) y = COTAN_BLOCK(body, y);
    return Tensors{y};
  };
  const aot::CompiledModel model = Compiling(function, {Leaf(1, {3, 4})});
  EXPECT_EQ(traced, 2);
  EXPECT_EQ(compared, 4);
  ExpectBlocks(model, 2, {{"forward", 5}, {"backward", 5}});
  ExpectEager(function, model, {Leaf(1, {3, 4})});
}

// torch::zeros() and others return a copy of the tensor that the op returns, if it has another owner.
TEST(EqualCallsTest, TensorsOfFactoriesAreCompared) {
  int traced = 0;
  const auto body = [&](at::Tensor x) {
    traced += x.unsafeGetTensorImpl()->has_storage() ? 1 : 0;
    const at::Tensor y = torch::arange(4, torch::kDouble) + torch::ones({4}, torch::kDouble);
    return x * torch::full_like(x, 3) + y.exp();
  };
  const aot::TensorFunction function = [&](const Tensors& x) {
    return Tensors{COTAN_BLOCK(body, COTAN_BLOCK(body, x[0]))};
  };
  const aot::CompiledModel model = Compiling(function, {Leaf(1, {3, 4})});
  EXPECT_EQ(traced, 2);
  ExpectEager(function, model, {Leaf(1, {3, 4})});
}

// Calls a block for each of four layers; every other one is special.
template <typename Body>
aot::TensorFunction EveryOther(const Body& body) {
  return [body](const Tensors& x) {
    at::Tensor y = x[0];
    for (const bool is_special : {false, true, false, true}) {
      y = COTAN_BLOCK([&](at::Tensor t) { return body(t, is_special); }, y);
    }
    return Tensors{y};
  };
}

template <typename Body>
void ExpectTwoKinds(const Body& body) {
  ExpectEagerWithBlocks(EveryOther(body), {Leaf(1, {3, 4})}, 4, {{"forward", 4}, {"backward", 4}});
}

TEST(EqualCallsTest, OpsAtTheEndArePartOfTheIdentity) {
  ExpectTwoKinds([](const at::Tensor& x, bool is_special) { return is_special ? x.sin().cos() : x.sin(); });
}

TEST(EqualCallsTest, ArgumentsArePartOfTheIdentity) {
  ExpectTwoKinds([](const at::Tensor& x, bool is_special) {
    const at::Tensor y = x.sin(), z = x.cos();
    return is_special ? y - z : z - y;
  });
}

TEST(EqualCallsTest, TheSignOfZeroIsPartOfTheIdentity) {
  ExpectTwoKinds([](const at::Tensor& x, bool is_special) {
    return (x.detach().abs() * (is_special ? -0.0 : 0.0)).reciprocal().sigmoid() + x.sin();
  });
}

TEST(EqualCallsTest, ReturnedValuesArePartOfTheIdentity) {
  const auto body = [](const at::Tensor& x, const at::Tensor& y, bool is_special) {
    std::pair<at::Tensor, at::Tensor> values{x.sin(), y.cos()};
    if (is_special) std::swap(values.first, values.second);
    return values;
  };
  const aot::TensorFunction function = [body](const Tensors& x) {
    std::pair<at::Tensor, at::Tensor> values{x[0], x[1]};
    for (const bool is_special : {false, true, false, true}) {
      values =
          COTAN_BLOCK([&](at::Tensor a, at::Tensor b) { return body(a, b, is_special); }, values.first, values.second);
    }
    return Tensors{values.first, values.second};
  };
  const Tensors inputs{Leaf(1, {3, 4}), Leaf(2, {3, 4})};
  const aot::CompiledModel model = Compiling(function, inputs);
  EXPECT_GE(CountBlocks(model).blocks, 4);  // and repeats of several calls
  ExpectEager(function, model, inputs);
}

TEST(EqualCallsTest, GradModeIsPartOfTheIdentity) {
  ExpectTwoKinds([](const at::Tensor& x, bool is_special) {
    const at::AutoGradMode mode(!is_special);
    const at::Tensor y = x.sin();
    const at::AutoGradMode enabled(true);
    return x * y;
  });
}

// An op that differs ends the body between the two calls.
TEST(EqualCallsTest, ModesThatTheBodySetsEndWithTheComparison) {
  ExpectTwoKinds([](const at::Tensor& x, bool is_special) {
    at::GradMode::set_enabled(false);
    const at::Tensor y = is_special ? x.cos() : x.sin();
    at::GradMode::set_enabled(true);
    return (x * y).sin();
  });
}

TEST(EqualCallsTest, TheDefaultDtypeIsPartOfTheIdentity) {
  ExpectTwoKinds([](const at::Tensor& x, bool is_special) {
    const caffe2::TypeMeta before = at::get_default_dtype();
    at::set_default_dtype(caffe2::TypeMeta::fromScalarType(is_special ? torch::kDouble : torch::kFloat));
    const at::Tensor thirds = torch::arange(4, torch::kLong) / 3;
    at::set_default_dtype(before);
    return (x * thirds).sin();
  });
}

// A tensor of the body that is read after it.
TEST(EqualCallsTest, CallsThatKeepATensorAreTraced) {
  at::Tensor kept;
  const aot::TensorFunction function = [&kept](const Tensors& x) {
    at::Tensor y = x[0];
    for (const bool keeps : {false, true}) {
      y = COTAN_BLOCK(
          [&](at::Tensor t) {
            const at::Tensor z = t.sin();
            if (keeps) kept = z;
            return z * 2;
          },
          y);
    }
    y = y + kept;
    kept.reset();
    return Tensors{y};
  };
  const aot::CompiledModel model = Compiling(function, {Leaf(1, {3, 4})});
  EXPECT_EQ(model.inlined_blocks().size(), 1u);
  ExpectEager(function, model, {Leaf(1, {3, 4})});
}

TEST(EqualCallsTest, GradientsInTheBodyArePartOfTheIdentity) {
  ExpectTwoKinds([](const at::Tensor& x, bool is_special) {
    const at::Tensor y = x.detach().requires_grad_();
    const at::Tensor slope = torch::autograd::grad({(y * y).sin()}, {y}, {torch::ones_like(y)})[0];
    return x * slope + (is_special ? x.cos() : x.sin());
  });
}

TEST(EqualCallsTest, AStorageThatTheBodyAsksForIsTraced) {
  ExpectTwoKinds([](const at::Tensor& x, bool is_special) {
    const at::Tensor y = x.sin(), z = is_special ? y.view_as(y) : y.cos();
    return z.is_alias_of(y) ? z * 2 : z * 3;
  });
}

TEST(EqualCallsTest, ContentsOfNewTensorsArePartOfTheIdentity) {
  ExpectTwoKinds([](const at::Tensor& x, bool is_special) {
    return x * torch::tensor({is_special ? 2.0 : 3.0, 1.0, 1.0, 4.0}, torch::kDouble);
  });
}

TEST(EqualCallsTest, WritesArePartOfTheIdentity) {
  ExpectTwoKinds([](const at::Tensor& x, bool is_special) {
    const at::Tensor y = x.sin(), z = y.clone();
    (is_special ? y : z).mul_(2);
    return y * z;
  });
}

// The forward calls the op that others call without it.
struct DoubledGradient : torch::autograd::Function<DoubledGradient> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& x) { return x.clone(); }
  static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
    return {gradients[0] * 2};
  }
};

TEST(EqualCallsTest, CustomGradientsArePartOfTheIdentity) {
  ExpectTwoKinds([](const at::Tensor& x, bool is_special) {
    const at::Tensor y = x.sin();
    return (is_special ? DoubledGradient::apply(y) : y.clone()).cos();
  });
}

TEST(EqualCallsTest, CustomGradientsOfTheFirstCallArePartOfTheIdentity) {
  ExpectTwoKinds([](const at::Tensor& x, bool is_special) {
    const at::Tensor y = x.sin();
    return (is_special ? y.clone() : DoubledGradient::apply(y)).cos();
  });
}

// The forward calls no op.
struct DoubledGradientOfView : torch::autograd::Function<DoubledGradientOfView> {
  static at::Tensor forward(AutogradContext* /*context*/, const at::Tensor& x) { return x; }
  static variable_list backward(AutogradContext* /*context*/, const variable_list& gradients) {
    return {gradients[0] * 2};
  }
};

TEST(EqualCallsTest, CustomGradientsOfViewsArePartOfTheIdentity) {
  for (const bool is_first : {false, true}) {
    ExpectTwoKinds([is_first](const at::Tensor& x, bool is_special) {
      const at::Tensor y = x.sin();
      return (is_special == is_first ? y.view_as(y) : DoubledGradientOfView::apply(y)).cos();
    });
  }
}

TEST(EqualCallsTest, HooksArePartOfTheIdentity) {
  for (const bool is_first : {false, true}) {
    ExpectTwoKinds([is_first](const at::Tensor& x, bool is_special) {
      const at::Tensor y = x.sin();
      if (is_special != is_first) y.register_hook([](const at::Tensor& gradient) { return gradient * 2; });
      return y.cos();
    });
  }
}

// Only a call of the node's own function sees the hook.
TEST(EqualCallsTest, HooksOfNodesArePartOfTheIdentity) {
  struct Doubled : torch::autograd::FunctionPostHook {
    variable_list operator()(const variable_list& outputs, const variable_list& /*inputs*/) override {
      variable_list doubled;
      for (const at::Tensor& output : outputs) doubled.push_back(output.defined() ? output * 2 : output);
      return doubled;
    }
  };
  for (const bool is_first : {false, true}) {
    ExpectTwoKinds([is_first](const at::Tensor& x, bool is_special) {
      const at::Tensor y = x.sin();
      if (is_special != is_first && y.grad_fn() != nullptr) y.grad_fn()->add_post_hook(std::make_unique<Doubled>());
      return y.cos();
    });
  }
}

// A block that calls another one is compared by its trace.
TEST(EqualCallsTest, BlocksInBlocksArePartOfTheIdentity) {
  const auto inner = [](at::Tensor x, double factor) {
    return COTAN_BLOCK([factor](at::Tensor t) { return (t * factor).sin(); }, x);
  };
  const aot::TensorFunction function = EveryOther(
      [inner](const at::Tensor& x, bool is_special) { return inner(x.cos(), is_special ? 2.0 : 3.0).exp(); });
  const aot::CompiledModel model = Compiling(function, {Leaf(1, {3, 4})});
  ExpectEager(function, model, {Leaf(1, {3, 4})});
}

}  // namespace
}  // namespace cotan::testing
