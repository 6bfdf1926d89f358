// SPDX-License-Identifier: Apache-2.0

// Functions of torch::autograd::Function in all their forms, and hooks that a function adds to what it computes. As in
// custom_functions.h, most backwards are deliberately not the derivatives.
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include "testing/conformance/harness/custom_functions.h"
#include "testing/conformance/regressions/eager_cases.h"

namespace cotan::conformance {
namespace {

using Context = torch::autograd::AutogradContext;
template <typename Derived>
using Function = torch::autograd::Function<Derived>;

struct ReturnsArgument : Function<ReturnsArgument> {
  static at::Tensor forward(Context*, at::Tensor x) { return x; }
  static Tensors backward(Context*, Tensors g) { return {g[0] * 5}; }
};

struct ReturnsArgumentAndDouble : Function<ReturnsArgumentAndDouble> {
  static Tensors forward(Context*, at::Tensor x) { return {x, x * 2}; }
  static Tensors backward(Context*, Tensors g) { return {g[0] * 5 + g[1] * 7}; }
};

struct ReturnsOneTwice : Function<ReturnsOneTwice> {
  static Tensors forward(Context*, at::Tensor x) {
    const at::Tensor y = x * 3;
    return {y, y};
  }
  static Tensors backward(Context*, Tensors g) { return {g[0] * 2 + g[1] * 3}; }
};

struct ReturnsIntegers : Function<ReturnsIntegers> {
  static Tensors forward(Context*, at::Tensor x) { return {x * 2, x.argmax(1)}; }
  static Tensors backward(Context*, Tensors g) { return {g[0] * 5}; }
};

struct GivesNoGradient : Function<GivesNoGradient> {
  static at::Tensor forward(Context*, at::Tensor x) { return x * 2; }
  static Tensors backward(Context*, Tensors) { return {at::Tensor()}; }
};

// Computes its forward again in the backward.
struct Checkpointed : Function<Checkpointed> {
  static at::Tensor Compute(const at::Tensor& x, const at::Tensor& w) { return (x * w).sin() * w; }
  static at::Tensor forward(Context* context, at::Tensor x, at::Tensor w) {
    context->save_for_backward({x, w});
    return Compute(x, w);
  }
  static Tensors backward(Context* context, Tensors g) {
    Tensors inputs;
    for (const at::Tensor& saved : context->get_saved_variables()) {
      inputs.push_back(saved.detach().requires_grad_());
    }
    const at::AutoGradMode enabled(true);
    return torch::autograd::grad({Compute(inputs[0], inputs[1])}, inputs, {g[0]});
  }
};

struct CallsAnother : Function<CallsAnother> {
  static at::Tensor forward(Context*, at::Tensor x) { return custom_saved(x) * 2; }
  static Tensors backward(Context*, Tensors g) { return {g[0] * 11}; }
};

struct OfList : Function<OfList> {
  static at::Tensor forward(Context*, at::TensorList x) { return x[0] + 2 * x[1]; }
  static Tensors backward(Context*, Tensors g) { return {g[0] * 3, g[0] * 4}; }
};

struct AsksForNeeds : Function<AsksForNeeds> {
  static at::Tensor forward(Context* context, at::Tensor x, at::Tensor y) {
    context->save_for_backward({x, y});
    return x * y;
  }
  static Tensors backward(Context* context, Tensors g) {
    const Tensors saved = context->get_saved_variables();
    Tensors gradients(2);
    if (context->needs_input_grad(0)) gradients[0] = g[0] * saved[1];
    if (context->needs_input_grad(1)) gradients[1] = g[0] * saved[0];
    return gradients;
  }
};

struct WritesAndSums : Function<WritesAndSums> {
  static Tensors forward(Context* context, at::Tensor x) {
    x.mul_(2);
    context->mark_dirty({x});
    return {x, x.sum()};
  }
  static Tensors backward(Context*, Tensors g) { return {g[0] * 2 + g[1] * 3}; }
};

struct SavesResult : Function<SavesResult> {
  static at::Tensor forward(Context* context, at::Tensor x) {
    const at::Tensor y = x.exp();
    context->save_for_backward({y});
    return y;
  }
  static Tensors backward(Context* context, Tensors g) { return {g[0] * context->get_saved_variables()[0]}; }
};

struct SavesWhatItWritesLater : Function<SavesWhatItWritesLater> {
  static at::Tensor forward(Context* context, at::Tensor x) {
    at::Tensor y = x * 2;
    context->save_for_backward({y});
    y.add_(1);
    return y * 3;
  }
  static Tensors backward(Context* context, Tensors g) { return {g[0] * context->get_saved_variables()[0]}; }
};

struct ChangesItsTangent : Function<ChangesItsTangent> {
  static at::Tensor forward(Context*, at::Tensor x) { return x * 2; }
  static Tensors backward(Context*, Tensors g) {
    g[0].mul_(3);
    return {g[0] * 2};
  }
};

// Keeps its argument where no version is checked.
struct KeepsArgument : Function<KeepsArgument> {
  static at::Tensor forward(Context* context, at::Tensor x) {
    context->saved_data["x"] = x;
    return x * 2;
  }
  static Tensors backward(Context* context, Tensors g) { return {g[0] * context->saved_data["x"].toTensor()}; }
};

struct ReturnsViewOfIntermediate : Function<ReturnsViewOfIntermediate> {
  static at::Tensor forward(Context*, at::Tensor x) { return (x * 2).view({-1}); }
  static Tensors backward(Context*, Tensors g) { return {g[0].reshape({2, 3}) * 5}; }
};

// Returns a gradient that is summed over rows, in f64.
struct GivesWiderGradient : Function<GivesWiderGradient> {
  static at::Tensor forward(Context*, at::Tensor x, at::Tensor y) { return x * y; }
  static Tensors backward(Context*, Tensors g) { return {g[0].to(at::kDouble) * 5, g[0] * 7}; }
};

std::vector<ConfCase> ResultCases() {
  return {
      Case("custom_returns_its_argument", Leaf,
           [](Tensors in) -> Tensors {
             return {ReturnsArgument::apply(in[0]), in[0] * 2};
           }),
      Case("custom_returns_a_computed_argument", Computed,
           [](Tensors in) -> Tensors { return {ReturnsArgument::apply(in[0])}; }),
      Case("custom_returns_an_intermediate_that_it_gets", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             return {ReturnsArgument::apply(y), y, y.t()};
           }),
      Case("custom_returned_argument_is_written", Computed,
           [](Tensors in) -> Tensors {
             at::Tensor y = ReturnsArgument::apply(in[0]);
             y.mul_(2);
             return {y * 3};
           }),
      Case("custom_returns_its_argument_and_its_double", Computed,
           [](Tensors in) -> Tensors { return ReturnsArgumentAndDouble::apply(in[0]); }),
      LossOf({0}, Case("custom_argument_of_two_results_alone_in_the_loss", Leaf,
                       [](Tensors in) -> Tensors { return ReturnsArgumentAndDouble::apply(in[0]); })),
      Case("custom_returns_one_tensor_twice", Leaf,
           [](Tensors in) -> Tensors { return ReturnsOneTwice::apply(in[0]); }),
      Case("custom_returns_integers", Leaf, [](Tensors in) -> Tensors { return ReturnsIntegers::apply(in[0]); }),
      Case("custom_returns_a_view_of_an_intermediate", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = ReturnsViewOfIntermediate::apply(in[0]);
             return {y, y.slice(0, 1, 4)};
           }),
      Case("custom_view_of_an_intermediate_is_written", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor y = ReturnsViewOfIntermediate::apply(in[0]);
             y.mul_(2);
             return {y};
           }),
      Case("custom_writes_and_returns_a_sum", Computed,
           [](Tensors in) -> Tensors {
             const Tensors both = WritesAndSums::apply(in[0]);
             return {both[0] * 2, both[1]};
           }),
      Case("custom_writes_a_row_and_returns_a_sum", Computed,
           [](Tensors in) -> Tensors {
             at::Tensor y = in[0] * 1;
             const Tensors both = WritesAndSums::apply(y.select(0, 1));
             return {y, both[1]};
           }),
  };
}

