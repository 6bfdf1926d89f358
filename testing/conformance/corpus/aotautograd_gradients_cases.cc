// SPDX-License-Identifier: Apache-2.0

// Cases of the AOTAutograd corpus: requires_grad, grad mode, tangents.
#include "testing/conformance/corpus/aotautograd_table.h"
#include "testing/conformance/harness/case_flags.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

void AppendGradientsCases(std::vector<ConfCase>& t) {
  // --- plain

  // return x.sin(), y.cos()
  t.push_back(Case(
      "two_outputs_mixed_requires_grad", "plain",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        at::Tensor y = buf(1, {3});
        return {x, y};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        return {x.sin(), y.cos()};
      }));
  // return x + y * 2
  t.push_back(Case(
      "inference_no_input_requires_grad", "plain",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        at::Tensor y = buf(1, {2, 3});
        return {x, y};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        return {(x + (y * 2))};
      }));
  // return torch.addmm(b, x, w).relu()
  t.push_back(Case(
      "linear_relu_weights_and_data", "plain",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        at::Tensor w = leaf(1, {3, 4});
        at::Tensor b = leaf(2, {4});
        return {x, w, b};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor w = in[1];
        at::Tensor b = in[2];
        return {at::addmm(b, x, w).relu()};
      }));
  // return x * 3 + 1
  t.push_back(Case(
      "zero_dim_leaf", "plain",
      []() -> Tensors {
        at::Tensor x = leaf(0, {});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {((x * 3) + 1)};
      }));
  // return x * x
  t.push_back(Case(
      "complex_square", "plain",
      []() -> Tensors {
        at::Tensor x = leaf(0, {3}, at::kComplexFloat);
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {(x * x)};
      }));
  // return torch.log_softmax(x, 1)
  t.push_back(Case(
      "log_softmax_rows", "plain",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {at::log_softmax(x, 1)};
      }));
  // return x * 2
  t.push_back(Case(
      "unused_leaf_input", "plain",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        at::Tensor y = leaf(1, {2, 3});
        return {x, y};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        return {(x * 2)};
      }));
  // return torch.ones([2]), x * 2
  t.push_back(Case(
      "constant_output_next_to_computed", "plain",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {at::ones(at::IntArrayRef({2})), (x * 2)};
      }));
  // return torch.where(m, x * 2, y)
  t.push_back(Case(
      "where_with_bool_input", "plain",
      []() -> Tensors {
        at::Tensor m = buf(0, {2, 3}, at::kBool);
        at::Tensor x = leaf(1, {2, 3});
        at::Tensor y = leaf(2, {2, 3});
        return {m, x, y};
      },
      [](Tensors in) -> Tensors {
        at::Tensor m = in[0];
        at::Tensor x = in[1];
        at::Tensor y = in[2];
        return {at::where(m, (x * 2), y)};
      }));
  // return (x @ x).tanh()
  t.push_back(Case(
      "matmul_square_reuse", "plain",
      []() -> Tensors {
        at::Tensor x = leaf(0, {3, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {at::matmul(x, x).tanh()};
      }));
  // return x - x.mean([1], True)
  t.push_back(Case(
      "mean_over_dim_keepdim", "plain",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {(x - x.mean(at::IntArrayRef({1}), true))};
      }));

  // --- requires_grad

  // return x.sin(), x.cos().detach()
  t.push_back(Case(
      "one_output_detached", "requires_grad",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.sin(), x.cos().detach()};
      }));
  // with torch.no_grad(): |     y = x.cos() | return x.sin(), y
  t.push_back(Case(
      "one_output_computed_under_no_grad", "requires_grad",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y;
        {
          at::NoGradGuard guard;
          y = x.cos();
        }
        return {x.sin(), y};
      }));
  // with torch.enable_grad(): |     y = x * 2 | return y, x * 3
  t.push_back(WithoutGrad(Case(
      "enable_grad_inside_no_grad_call", "requires_grad",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y;
        {
          at::AutoGradMode guard(true);
          y = (x * 2);
        }
        return {y, (x * 3)};
      })));
  // y = x.sin() | return y.detach() * x
  t.push_back(Case(
      "gradient_stopped_midway", "requires_grad",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = x.sin();
        return {(y.detach() * x)};
      }));
  // return x * y, x + 1
  t.push_back(Case(
      "integer_input_and_float_leaf", "requires_grad",
      []() -> Tensors {
        at::Tensor x = buf(0, {3}, at::kLong);
        at::Tensor y = leaf(1, {3});
        return {x, y};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        return {(x * y), (x + 1)};
      }));
  // w = torch.ones([2, 3]).requires_grad_(True) | return x * w
  t.push_back(Case(
      "new_leaf_created_inside", "requires_grad",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor w = at::ones(at::IntArrayRef({2, 3})).requires_grad_(true);
        return {(x * w)};
      }));
  // y = x * 2 | return y, y.detach()
  t.push_back(Case(
      "output_is_detached_intermediate_and_itself", "requires_grad",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        return {y, y.detach()};
      }));

  // --- grad_mode

  // y = x * 2 | torch.set_grad_enabled(False) | return y
  t.push_back(Case(
      "grad_disabled_at_end_training", "grad_mode",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = (x * 2);
        at::GradMode::set_enabled(false);
        return {y};
      }));
  // torch.set_grad_enabled(False) | return x * 2
  t.push_back(Case(
      "grad_disabled_inference_inputs", "grad_mode",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::GradMode::set_enabled(false);
        return {(x * 2)};
      }));
  // torch.set_grad_enabled(True) | return x * 2
  t.push_back(WithoutGrad(Case(
      "grad_enabled_inside_no_grad_call", "grad_mode",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::GradMode::set_enabled(true);
        return {(x * 2)};
      })));
  // torch.set_grad_enabled(False) | y = x * 2 | torch.set_grad_enabled(True) | return y * x
  t.push_back(Case(
      "grad_toggled_and_restored", "grad_mode",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::GradMode::set_enabled(false);
        at::Tensor y = (x * 2);
        at::GradMode::set_enabled(true);
        return {(y * x)};
      }));

  // --- backward_tangents

  // return x.sin()
  t.push_back(Case(
      "channels_last_input_contiguous_tangent", "backward_tangents",
      []() -> Tensors {
        at::Tensor r = leaf(0, {1, 2, 2, 3});
        return {r.contiguous(at::MemoryFormat::ChannelsLast)};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {x.sin()};
      }));
  // return x * y, x.sin()
  t.push_back(LossOf({0}, Case(
                              "second_output_unused_in_loss", "backward_tangents",
                              []() -> Tensors {
                                at::Tensor x = leaf(0, {2, 3});
                                at::Tensor y = leaf(1, {2, 3});
                                return {x, y};
                              },
                              [](Tensors in) -> Tensors {
                                at::Tensor x = in[0];
                                at::Tensor y = in[1];
                                return {(x * y), x.sin()};
                              })));
  // return x * y, x.sin()
  t.push_back(LossOf({1}, Case(
                              "first_output_unused_in_loss", "backward_tangents",
                              []() -> Tensors {
                                at::Tensor x = leaf(0, {2, 3});
                                at::Tensor y = leaf(1, {2, 3});
                                return {x, y};
                              },
                              [](Tensors in) -> Tensors {
                                at::Tensor x = in[0];
                                at::Tensor y = in[1];
                                return {(x * y), x.sin()};
                              })));
  // y = x * 2 | return y.t(), y.view([-1])
  t.push_back(LossOf({1}, Case(
                              "one_view_of_intermediate_unused", "backward_tangents",
                              []() -> Tensors {
                                at::Tensor x = leaf(0, {2, 3});
                                return {x};
                              },
                              [](Tensors in) -> Tensors {
                                at::Tensor x = in[0];
                                at::Tensor y = (x * 2);
                                return {y.t(), y.view(at::IntArrayRef({-1}))};
                              })));
  // x.mul_(2) | return x * 3
  t.push_back(LossOf({}, Case(
                             "only_mutated_input_used_in_loss", "backward_tangents",
                             []() -> Tensors {
                               at::Tensor r = leaf(0, {2, 3});
                               at::Tensor x = r.clone();
                               return {x};
                             },
                             [](Tensors in) -> Tensors {
                               at::Tensor x = in[0];
                               x.mul_(2);
                               return {(x * 3)};
                             })));
  // x.mul_(2) | return x * 3
  t.push_back(WithoutLossInputs(Case(
      "mutated_input_not_used_in_loss", "backward_tangents",
      []() -> Tensors {
        at::Tensor r = leaf(0, {2, 3});
        at::Tensor x = r.clone();
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        x.mul_(2);
        return {(x * 3)};
      })));
  // return (x * x).sum()
  t.push_back(Case(
      "scalar_loss_output", "backward_tangents",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {(x * x).sum()};
      }));
  // return x.exp().log() * x
  t.push_back(Case(
      "double_precision_chain", "backward_tangents",
      []() -> Tensors {
        at::Tensor x = leaf(0, {3}, at::kDouble);
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {(x.exp().log() * x)};
      }));
  // y = x * 2 | return y[0:2], y[1:3]
  t.push_back(Tangents("transposed", Case(
                                         "transposed_tangent_for_intermediate_views", "backward_tangents",
                                         []() -> Tensors {
                                           at::Tensor x = leaf(0, {4, 3});
                                           return {x};
                                         },
                                         [](Tensors in) -> Tensors {
                                           at::Tensor x = in[0];
                                           at::Tensor y = (x * 2);
                                           return {y.slice(0, 0, 2, 1), y.slice(0, 1, 3, 1)};
                                         })));
  // y = x.sigmoid() | return y, y * x
  t.push_back(Case(
      "saved_tensor_is_input_and_output", "backward_tangents",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = x.sigmoid();
        return {y, (y * x)};
      }));
  // return x.expand([2, 3]) * 1.0, x.sum().expand([4])
  t.push_back(Case(
      "expanded_output_tangent", "backward_tangents",
      []() -> Tensors {
        at::Tensor x = leaf(0, {3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {(x.expand(at::IntArrayRef({2, 3})) * 1.0), x.sum().expand(at::IntArrayRef({4}))};
      }));
}

}  // namespace cotan::conformance
