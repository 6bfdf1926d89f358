// SPDX-License-Identifier: Apache-2.0

#include "testing/ops/functional_cases.h"

#include <ATen/ATen.h>
#include <torch/nn/functional.h>

#include <algorithm>
#include <utility>

namespace cotan::testing {
namespace {

namespace F = torch::nn::functional;

using Tensors = std::vector<at::Tensor>;
using Cases = std::vector<FunctionalCase>;

// Functions of one, two and three tensors.
using One = at::Tensor (*)(const at::Tensor&);
using Two = at::Tensor (*)(const at::Tensor&, const at::Tensor&);
using Three = at::Tensor (*)(const at::Tensor&, const at::Tensor&, const at::Tensor&);

FunctionalCase Case(const char* name, const Arg& x, One f, bool random = false) {
  return {name, {x}, [f](const Tensors& in) { return Tensors{f(in[0])}; }, random};
}
FunctionalCase Case(const char* name, const Arg& x, const Arg& y, Two f) {
  return {name, {x, y}, [f](const Tensors& in) { return Tensors{f(in[0], in[1])}; }};
}
FunctionalCase Case(const char* name, const Arg& x, const Arg& y, const Arg& z, Three f) {
  return {name, {x, y, z}, [f](const Tensors& in) { return Tensors{f(in[0], in[1], in[2])}; }};
}

// Returns elements that are -1 or 1.
Arg Signs(Sizes sizes) {
  return [sizes](at::ScalarType dtype) { return (at::randint(0, 2, sizes, at::kLong) * 2 - 1).to(dtype); };
}

void AddActivations(Cases& c) {
  const Arg x = T({4, 6});
  c.push_back(Case("celu", x, [](const at::Tensor& x) { return F::celu(x); }));
  c.push_back(Case("elu", x, [](const at::Tensor& x) { return F::elu(x); }));
  c.push_back(Case("gelu", x, [](const at::Tensor& x) { return F::gelu(x); }));
  c.push_back(
      Case("gelu", x, [](const at::Tensor& x) { return F::gelu(x, F::GELUFuncOptions().approximate("tanh")); }));
  c.push_back(Case("glu", x, [](const at::Tensor& x) { return F::glu(x); }));
  c.push_back(Case(
      "gumbel_softmax", x, [](const at::Tensor& x) { return F::gumbel_softmax(x); }, true));
  c.push_back(Case("hardshrink", x, [](const at::Tensor& x) { return F::hardshrink(x); }));
  c.push_back(Case("hardtanh", x, [](const at::Tensor& x) { return F::hardtanh(x * 2); }));
  c.push_back(Case("leaky_relu", x, [](const at::Tensor& x) { return F::leaky_relu(x); }));
  c.push_back(Case("log_softmax", x, [](const at::Tensor& x) { return F::log_softmax(x, 1); }));
  c.push_back(Case("logsigmoid", x, [](const at::Tensor& x) { return F::logsigmoid(x); }));
  c.push_back(Case("mish", x, [](const at::Tensor& x) { return F::mish(x); }));
  c.push_back(Case("prelu", x, T({6}), [](const at::Tensor& x, const at::Tensor& w) { return F::prelu(x, w); }));
  c.push_back(Case("relu", x, [](const at::Tensor& x) { return F::relu(x); }));
  c.push_back(Case("relu6", x, [](const at::Tensor& x) { return F::relu6(x); }));
  c.push_back(Case("rrelu", x, [](const at::Tensor& x) { return F::rrelu(x); }));
  c.push_back(Case(
      "rrelu", x, [](const at::Tensor& x) { return F::rrelu(x, F::RReLUFuncOptions().training(true)); }, true));
  c.push_back(Case("selu", x, [](const at::Tensor& x) { return F::selu(x); }));
  c.push_back(Case("silu", x, [](const at::Tensor& x) { return F::silu(x); }));
  c.push_back(Case("softmax", x, [](const at::Tensor& x) { return F::softmax(x, 0); }));
  c.push_back(Case("softmin", x, [](const at::Tensor& x) { return F::softmin(x, 1); }));
  c.push_back(Case("softplus", x, [](const at::Tensor& x) { return F::softplus(x); }));
  c.push_back(Case("softshrink", x, [](const at::Tensor& x) { return F::softshrink(x); }));
  c.push_back(Case("softsign", x, [](const at::Tensor& x) { return F::softsign(x); }));
  c.push_back(Case("tanhshrink", x, [](const at::Tensor& x) { return F::tanhshrink(x); }));
  c.push_back(
      Case("threshold", x, [](const at::Tensor& x) { return F::threshold(x, F::ThresholdFuncOptions(0.1, 0.5)); }));
  c.push_back(
      {"multi_head_attention_forward", {T({5, 2, 8}), T({24, 8}), T({24}), T({8, 8}), T({8})}, [](const Tensors& in) {
         const auto [output, weights] = F::multi_head_attention_forward(
             in[0], in[0], in[0],
             F::MultiheadAttentionForwardFuncOptions(8, 2, in[1], in[2], {}, {}, false, 0.0, in[3], in[4]));
         return Tensors{output, weights};
       }});
}

void AddNormalizations(Cases& c) {
  c.push_back({"batch_norm", {T({4, 6, 5}), T({6}), T({6})}, [](const Tensors& in) {
                 return Tensors{
                     F::batch_norm(in[0], {}, {}, F::BatchNormFuncOptions().weight(in[1]).bias(in[2]).training(true))};
               }});
  c.push_back(Case("batch_norm", T({4, 6, 5}), T({6}), Positive({6}),
                   [](const at::Tensor& x, const at::Tensor& mean, const at::Tensor& var) {
                     return F::batch_norm(x, mean.detach(), var.detach());
                   }));
  c.push_back(Case("group_norm", T({2, 6, 5}), T({6}), T({6}),
                   [](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
                     return F::group_norm(x, F::GroupNormFuncOptions(3).weight(w).bias(b));
                   }));
  c.push_back(Case("instance_norm", T({2, 3, 8}), [](const at::Tensor& x) { return F::instance_norm(x); }));
  c.push_back(
      Case("layer_norm", T({4, 6}), T({6}), T({6}), [](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
        return F::layer_norm(x, F::LayerNormFuncOptions({6}).weight(w).bias(b));
      }));
  c.push_back(Case("local_response_norm", T({2, 6, 5}),
                   [](const at::Tensor& x) { return F::local_response_norm(x, F::LocalResponseNormFuncOptions(3)); }));
  c.push_back(Case("normalize", T({4, 6}), [](const at::Tensor& x) { return F::normalize(x); }));
}

void AddLinear(Cases& c) {
  c.push_back(Case("bilinear", T({4, 3}), T({4, 5}), T({2, 3, 5}),
                   [](const at::Tensor& x, const at::Tensor& y, const at::Tensor& w) { return F::bilinear(x, y, w); }));
  c.push_back(Case("conv1d", T({2, 3, 9}), T({4, 3, 3}), [](const at::Tensor& x, const at::Tensor& w) {
    return F::conv1d(x, w, F::Conv1dFuncOptions().padding(1).stride(2));
  }));
  c.push_back(Case("conv2d", T({2, 4, 7, 8}), T({6, 2, 3, 3}), [](const at::Tensor& x, const at::Tensor& w) {
    return F::conv2d(x, w, F::Conv2dFuncOptions().padding(1).groups(2));
  }));
  c.push_back(Case("conv3d", T({2, 3, 5, 5, 5}), T({4, 3, 3, 3, 3}), [](const at::Tensor& x, const at::Tensor& w) {
    return F::conv3d(x, w, F::Conv3dFuncOptions().dilation(2));
  }));
  c.push_back(Case("conv_transpose1d", T({2, 3, 5}), T({3, 4, 3}), [](const at::Tensor& x, const at::Tensor& w) {
    return F::conv_transpose1d(x, w, F::ConvTranspose1dFuncOptions().stride(2));
  }));
  c.push_back(Case("conv_transpose2d", T({2, 3, 4, 5}), T({3, 4, 3, 3}), [](const at::Tensor& x, const at::Tensor& w) {
    return F::conv_transpose2d(x, w, F::ConvTranspose2dFuncOptions().stride(2).output_padding(1));
  }));
  c.push_back(Case("conv_transpose3d", T({2, 3, 3, 3, 3}), T({3, 2, 2, 2, 2}),
                   [](const at::Tensor& x, const at::Tensor& w) { return F::conv_transpose3d(x, w); }));
  c.push_back(Case("linear", T({4, 5}), T({3, 5}), T({3}),
                   [](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) { return F::linear(x, w, b); }));
  c.push_back(Case("embedding", Index({3, 4}, 10), T({10, 5}),
                   [](const at::Tensor& i, const at::Tensor& w) { return F::embedding(i, w); }));
  c.push_back(Case("embedding_bag", Index({3, 4}, 10), T({10, 5}), [](const at::Tensor& i, const at::Tensor& w) {
    return F::embedding_bag(i, w, F::EmbeddingBagFuncOptions().mode(torch::kSum));
  }));
  c.push_back(Case("one_hot", Index({3, 4}, 5), [](const at::Tensor& i) { return F::one_hot(i, 5); }));
  c.push_back(Case("cosine_similarity", T({4, 6}), T({4, 6}),
                   [](const at::Tensor& x, const at::Tensor& y) { return F::cosine_similarity(x, y); }));
  c.push_back(Case("pairwise_distance", T({4, 6}), T({4, 6}),
                   [](const at::Tensor& x, const at::Tensor& y) { return F::pairwise_distance(x, y); }));
  c.push_back(Case("pdist", T({4, 6}), [](const at::Tensor& x) { return F::pdist(x); }));
}

void AddDropout(Cases& c) {
  const Arg x = T({2, 3, 4, 5});
  const Arg deep = T({2, 3, 2, 4, 5});
  c.push_back(Case(
      "alpha_dropout", x,
      [](const at::Tensor& x) { return F::alpha_dropout(x, F::AlphaDropoutFuncOptions().training(true)); }, true));
  c.push_back(Case(
      "dropout", x, [](const at::Tensor& x) { return F::dropout(x); }, true));
  c.push_back(Case(
      "dropout2d", x, [](const at::Tensor& x) { return F::dropout2d(x); }, true));
  c.push_back(Case(
      "dropout3d", deep, [](const at::Tensor& x) { return F::dropout3d(x); }, true));
  c.push_back(Case(
      "feature_alpha_dropout", x,
      [](const at::Tensor& x) {
        return F::feature_alpha_dropout(x, F::FeatureAlphaDropoutFuncOptions().training(true));
      },
      true));
}

void AddPooling(Cases& c) {
  const Arg line = T({2, 3, 10}), plane = T({2, 3, 7, 10}), cube = T({2, 3, 5, 7, 6});
  c.push_back(Case("adaptive_avg_pool1d", line,
                   [](const at::Tensor& x) { return F::adaptive_avg_pool1d(x, F::AdaptiveAvgPool1dFuncOptions(4)); }));
  c.push_back(Case("adaptive_avg_pool2d", plane, [](const at::Tensor& x) {
    return F::adaptive_avg_pool2d(x, F::AdaptiveAvgPool2dFuncOptions({3, 4}));
  }));
  c.push_back(Case("adaptive_avg_pool3d", cube, [](const at::Tensor& x) {
    return F::adaptive_avg_pool3d(x, F::AdaptiveAvgPool3dFuncOptions({3, 4, 6}));
  }));
  c.push_back(Case("adaptive_max_pool1d", line,
                   [](const at::Tensor& x) { return F::adaptive_max_pool1d(x, F::AdaptiveMaxPool1dFuncOptions(4)); }));
  c.push_back(Case("adaptive_max_pool2d", plane, [](const at::Tensor& x) {
    return F::adaptive_max_pool2d(x, F::AdaptiveMaxPool2dFuncOptions({3, 4}));
  }));
  c.push_back(Case("adaptive_max_pool3d", cube, [](const at::Tensor& x) {
    return F::adaptive_max_pool3d(x, F::AdaptiveMaxPool3dFuncOptions({3, 4, 6}));
  }));
  c.push_back(
      Case("avg_pool1d", line, [](const at::Tensor& x) { return F::avg_pool1d(x, F::AvgPool1dFuncOptions(3)); }));
  c.push_back(
      Case("avg_pool2d", plane, [](const at::Tensor& x) { return F::avg_pool2d(x, F::AvgPool2dFuncOptions(3)); }));
  c.push_back(
      Case("avg_pool3d", cube, [](const at::Tensor& x) { return F::avg_pool3d(x, F::AvgPool3dFuncOptions(2)); }));
  c.push_back(Case(
      "fractional_max_pool2d", plane,
      [](const at::Tensor& x) {
        return F::fractional_max_pool2d(x, F::FractionalMaxPool2dFuncOptions(2).output_size(3));
      },
      true));
  c.push_back(Case(
      "fractional_max_pool3d", cube,
      [](const at::Tensor& x) {
        return F::fractional_max_pool3d(x, F::FractionalMaxPool3dFuncOptions(2).output_size(3));
      },
      true));
  c.push_back(Case("lp_pool1d", line,
                   [](const at::Tensor& x) { return F::lp_pool1d(x.abs() + 0.1, F::LPPool1dFuncOptions(2, 3)); }));
  c.push_back(Case("lp_pool2d", plane,
                   [](const at::Tensor& x) { return F::lp_pool2d(x.abs() + 0.1, F::LPPool2dFuncOptions(2, 3)); }));
  c.push_back(Case("lp_pool3d", cube,
                   [](const at::Tensor& x) { return F::lp_pool3d(x.abs() + 0.1, F::LPPool3dFuncOptions(2, 2)); }));
  c.push_back(
      Case("max_pool1d", line, [](const at::Tensor& x) { return F::max_pool1d(x, F::MaxPool1dFuncOptions(3)); }));
  c.push_back(
      Case("max_pool2d", plane, [](const at::Tensor& x) { return F::max_pool2d(x, F::MaxPool2dFuncOptions(3)); }));
  c.push_back(
      Case("max_pool3d", cube, [](const at::Tensor& x) { return F::max_pool3d(x, F::MaxPool3dFuncOptions(2)); }));
  c.push_back({"max_unpool1d", {line}, [](const Tensors& in) {
                 const auto [y, i] = F::max_pool1d_with_indices(in[0], F::MaxPool1dFuncOptions(2));
                 return Tensors{F::max_unpool1d(y, i, F::MaxUnpool1dFuncOptions(2))};
               }});
  c.push_back({"max_unpool2d", {plane}, [](const Tensors& in) {
                 const auto [y, i] = F::max_pool2d_with_indices(in[0], F::MaxPool2dFuncOptions(2));
                 return Tensors{F::max_unpool2d(y, i, F::MaxUnpool2dFuncOptions(2))};
               }});
  c.push_back({"max_unpool3d", {T({2, 3, 4, 6, 2})}, [](const Tensors& in) {
                 const auto [y, i] = F::max_pool3d_with_indices(in[0], F::MaxPool3dFuncOptions(2));
                 return Tensors{F::max_unpool3d(y, i, F::MaxUnpool3dFuncOptions(2))};
               }});
}

void AddLosses(Cases& c) {
  const Arg x = T({4, 6}), y = T({4, 6}), p = Positive({4, 6}), q = Positive({4, 6});
  c.push_back(Case("binary_cross_entropy", p, q,
                   [](const at::Tensor& x, const at::Tensor& y) { return F::binary_cross_entropy(x, y.detach()); }));
  c.push_back(Case("binary_cross_entropy_with_logits", x, q, [](const at::Tensor& x, const at::Tensor& y) {
    return F::binary_cross_entropy_with_logits(x, y.detach());
  }));
  c.push_back(Case("cosine_embedding_loss", x, y, Signs({4}),
                   [](const at::Tensor& x, const at::Tensor& y, const at::Tensor& t) {
                     return F::cosine_embedding_loss(x, y, t.detach());
                   }));
  c.push_back(Case("cross_entropy", x, Index({4}, 6),
                   [](const at::Tensor& x, const at::Tensor& t) { return F::cross_entropy(x, t); }));
  c.push_back(Case("cross_entropy", x, Index({4}, 6), [](const at::Tensor& x, const at::Tensor& t) {
    return F::cross_entropy(x, t, F::CrossEntropyFuncOptions().label_smoothing(0.1).ignore_index(2));
  }));
  c.push_back(
      {"ctc_loss", {T({9, 2, 5}), Longs({1, 2, 2, 4, 3, 1}), Longs({9, 7}), Longs({3, 2})}, [](const Tensors& in) {
         return Tensors{F::ctc_loss(at::log_softmax(in[0], 2), in[1].view({2, 3}), in[2], in[3])};
       }});
  c.push_back({"ctc_loss", {T({9, 2, 5}), Longs({1, 2, 2, 4, 3}), Longs({9, 7}), Longs({3, 2})}, [](const Tensors& in) {
                 return Tensors{F::ctc_loss(at::log_softmax(in[0], 2), in[1], in[2], in[3],
                                            F::CTCLossFuncOptions().reduction(torch::kNone))};
               }});
  c.push_back(Case("hinge_embedding_loss", x, Signs({4, 6}),
                   [](const at::Tensor& x, const at::Tensor& t) { return F::hinge_embedding_loss(x, t.detach()); }));
  c.push_back(
      Case("huber_loss", x, y, [](const at::Tensor& x, const at::Tensor& y) { return F::huber_loss(x, y.detach()); }));
  c.push_back(Case("kl_div", x, q, [](const at::Tensor& x, const at::Tensor& y) {
    return F::kl_div(x, y, F::KLDivFuncOptions(torch::kBatchMean));
  }));
  c.push_back(Case("l1_loss", x, y, [](const at::Tensor& x, const at::Tensor& y) { return F::l1_loss(x, y); }));
  c.push_back(Case("margin_ranking_loss", T({6}), T({6}), Signs({6}),
                   [](const at::Tensor& x, const at::Tensor& y, const at::Tensor& t) {
                     return F::margin_ranking_loss(x, y, t.detach());
                   }));
  c.push_back(Case("mse_loss", x, y, [](const at::Tensor& x, const at::Tensor& y) { return F::mse_loss(x, y); }));
  c.push_back(Case("multi_margin_loss", x, Index({4}, 6),
                   [](const at::Tensor& x, const at::Tensor& t) { return F::multi_margin_loss(x, t); }));
  c.push_back(Case("multi_margin_loss", x, Index({4}, 6), Positive({6}),
                   [](const at::Tensor& x, const at::Tensor& t, const at::Tensor& w) {
                     return F::multi_margin_loss(
                         x, t, F::MultiMarginLossFuncOptions().p(2).weight(w.detach()).reduction(torch::kNone));
                   }));
  c.push_back(Case("multilabel_margin_loss", T({2, 4}), Longs({3, 0, -1, 1, 2, -1, 2, 0}),
                   [](const at::Tensor& x, const at::Tensor& t) {
                     return F::multilabel_margin_loss(x, t.view({2, 4}));
                   }));
  c.push_back(Case("multilabel_soft_margin_loss", x, q, [](const at::Tensor& x, const at::Tensor& t) {
    return F::multilabel_soft_margin_loss(x, t.detach());
  }));
  c.push_back(
      Case("nll_loss", x, Index({4}, 6), [](const at::Tensor& x, const at::Tensor& t) { return F::nll_loss(x, t); }));
  c.push_back(Case("nll_loss", T({2, 5, 3, 4}), Index({2, 3, 4}, 5),
                   [](const at::Tensor& x, const at::Tensor& t) { return F::nll_loss(x, t); }));
  c.push_back(Case("poisson_nll_loss", x, q,
                   [](const at::Tensor& x, const at::Tensor& t) { return F::poisson_nll_loss(x, t.detach()); }));
  c.push_back(
      Case("smooth_l1_loss", x, y, [](const at::Tensor& x, const at::Tensor& y) { return F::smooth_l1_loss(x, y); }));
  c.push_back(Case("soft_margin_loss", x, Signs({4, 6}),
                   [](const at::Tensor& x, const at::Tensor& t) { return F::soft_margin_loss(x, t.detach()); }));
  c.push_back(Case(
      "triplet_margin_loss", x, y, T({4, 6}),
      [](const at::Tensor& a, const at::Tensor& p, const at::Tensor& n) { return F::triplet_margin_loss(a, p, n); }));
  c.push_back(Case("triplet_margin_with_distance_loss", x, y, T({4, 6}),
                   [](const at::Tensor& a, const at::Tensor& p, const at::Tensor& n) {
                     return F::triplet_margin_with_distance_loss(a, p, n);
                   }));
}

void AddVision(Cases& c) {
  const Arg plane = T({2, 4, 5, 6});
  c.push_back(Case("affine_grid", T({2, 2, 3}), [](const at::Tensor& t) { return F::affine_grid(t, {2, 3, 4, 5}); }));
  c.push_back(Case("fold", T({2, 12, 12}), [](const at::Tensor& x) {
    return F::fold(x, F::FoldFuncOptions({4, 5}, {2, 2}));
  }));
  c.push_back(Case("fold", T({2, 12, 12}), [](const at::Tensor& x) {
    return F::fold(x, F::FoldFuncOptions({6, 8}, {2, 2}).stride({2, 2}).padding(1).dilation({2, 1}));
  }));
  c.push_back(Case("grid_sample", plane, T({2, 3, 4, 2}), [](const at::Tensor& x, const at::Tensor& g) {
    return F::grid_sample(x, g, F::GridSampleFuncOptions().align_corners(false));
  }));
  for (const bool align_corners : {false, true}) {
    c.push_back(
        {"interpolate", {plane}, [align_corners](const Tensors& in) {
           const auto options = F::InterpolateFuncOptions().size(std::vector<int64_t>{7, 9});
           auto linear = options, cubic = options;
           linear.mode(torch::kBilinear).align_corners(align_corners);
           cubic.mode(torch::kBicubic).align_corners(align_corners);
           return Tensors{F::interpolate(in[0], linear), F::interpolate(in[0], cubic), F::interpolate(in[0], options)};
         }});
  }
  c.push_back(Case("pad", plane, [](const at::Tensor& x) {
    return F::pad(x, F::PadFuncOptions({1, 2, 3, 0}).value(0.5));
  }));
  c.push_back({"pad", {plane}, [](const Tensors& in) {
                 const F::PadFuncOptions options({1, 2, 3, 0});
                 auto reflect = options, replicate = options, circular = options;
                 reflect.mode(torch::kReflect);
                 replicate.mode(torch::kReplicate);
                 circular.mode(torch::kCircular);
                 return Tensors{F::pad(in[0], reflect), F::pad(in[0], replicate), F::pad(in[0], circular)};
               }});
  c.push_back(Case("pixel_shuffle", plane, [](const at::Tensor& x) { return F::pixel_shuffle(x, 2); }));
  c.push_back(Case("pixel_unshuffle", T({2, 3, 4, 6}), [](const at::Tensor& x) { return F::pixel_unshuffle(x, 2); }));
  c.push_back(Case("unfold", plane, [](const at::Tensor& x) { return F::unfold(x, F::UnfoldFuncOptions({2, 3})); }));
  c.push_back(Case("unfold", plane, [](const at::Tensor& x) {
    return F::unfold(x, F::UnfoldFuncOptions({2, 2}).dilation({2, 1}).padding({1, 0}).stride({1, 2}));
  }));
}

}  // namespace

std::vector<FunctionalCase> FunctionalCases() {
  Cases cases;
  AddActivations(cases);
  AddNormalizations(cases);
  AddLinear(cases);
  AddDropout(cases);
  AddPooling(cases);
  AddLosses(cases);
  AddVision(cases);
  std::stable_sort(cases.begin(), cases.end(),
                   [](const FunctionalCase& a, const FunctionalCase& b) { return a.function < b.function; });
  return cases;
}

}  // namespace cotan::testing