std::vector<ConfCase> BackwardCases() {
  const auto vector_and_rows = [] { return Tensors{leaf(0, {3}), leaf(1, {2, 3})}; };
  return {
      Case("custom_gives_no_gradient", TwoLeaves,
           [](Tensors in) -> Tensors { return {GivesNoGradient::apply(in[0]) + in[1]}; }),
      Case("custom_gives_no_gradient_beside_another_use", Leaf,
           [](Tensors in) -> Tensors { return {GivesNoGradient::apply(in[0]) * in[0]}; }),
      Case("custom_computes_its_forward_again", TwoLeaves,
           [](Tensors in) -> Tensors { return {Checkpointed::apply(in[0], in[1]) * 2}; }),
      Case("custom_computes_a_chain_again", TwoLeaves,
           [](Tensors in) -> Tensors {
             const at::Tensor y = Checkpointed::apply(in[0] * 2, in[1]);
             return {Checkpointed::apply(y, in[1]), y.t()};
           }),
      Case("custom_calls_another", Leaf, [](Tensors in) -> Tensors { return {CallsAnother::apply(in[0])}; }),
      Case("custom_of_a_list", TwoLeaves, [](Tensors in) -> Tensors { return {OfList::apply(at::TensorList(in))}; }),
      Case("custom_asks_which_gradients_are_needed", BufferAndLeaf,
           [](Tensors in) -> Tensors {
             return {AsksForNeeds::apply(in[0], in[1]), AsksForNeeds::apply(in[1], in[1] * 2)};
           }),
      Case("custom_saves_its_result", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = SavesResult::apply(in[0]);
             return {y, y * 2, y.t()};
           }),
      Case("custom_saved_result_is_written", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor y = SavesResult::apply(in[0]);
             y.mul_(2);
             return {y};
           }),
      Case("custom_saves_what_it_writes_later", Leaf,
           [](Tensors in) -> Tensors { return {SavesWhatItWritesLater::apply(in[0])}; }),
      Case("custom_changes_its_tangent", Leaf,
           [](Tensors in) -> Tensors { return {ChangesItsTangent::apply(in[0]).sin()}; }),
      Case("custom_changes_a_tangent_that_a_leaf_shares", Leaf,
           [](Tensors in) -> Tensors { return {ChangesItsTangent::apply(in[0]) + in[0]}; }),
      Case("custom_keeps_its_argument_that_is_written", Computed,
           [](Tensors in) -> Tensors {
             const at::Tensor y = KeepsArgument::apply(in[0]);
             in[0].mul_(3);
             return {y};
           }),
      Case("custom_keeps_an_intermediate_that_is_written", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor x = in[0] * 1;
             const at::Tensor y = KeepsArgument::apply(x);
             x.mul_(3);
             return {y, x};
           }),
      Case("custom_gives_a_wider_gradient", vector_and_rows,
           [](Tensors in) -> Tensors { return {GivesWiderGradient::apply(in[0], in[1])}; }),
  };
}

