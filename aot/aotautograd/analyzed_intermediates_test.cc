// SPDX-License-Identifier: Apache-2.0

// Outputs that alias intermediates.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include "aot/aotautograd/metadata_summary.h"

namespace cotan::aot {
namespace {

TEST(AnalyzedIntermediateAliasesTest, ASingleView) {
  Check({
      {"a single view",
       {Leaf({2, 2})},
       [](const Tensors& in) { return Tensors{(in[0] * 3).view({-1})}; },
       "- | UV* | P0 | TR"},
      {"a single view without grad",
       {Plain({2, 2})},
       [](const Tensors& in) { return Tensors{(in[0] * 3).view({-1})}; },
       "- | NA |  | INF"},
      {"a view under no_grad",
       {Leaf({4})},
       [](const Tensors& in) {
         const at::Tensor o = in[0] * 3;
         at::Tensor view;
         {
           at::NoGradGuard no_grad;
           view = o.view({2, 2});
         }
         return Tensors{o.sum(), view};
       },
       "- | NA* UV^ | P0 | TR"},
  });
}

TEST(AnalyzedIntermediateAliasesTest, SeveralViews) {
  Check({
      {"two views",
       {Leaf({2, 2})},
       [](const Tensors& in) {
         const at::Tensor o = in[0] * 3;
         return Tensors{o.view({-1}), o.view({-1})};
       },
       "- | AIS0[view]* AI0[view]* | IB0 | TR nib1"},
      {"two bases",
       {Leaf({2, 2})},
       [](const Tensors& in) {
         const at::Tensor o1 = in[0] * 3, o2 = in[0] * 4;
         return Tensors{o1.view({-1}), o2.t(), o1.t()};
       },
       "- | AIS0[view]* UV* AI0[permute]* | P1 IB0 | TR nib1"},
      {"a part of a part",
       {Leaf({4, 3})},
       [](const Tensors& in) {
         const at::Tensor a = (in[0] * 2).slice(0, 1);
         return Tensors{a, a.select(0, 0)};
       },
       "- | AIS0[slice]* AI0[slice,select]* | IB0 | TR nib1"},
      {"input and intermediate",
       {NonLeaf({1, 2, 4})},
       [](const Tensors& in) {
         in[0].transpose_(1, 0);
         const at::Tensor t = in[0] * 2;
         return Tensors{t.squeeze(), t.transpose(1, 0), in[0].unsqueeze(0)};
       },
       "OG:m/hid | AIS0[squeeze]* AI0[permute]* IN0[unsqueeze]* | IB0 | TR nib1"},
  });
}

TEST(AnalyzedIntermediateAliasesTest, ViewsAndTheirBase) {
  Check({
      {"a view, then the base",
       {Leaf({2, 2})},
       [](const Tensors& in) {
         const at::Tensor o = in[0] * 3;
         return Tensors{o.view({-1}), o};
       },
       "- | AIB1[view]* NA* | P1 | TR"},
      {"the base twice: the last one counts",
       {Leaf({2, 2})},
       [](const Tensors& in) {
         const at::Tensor o = in[0] * 3;
         return Tensors{o, o.view({-1}), o};
       },
       "- | NA* AIB2[view]* NA=out0* | P0 P2 | TR"},
      {"a detached part",
       {Leaf({2, 2})},
       [](const Tensors& in) {
         const at::Tensor o = in[0] * 3;
         return Tensors{o.view({-1}), o, o.select(0, 0).detach()};
       },
       "- | AIB1[view]* NA* NA@out1 | P1 | TR"},
      {"a no-op view without grad",
       {Plain({4})},
       [](const Tensors& in) {
         const at::Tensor o = in[0] * 3;
         return Tensors{o, o.view({4})};
       },
       "- | NA AIB0[view] |  | INF"},
  });
}

TEST(AnalyzedIntermediateAliasesTest, MultiOutputViews) {
  Check({
      {"parts",
       {Leaf({2, 2})},
       [](const Tensors& in) { return (in[0] * 3).unbind(0); },
       "- | UV* UV@out0* | P0 P1 | TR"},
      {"parts and the base",
       {Leaf({2, 2})},
       [](const Tensors& in) {
         const at::Tensor o = in[0] * 3;
         Tensors out = o.unbind(0);
         out.push_back(o);
         return out;
       },
       "- | UV* UV@out0* NA@out0* | P0 P1 P2 | TR"},
      {"parts, the base and a view",
       {Leaf({2, 2})},
       [](const Tensors& in) {
         const at::Tensor o = in[0] * 3;
         Tensors out = o.unbind(0);
         out.push_back(o);
         out.push_back(o.view({2, 2}));
         return out;
       },
       "- | AIB2[select]* AIB2[select]* NA* AIB2[view]* | P2 | TR"},
  });
}

TEST(AnalyzedIntermediateAliasesTest, MutatedIntermediates) {
  Check({
      {"transposed in place",
       {Leaf({2, 4})},
       [](const Tensors& in) {
         const at::Tensor o = in[0] * 3;
         o.t_();
         return Tensors{o};
       },
       "- | NA* | P0 | TR"},
      {"detached in place",
       {Leaf({2, 4})},
       [](const Tensors& in) {
         const at::Tensor o = in[0] * 3;
         o.t_();
         o.detach_();
         return Tensors{o, in[0] + 1};
       },
       "- | NA NA* | P1 | TR"},
      {"views of a transposed intermediate",
       {Leaf({2, 4})},
       [](const Tensors& in) {
         const at::Tensor o = in[0] * 3;
         const at::Tensor before = o.view({-1});
         o.t_();
         return Tensors{before, o.select(0, 1), o};
       },
       "- | AIB2[as_strided]* AIB2[select]* NA* | P2 | TR"},
  });
}

TEST(AnalyzedIntermediateAliasesTest, DetachedAliases) {
  Check({
      {"the base is a view itself; the detached one comes first",
       {Leaf({2, 3})},
       [](const Tensors& in) {
         const at::Tensor x = in[0] + 1;
         const at::Tensor a = x.transpose(0, 1);
         return Tensors{a.detach(), a};
       },
       "- | AIB1[detach] AIS0[permute]* | IB0 | TR nib1"},
      {"detached twin",
       {Leaf({2, 3})},
       [](const Tensors& in) {
         const at::Tensor y = in[0] + 1;
         return Tensors{y, y.detach()};
       },
       "- | NA* AIB0[detach] | P0 | TR"},
      {"detached, and a view that looks different",
       {Leaf({2, 3})},
       [](const Tensors& in) {
         const at::Tensor y = in[0] + 1;
         return Tensors{y.detach(), y.view({-1})};
       },
       "- | NA@base0 AIS0[view]* | IB0 | TR nib1"},
  });
}

TEST(AnalyzedIntermediateAliasesTest, OutputsWithoutAlias) {
  Check({
      {"the same twice",
       {Leaf({4})},
       [](const Tensors& in) {
         const at::Tensor y = in[0].sin();
         return Tensors{y, y};
       },
       "- | NA* NA=out0* | P0 P1 | TR"},
      {"nothing",
       {Leaf({4})},
       [](const Tensors& in) {
         return Tensors{at::Tensor(), in[0] * 2};
       },
       "- | NA NA* | P1 | TR"},
      {"a mask",
       {Leaf({4})},
       [](const Tensors& in) {
         return Tensors{in[0] > 0, in[0] * 2};
       },
       "- | NA NA* | P1 | TR"},
  });
}

}  // namespace
}  // namespace cotan::aot
