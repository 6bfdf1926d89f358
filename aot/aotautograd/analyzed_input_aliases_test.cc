// SPDX-License-Identifier: Apache-2.0

// Outputs that alias inputs.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include "aot/aotautograd/metadata_summary.h"

namespace cotan::aot {
namespace {

struct Halved : torch::autograd::Function<Halved> {
  static at::Tensor forward(torch::autograd::AutogradContext*, at::Tensor x) { return x.view({-1}); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * 0.5};
  }
};

TEST(AnalyzedInputAliasesTest, ViewsOfAnInput) {
  Check({
      {"a view",
       {NonLeaf({2, 2})},
       [](const Tensors& in) { return Tensors{in[0].view({-1})}; },
       "- | IN0[view]* |  | INF"},
      {"as_strided",
       {NonLeaf({4})},
       [](const Tensors& in) {
         return Tensors{in[0].as_strided({2, 2}, {1, 1})};
       },
       "- | IN0[as_strided]* |  | INF"},
      {"a view that requires grad",
       {Plain({4}), Leaf({4})},
       [](const Tensors& in) {
         return Tensors{in[0].view({2, 2}).requires_grad_(true)};
       },
       "- - | IN0[view]^ |  | TR"},
      {"a view of a view",
       {NonLeaf({3, 2})},
       [](const Tensors& in) {
         in[0].mul_(2);
         const at::Tensor t = in[0].t();
         return Tensors{t, t.select(0, 0).detach()};
       },
       "OG:d | IN0[permute]* IN0[permute,select,detach] | IM0 | TR"},
      {"a new tensor without inputs", {}, [](const Tensors&) { return Tensors{at::ones({2})}; }, " | NA |  | INF"},
  });
}

TEST(AnalyzedInputAliasesTest, TheInputItself) {
  Check({
      {"itself",
       {Leaf({2})},
       [](const Tensors& in) {
         return Tensors{in[0], in[0] * 2};
       },
       "- | IS0* NA* | P1 | TR"},
      {"detached",
       {Leaf({2}), Plain({2})},
       [](const Tensors& in) {
         return Tensors{in[0].detach(), in[1]};
       },
       "- - | IN0[detach] IS1 |  | INF"},
      {"contiguous already",
       {Leaf({4})},
       [](const Tensors& in) { return Tensors{in[0].contiguous()}; },
       "- | IS0* |  | INF"},
      {"reshaped with a copy",
       {Leaf({2, 3})},
       [](const Tensors& in) { return Tensors{in[0].t().reshape(-1)}; },
       "- | NA* | P0 | TR"},
      {"written to, and an older alias",
       {NonLeaf({4})},
       [](const Tensors& in) {
         const at::Tensor t = in[0].detach();
         in[0].mul_(2);
         return Tensors{in[0], t};
       },
       "OG:d | IS0* IN0[detach] | IM0 | TR"},
  });
}

TEST(AnalyzedInputAliasesTest, MultiOutputViewsOfAnInput) {
  Check({
      {"all parts and nothing else",
       {NonLeaf({3, 2})},
       [](const Tensors& in) { return in[0].unbind(0); },
       "- | NA0[select]@in0* NA0[select]@in0* NA0[select]@in0* | P0 P1 P2 | TR"},
      {"all parts and a view",
       {NonLeaf({2, 2})},
       [](const Tensors& in) {
         Tensors out = in[0].unbind(0);
         out.push_back(in[0].view({2, 2}));
         return out;
       },
       "- | IN0[select]* IN0[select]* IN0[view]* |  | INF"},
      {"halves",
       {NonLeaf({4, 2})},
       [](const Tensors& in) { return in[0].chunk(2); },
       "- | NA0[slice]@in0* NA0[slice]@in0* | P0 P1 | TR"},
      {"halves without grad",
       {Plain({4, 2})},
       [](const Tensors& in) { return in[0].chunk(2); },
       "- | IN0[slice] IN0[slice] |  | INF"},
  });
}

TEST(AnalyzedInputAliasesTest, ViewsOfCustomFunctions) {
  Check({
      {"a view that a custom function returns",
       {Leaf({4})},
       [](const Tensors& in) { return Tensors{Halved::apply(in[0])}; },
       "- | CFV[view]@in0* | P0 | TR"},
      {"the same of an intermediate",
       {Leaf({4})},
       [](const Tensors& in) { return Tensors{Halved::apply(in[0] * 2)}; },
       "- | UV* | P0 | TR"},
  });
}

TEST(AnalyzedInputAliasesTest, TheLastOfDuplicateInputsIsTheBase) {
  const at::Tensor twice = Leaf({4});
  Check({{"the last occurrence counts",
          {twice, twice},
          [](const Tensors& in) {
            return Tensors{in[0].view({2, 2}), in[0]};
          },
          "- - | IN1[view]* IS1* |  | INF"}});
}

}  // namespace
}  // namespace cotan::aot
