// SPDX-License-Identifier: Apache-2.0

// Cases of the AOTAutograd corpus: parts of training steps.
#include "testing/conformance/corpus/aotautograd_table.h"
#include "testing/conformance/harness/case_flags.h"
#include "testing/conformance/harness/conf_case.h"

namespace cotan::conformance {

void AppendTrainingCases(std::vector<ConfCase>& t) {
  // --- running_stats

  // return torch.batch_norm(x, w, b, m, v, True, 0.1, 1e-5, False)
  t.push_back(Case(
      "batch_norm_train_momentum", "running_stats",
      []() -> Tensors {
        at::Tensor x = leaf(0, {4, 3});
        at::Tensor w = leaf(1, {3});
        at::Tensor b = leaf(2, {3});
        at::Tensor m = buf(3, {3});
        at::Tensor v = buf(4, {3}).abs();
        return {x, w, b, m, v};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor w = in[1];
        at::Tensor b = in[2];
        at::Tensor m = in[3];
        at::Tensor v = in[4];
        return {at::batch_norm(x, w, b, m, v, true, 0.1, 1e-05, false)};
      }));
  // return torch.batch_norm(x, w, b, m, v, False, 0.1, 1e-5, False)
  t.push_back(Case(
      "batch_norm_eval", "running_stats",
      []() -> Tensors {
        at::Tensor x = leaf(0, {4, 3});
        at::Tensor w = leaf(1, {3});
        at::Tensor b = leaf(2, {3});
        at::Tensor m = buf(3, {3});
        at::Tensor v = buf(4, {3}).abs();
        return {x, w, b, m, v};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor w = in[1];
        at::Tensor b = in[2];
        at::Tensor m = in[3];
        at::Tensor v = in[4];
        return {at::batch_norm(x, w, b, m, v, false, 0.1, 1e-05, false)};
      }));
  // return torch.batch_norm(x, None, None, None, None, True, 0.1, 1e-5, False)
  t.push_back(Case(
      "batch_norm_train_without_stats", "running_stats",
      []() -> Tensors {
        at::Tensor x = leaf(0, {4, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {at::batch_norm(x, {}, {}, {}, {}, true, 0.1, 1e-05, false)};
      }));
  // return torch.batch_norm(x, w, b, m, v, True, 0.1, 1e-5, False)
  t.push_back(WithoutGrad(Case(
      "batch_norm_train_whole_call_no_grad", "running_stats",
      []() -> Tensors {
        at::Tensor x = leaf(0, {4, 3});
        at::Tensor w = leaf(1, {3});
        at::Tensor b = leaf(2, {3});
        at::Tensor m = buf(3, {3});
        at::Tensor v = buf(4, {3}).abs();
        return {x, w, b, m, v};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor w = in[1];
        at::Tensor b = in[2];
        at::Tensor m = in[3];
        at::Tensor v = in[4];
        return {at::batch_norm(x, w, b, m, v, true, 0.1, 1e-05, false)};
      })));
  // m.lerp_(x.detach().mean([0]), 0.1) | return x - m
  t.push_back(Case(
      "running_average_with_lerp", "running_stats",
      []() -> Tensors {
        at::Tensor x = leaf(0, {4, 3});
        at::Tensor m = buf(3, {3});
        return {x, m};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor m = in[1];
        m.lerp_(x.detach().mean(at::IntArrayRef({0})), 0.1);
        return {(x - m)};
      }));

  // --- rng

  // return torch.dropout(x, 0.5, True)
  t.push_back(Random(Case(
      "dropout_train", "rng",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {at::dropout(x, 0.5, true)};
      })));
  // return torch.dropout(x, 0.5, False), x * 2
  t.push_back(Random(Case(
      "dropout_eval_returns_input", "rng",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {at::dropout(x, 0.5, false), (x * 2)};
      })));
  // return x * torch.rand_like(x)
  t.push_back(Random(Case(
      "rand_like_added", "rng",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {(x * at::rand_like(x))};
      })));
  // b.bernoulli_(0.5) | return x * b
  t.push_back(Random(Case(
      "bernoulli_inplace_on_buffer", "rng",
      []() -> Tensors {
        at::Tensor b = buf(0, {2, 3});
        at::Tensor x = leaf(1, {2, 3});
        return {b, x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor b = in[0];
        at::Tensor x = in[1];
        b.bernoulli_(0.5);
        return {(x * b)};
      })));

  // --- optimizer

  // with torch.no_grad(): |     p.add_(q, alpha=-0.5) | return []
  t.push_back(Case(
      "sgd_plain_step", "optimizer",
      []() -> Tensors {
        at::Tensor p = leaf(0, {3});
        at::Tensor q = buf(1, {3});
        return {p, q};
      },
      [](Tensors in) -> Tensors {
        at::Tensor p = in[0];
        at::Tensor q = in[1];
        {
          at::NoGradGuard guard;
          p.add_(q, -0.5);
        }
        return {};
      }));
  // with torch.no_grad(): |     q.add_(p, alpha=0.01) |     p.sub_(q * 0.5) | return []
  t.push_back(Case(
      "sgd_weight_decay_grad_buffer_mutated", "optimizer",
      []() -> Tensors {
        at::Tensor p = leaf(0, {3});
        at::Tensor q = buf(1, {3});
        return {p, q};
      },
      [](Tensors in) -> Tensors {
        at::Tensor p = in[0];
        at::Tensor q = in[1];
        {
          at::NoGradGuard guard;
          q.add_(p, 0.01);
          p.sub_((q * 0.5));
        }
        return {};
      }));
  // p.add_(q, alpha=-0.5) | return p.sum()
  t.push_back(WithoutGrad(Case(
      "step_whole_call_no_grad", "optimizer",
      []() -> Tensors {
        at::Tensor p = leaf(0, {3});
        at::Tensor q = buf(1, {3});
        return {p, q};
      },
      [](Tensors in) -> Tensors {
        at::Tensor p = in[0];
        at::Tensor q = in[1];
        p.add_(q, -0.5);
        return {p.sum()};
      })));
  // y = (x * p).sum() | with torch.no_grad(): |     p.mul_(0.5) | return y
  t.push_back(Case(
      "loss_and_step_in_one_graph", "optimizer",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        at::Tensor p = leaf(1, {3});
        return {x, p};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor p = in[1];
        at::Tensor y = (x * p).sum();
        {
          at::NoGradGuard guard;
          p.mul_(0.5);
        }
        return {y};
      }));
  // with torch.no_grad(): |     a.zero_() |     b.zero_() | return []
  t.push_back(Case(
      "zero_grad_buffers", "optimizer",
      []() -> Tensors {
        at::Tensor x = buf(0, {2, 3});
        at::Tensor y = buf(1, {2, 3});
        return {x, y};
      },
      [](Tensors in) -> Tensors {
        at::Tensor a = in[0];
        at::Tensor b = in[1];
        {
          at::NoGradGuard guard;
          a.zero_();
          b.zero_();
        }
        return {};
      }));

  // --- dynamic_shapes

  // return (x.expand_as(y) * y).sum([0])
  t.push_back(Case(
      "expand_saves_size", "dynamic_shapes",
      []() -> Tensors {
        at::Tensor x = leaf(0, {3});
        at::Tensor y = leaf(1, {2, 3});
        return {x, y};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        at::Tensor y = in[1];
        return {(x.expand_as(y) * y).sum(at::IntArrayRef({0}))};
      }));
  // return (x * 2).view([x.shape[1], x.shape[0]]), x.sum([0])
  t.push_back(Case(
      "view_by_symbolic_sizes", "dynamic_shapes",
      []() -> Tensors {
        at::Tensor x = leaf(0, {2, 3});
        return {x};
      },
      [](Tensors in) -> Tensors {
        at::Tensor x = in[0];
        return {(x * 2).view({x.size(1), x.size(0)}), x.sum(at::IntArrayRef({0}))};
      }));
}

}  // namespace cotan::conformance