std::vector<ConfCase> HookCases() {
  return {
      AfterBackward(Case("hook_writes_a_buffer", BufferAndLeaf,
                         [](Tensors in) -> Tensors {
                           const at::Tensor y = in[1] * 2;
                           y.register_hook([b = in[0]](const at::Tensor& g) { b.add_(g); });
                           return {y * 3};
                         })),
      Case("hooks_of_both_versions_of_a_result", Leaf,
           [](Tensors in) -> Tensors {
             at::Tensor y = in[0] * 2;
             y.register_hook([](const at::Tensor& g) { return g * 3; });
             y.mul_(4);
             y.register_hook([](const at::Tensor& g) { return g + 1; });
             return {y * 1};
           }),
      Case("hook_of_a_view_of_an_intermediate", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             const at::Tensor v = y.t();
             v.register_hook([](const at::Tensor& g) { return g * 5; });
             return {v.sin(), y.cos()};
           }),
      Case("hook_that_is_removed", Leaf,
           [](Tensors in) -> Tensors {
             const at::Tensor y = in[0] * 2;
             const unsigned hook = y.register_hook([](const at::Tensor& g) { return g * 5; });
             y.register_hook([](const at::Tensor& g) { return g * 7; });
             y.remove_hook(hook);
             return {y.sin()};
           }),
      LossOf({1}, Case("hook_of_a_value_that_is_not_in_the_loss", Leaf,
                       [](Tensors in) -> Tensors {
                         const at::Tensor y = in[0] * 2;
                         y.register_hook([](const at::Tensor& g) { return g + 1; });
                         return {y.sin(), in[0] * 3};
                       })),
  };
}

}  // namespace

std::vector<ConfCase> CustomFunctionCases() {
  std::vector<ConfCase> cases = ResultCases();
  for (const std::vector<ConfCase>& more : {BackwardCases(), HookCases()}) {
    cases.insert(cases.end(), more.begin(), more.end());
  }
  return cases;
}

}  // namespace cotan::conformance
