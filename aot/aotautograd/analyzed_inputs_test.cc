// SPDX-License-Identifier: Apache-2.0

// Mutations of inputs that AnalyzeFunction() finds.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "aot/aotautograd/metadata_summary.h"

namespace cotan::aot {
namespace {

TEST(AnalyzedDataMutationsTest, WritesVisibleToAutograd) {
  Check({
      {"visible to autograd",
       {NonLeaf({3, 3})},
       [](const Tensors& in) { return Tensors{in[0].mul_(2) * 3}; },
       "OG:d | NA* | IM0 P0 | TR"},
      {"two of three",
       {NonLeaf({3}), Leaf({3}), NonLeaf({3})},
       [](const Tensors& in) {
         in[0].mul_(2);
         in[2].mul_(2);
         return Tensors{in[0] + in[1] + in[2]};
       },
       "OG:d - OG:d | NA* | IM0 IM2 P0 | TR"},
      {"through a detached alias of a leaf",
       {Leaf({4})},
       [](const Tensors& in) {
         in[0].detach().mul_(2);
         return Tensors{in[0] + 3};
       },
       "OG:d | NA* | IM0 P0 | TR"},
      {"hidden, visible and under no_grad",
       {NonLeaf({4})},
       [](const Tensors& in) {
         in[0].detach().mul_(2);
         in[0].mul_(3);
         at::NoGradGuard no_grad;
         in[0].mul_(4);
         return Tensors{};
       },
       "OG:d |  | IM0 | TR"},
      {"no outputs",
       {NonLeaf({6}).slice(0, 0, 6, 2)},
       [](const Tensors& in) {
         in[0].add_(1);
         return Tensors{};
       },
       "OG:d |  | IM0 | TR"},
      {"becomes one that requires grad",
       {Plain({3}), Leaf({3})},
       [](const Tensors& in) { return Tensors{in[0].add_(in[1])}; },
       "OG:d - | IS0* | IM0 | TR"},
  });
}

TEST(AnalyzedDataMutationsTest, WritesWithoutGradient) {
  Check({
      {"without grad, kept",
       {Plain({3})},
       [](const Tensors& in) { return Tensors{in[0].mul_(2) * 3}; },
       "IG:d | NA |  | INF"},
      {"without grad, not kept",
       {Plain({3})},
       [](const Tensors& in) { return Tensors{in[0].mul_(2) * 3}; },
       "OG:d | NA |  | INF",
       false},
      {"written to as out=",
       {Plain({3}), Plain({3})},
       [](const Tensors& in) {
         at::Tensor target = in[1];
         return Tensors{at::sin_out(target, in[0])};
       },
       "- IG:d | IS1 |  | INF"},
      {"undone values are still written",
       {Plain({3})},
       [](const Tensors& in) {
         in[0].mul_(2);
         return Tensors{in[0].div_(2) + 1};
       },
       "IG:d | NA |  | INF"},
  });
}

TEST(AnalyzedDataMutationsTest, WritesUnderNoGrad) {
  Check({
      {"under no_grad",
       {Leaf({4})},
       [](const Tensors& in) {
         {
           at::NoGradGuard no_grad;
           in[0].mul_(2);
         }
         return Tensors{in[0] + 3};
       },
       "IG:d/ng | NA* | P0 | TR"},
      {"under no_grad, not kept",
       {Leaf({4})},
       [](const Tensors& in) {
         {
           at::NoGradGuard no_grad;
           in[0].mul_(2);
         }
         return Tensors{in[0] + 3};
       },
       "OG:d/ng | NA* | IM0 P0 | TR",
       false},
      {"called under no_grad",
       {Leaf({4})},
       [](const Tensors& in) { return Tensors{in[0].mul_(2) + 3}; },
       "IG:d/ng | NA |  | INF",
       true,
       false},
      {"through a view under no_grad",
       {Leaf({2, 2})},
       [](const Tensors& in) {
         const at::Tensor view = in[0].view({-1});
         {
           at::NoGradGuard no_grad;
           view.mul_(2);
         }
         return Tensors{in[0] + 1};
       },
       "IG:d/ng | NA* | P0 | TR"},
  });
}

TEST(AnalyzedDataMutationsTest, WritesThroughViewsAndOfCopies) {
  Check({
      {"one element",
       {NonLeaf({3})},
       [](const Tensors& in) {
         in[0].select(0, 0).zero_();
         return Tensors{in[0].sum()};
       },
       "OG:d | NA* | IM0 P0 | TR"},
      {"an element of an expanded view",
       {Plain({6})},
       [](const Tensors& in) {
         const at::Tensor y = in[0].expand({3, 6});
         y.select(0, 0).select(0, 0).add_(5);
         return Tensors{y};
       },
       "IG:d | IN0[expand] |  | INF"},
      {"a copy is not the input",
       {Leaf({3})},
       [](const Tensors& in) {
         const at::Tensor b = in[0].clone();
         b.mul_(2);
         return Tensors{b};
       },
       "- | NA* | P0 | TR"},
      {"detached sum of a mutated input",
       {NonLeaf({3})},
       [](const Tensors& in) { return Tensors{(in[0].mul_(2) + 1).detach()}; },
       "OG:d | NA | IM0 | TR"},
  });
}

TEST(AnalyzedDataMutationsTest, WriteToALeafIsAnError) {
  Check({
      {"a leaf",
       {Leaf({3})},
       [](const Tensors& in) { return Tensors{in[0].mul_(2)}; },
       "analyzing the function: a leaf Variable that requires grad is being used in an in-place operation. "
       "(aten.mul_.Scalar)"},
  });
}

TEST(AnalyzedMetadataMutationsTest, GeometryMutations) {
  Check({
      {"transposed",
       {NonLeaf({2, 3}), Leaf({3, 2})},
       [](const Tensors& in) { return Tensors{in[0].transpose_(1, 0) + in[1]}; },
       "OG:m/hid - | NA* | P0 | TR"},
      {"transposed and written to",
       {NonLeaf({2, 3})},
       [](const Tensors& in) {
         in[0].transpose_(1, 0);
         return Tensors{in[0].mul_(2) + 1};
       },
       "OG:dm | NA* | IM0 P0 | TR"},
      {"returned",
       {NonLeaf({3})},
       [](const Tensors& in) { return Tensors{in[0].unsqueeze_(0)}; },
       "OG:m/hid | IS0* |  | INF"},
      {"resized within its storage",
       {Plain({2, 2})},
       [](const Tensors& in) {
         in[0].resize_({4});
         return Tensors{in[0] + 1};
       },
       "OG:m/hid | NA |  | INF"},
      {"resized beyond its storage",
       {Plain({2})},
       [](const Tensors& in) {
         in[0].resize_({4});
         in[0].fill_(1);
         return Tensors{in[0] + 1};
       },
       "OG:dm | NA |  | INF"},
  });
}

TEST(AnalyzedMetadataMutationsTest, ViewsOfMutatedInputs) {
  Check({
      {"a view relative to the transposed input",
       {NonLeaf({3, 3})},
       [](const Tensors& in) {
         in[0].t_();
         in[0].select(0, 0).mul_(2);
         return Tensors{in[0].select(0, 1)};
       },
       "OG:dm | IN0[select]* | IM0 | TR"},
      {"a view taken before",
       {NonLeaf({2, 3})},
       [](const Tensors& in) {
         const at::Tensor view = in[0].view({-1});
         in[0].t_();
         return Tensors{view};
       },
       "OG:m/hid | IN0[as_strided]* |  | INF"},
      {"diagonal of a transposed input",
       {NonLeaf({2, 2})},
       [](const Tensors& in) {
         in[0].transpose_(1, 0);
         return Tensors{in[0].diagonal()};
       },
       "OG:m/hid | IN0[diagonal]* |  | INF"},
      {"two of them, viewed",
       {NonLeaf({2, 3}), Leaf({2})},
       [](const Tensors& in) {
         in[0].t_();
         return Tensors{in[1].view({2}), in[0].view({3, 2})};
       },
       "OG:m/hid - | IN1[view]* IN0[view]* |  | INF"},
  });
}

TEST(AnalyzedMetadataMutationsTest, RestoredGeometryIsNotAMutation) {
  Check({
      {"twice transposed",
       {NonLeaf({2, 3})},
       [](const Tensors& in) {
         in[0].t_();
         in[0].t_();
         return Tensors{in[0] * 2};
       },
       "- | NA* | P0 | TR"},
      {"twice transposed, of a part of a tensor",
       {Plain({4, 3}).slice(0, 1, 3)},
       [](const Tensors& in) {
         in[0].t_();
         in[0].t_();
         return Tensors{in[0].mul_(2) * 2};
       },
       "IG:d | NA |  | INF"},
      {"nothing to squeeze",
       {Plain({2, 3})},
       [](const Tensors& in) {
         in[0].squeeze_(0);
         return Tensors{in[0] + 1};
       },
       "- | NA |  | INF"},
      {"detached in place",
       {NonLeaf({3}), Leaf({3})},
       [](const Tensors& in) {
         in[0].detach_();
         return Tensors{in[0] * in[1]};
       },
       "- - | NA* | P0 | TR"},
  });
}

TEST(AnalyzedMetadataMutationsTest, StorageMutations) {
  Check({
      {"replaced",
       {Plain({3}), Plain({3})},
       [](const Tensors& in) {
         {
           at::NoGradGuard no_grad;
           in[0].set_(at::arange(3, at::kFloat));
         }
         return Tensors{in[0] * in[1]};
       },
       "IG:ms/hid - | NA |  | INF"},
      {"replaced by another input, which is written to",
       {NonLeaf({3}), NonLeaf({3})},
       [](const Tensors& in) {
         {
           at::NoGradGuard no_grad;
           in[0].set_(in[1]);
           in[1].mul_(2);
         }
         return Tensors{in[0] + in[1]};
       },
       "IG:ms/ng IG:d/ng | NA* | P0 | TR"},
      {"replaced and set back",
       {Plain({3}), Plain({3})},
       [](const Tensors& in) {
         at::NoGradGuard no_grad;
         const at::Tensor alias = in[0].view({3});
         in[0].set_(in[1]);
         in[0].set_(alias);
         return Tensors{in[0] + 1};
       },
       "- - | NA |  | INF"},
      {"replaced, then written to",
       {NonLeaf({3}), NonLeaf({3})},
       [](const Tensors& in) {
         {
           at::NoGradGuard no_grad;
           in[0].set_(in[1]);
         }
         in[0].mul_(2);
         return Tensors{in[0] + 1};
       },
       "Encountered a set_ on a graph input, but the input has other mutations that we cannot keep in the graph. This "
       "is not supported. keep_input_mutations=true, mutates_data=false, mutations_hidden_from_autograd=false, "
       "mutations_under_no_grad_or_inference_mode=false"},
  });
}

}  // namespace
}  // namespace cotan::aot
