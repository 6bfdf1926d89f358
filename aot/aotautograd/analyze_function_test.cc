// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/analyze_function.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/custom_function.h>

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "aot/aotautograd/describe_examples.h"
#include "aot/aotautograd/input_binding.h"
#include "serialization/metadata/view_step.h"

namespace cotan::aot {
namespace {

using Tensors = std::vector<at::Tensor>;

// A leaf that requires grad, the result of an op on one, a tensor without grad.
at::Tensor Leaf(at::IntArrayRef sizes) { return at::rand(sizes).requires_grad_(true); }
at::Tensor NonLeaf(at::IntArrayRef sizes) { return Leaf(sizes) * 1; }
at::Tensor Plain(at::IntArrayRef sizes) { return at::rand(sizes); }

// "OG:dm", "IG:d/ng", "-": who writes, what, unseen by autograd or under
// no_grad.
std::string InputText(const InputAliasInfo& info) {
  const MutationType type = MutationTypeOf(info);
  if (type == MutationType::kNotMutated) return "-";
  return absl::StrCat(type == MutationType::kMutatedInGraph ? "IG:" : "OG:", info.mutates_data ? "d" : "",
                      info.mutates_metadata ? "m" : "", info.mutates_storage_metadata ? "s" : "",
                      info.mutations_hidden_from_autograd ? "/hid" : "",
                      info.mutations_under_no_grad_or_inference_mode ? "/ng" : "");
}

// "IN0[view]*": type, base, views, requires grad.
std::string OutputText(const OutputAliasInfo& info) {
  static const char* const kTypes[] = {"", "NA", "IN", "IS", "AIS", "AI", "AIB", "UV", "CFV"};
  std::string text = kTypes[static_cast<int>(info.output_type)];
  if (info.base_index.has_value()) absl::StrAppend(&text, *info.base_index);
  std::vector<std::string> steps;
  for (const ViewStep& step : info.view_steps) {
    const std::string full = ToString(step);
    steps.push_back(full.substr(0, full.find('(')));
  }
  if (!steps.empty()) absl::StrAppend(&text, "[", absl::StrJoin(steps, ","), "]");
  if (info.shared_storage.has_value()) {
    static const char* const kOwners[] = {"in", "out", "base"};
    absl::StrAppend(&text, info.shared_storage->is_same_tensor ? "=" : "@",
                    kOwners[static_cast<int>(info.shared_storage->owner)], info.shared_storage->index);
  }
  if (info.requires_grad) text += info.requires_grad_for_backward ? "*" : "^";
  return text;
}

std::string TangentText(const TangentMeta& tangent) {
  static const char* const kKinds[] = {"IM", "P", "IB"};
  return absl::StrCat(kKinds[static_cast<int>(tangent.source.kind)], tangent.source.index);
}

// "inputs | outputs | tangents | TR or INF", then what else was found.
std::string Summary(const ViewAndMutationMetaFields& facts) {
  std::vector<std::string> inputs, outputs, tangents;
  for (const InputAliasInfo& info : facts.input_info) inputs.push_back(InputText(info));
  for (const OutputAliasInfo& info : facts.output_info) outputs.push_back(OutputText(info));
  for (const TangentMeta& tangent : facts.tangents) tangents.push_back(TangentText(tangent));
  std::string text = absl::StrCat(absl::StrJoin(inputs, " "), " | ", absl::StrJoin(outputs, " "), " | ",
                                  absl::StrJoin(tangents, " "), facts.is_train ? " | TR" : " | INF");
  if (facts.num_intermediate_bases > 0) absl::StrAppend(&text, " nib", facts.num_intermediate_bases);
  if (facts.grad_enabled_mutation.has_value()) absl::StrAppend(&text, " grad", *facts.grad_enabled_mutation);
  return text;
}

struct Halved : torch::autograd::Function<Halved> {
  static at::Tensor forward(torch::autograd::AutogradContext*, at::Tensor x) { return x.view({-1}); }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext*,
                                                 torch::autograd::variable_list gradients) {
    return {gradients[0] * 0.5};
  }
};

struct Case {
  const char* name;
  Tensors inputs;
  std::function<Tensors(const Tensors&)> function;
  const char* summary;
  bool keep_input_mutations = true;
  bool grad_enabled = true;
};

void Check(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    AnalyzeFunctionOptions options;
    options.keep_input_mutations = c.keep_input_mutations;
    options.grad_enabled = c.grad_enabled;
    const auto facts = AnalyzeFunction(c.function, {}, c.inputs, options);
    if (facts.ok()) {
      EXPECT_EQ(Summary(*facts), c.summary) << c.name;
    } else {
      EXPECT_EQ(std::string(facts.status().message()), c.summary) << c.name;
    }
    EXPECT_EQ(at::GradMode::is_enabled(), true) << c.name;
  }
}

TEST(AnalyzeFunctionTest, DataOfInputs) {
  Check({
      {"visible to autograd",
       {NonLeaf({3, 3})},
       [](const Tensors& in) { return Tensors{in[0].mul_(2) * 3}; },
       "OG:d | NA* | IM0 P0 | TR"},
      {"without grad, kept",
       {Plain({3})},
       [](const Tensors& in) { return Tensors{in[0].mul_(2) * 3}; },
       "IG:d | NA |  | INF"},
      {"without grad, not kept",
       {Plain({3})},
       [](const Tensors& in) { return Tensors{in[0].mul_(2) * 3}; },
       "OG:d | NA |  | INF",
       false},
      {"two of three",
       {NonLeaf({3}), Leaf({3}), NonLeaf({3})},
       [](const Tensors& in) {
         in[0].mul_(2);
         in[2].mul_(2);
         return Tensors{in[0] + in[1] + in[2]};
       },
       "OG:d - OG:d | NA* | IM0 IM2 P0 | TR"},
      {"written to as out=",
       {Plain({3}), Plain({3})},
       [](const Tensors& in) {
         at::Tensor target = in[1];
         return Tensors{at::sin_out(target, in[0])};
       },
       "- IG:d | IS1 |  | INF"},
      {"through a detached alias of a leaf",
       {Leaf({4})},
       [](const Tensors& in) {
         in[0].detach().mul_(2);
         return Tensors{in[0] + 3};
       },
       "OG:d | NA* | IM0 P0 | TR"},
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
      {"undone values are still written",
       {Plain({3})},
       [](const Tensors& in) {
         in[0].mul_(2);
         return Tensors{in[0].div_(2) + 1};
       },
       "IG:d | NA |  | INF"},
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
      {"a leaf",
       {Leaf({3})},
       [](const Tensors& in) { return Tensors{in[0].mul_(2)}; },
       "analyzing the function: a leaf Variable that requires grad is being used in an in-place operation. "
       "(aten.mul_.Scalar)"},
  });
}

TEST(AnalyzeFunctionTest, MetadataOfInputs) {
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
      {"returned",
       {NonLeaf({3})},
       [](const Tensors& in) { return Tensors{in[0].unsqueeze_(0)}; },
       "OG:m/hid | IS0* |  | INF"},
      {"nothing to squeeze",
       {Plain({2, 3})},
       [](const Tensors& in) {
         in[0].squeeze_(0);
         return Tensors{in[0] + 1};
       },
       "- | NA |  | INF"},
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
      {"detached in place",
       {NonLeaf({3}), Leaf({3})},
       [](const Tensors& in) {
         in[0].detach_();
         return Tensors{in[0] * in[1]};
       },
       "- - | NA* | P0 | TR"},
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

TEST(AnalyzeFunctionTest, StorageOfInputs) {
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

TEST(AnalyzeFunctionTest, OutputsThatAliasInputs) {
  Check({
      {"a view",
       {NonLeaf({2, 2})},
       [](const Tensors& in) { return Tensors{in[0].view({-1})}; },
       "- | IN0[view]* |  | INF"},
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
      {"as_strided",
       {NonLeaf({4})},
       [](const Tensors& in) {
         return Tensors{in[0].as_strided({2, 2}, {1, 1})};
       },
       "- | IN0[as_strided]* |  | INF"},
      {"contiguous already",
       {Leaf({4})},
       [](const Tensors& in) { return Tensors{in[0].contiguous()}; },
       "- | IS0* |  | INF"},
      {"reshaped with a copy",
       {Leaf({2, 3})},
       [](const Tensors& in) { return Tensors{in[0].t().reshape(-1)}; },
       "- | NA* | P0 | TR"},
      {"a view that requires grad",
       {Plain({4}), Leaf({4})},
       [](const Tensors& in) {
         return Tensors{in[0].view({2, 2}).requires_grad_(true)};
       },
       "- - | IN0[view]^ |  | TR"},
      {"written to, and an older alias",
       {NonLeaf({4})},
       [](const Tensors& in) {
         const at::Tensor t = in[0].detach();
         in[0].mul_(2);
         return Tensors{in[0], t};
       },
       "OG:d | IS0* IN0[detach] | IM0 | TR"},
      {"a view of a view",
       {NonLeaf({3, 2})},
       [](const Tensors& in) {
         in[0].mul_(2);
         const at::Tensor t = in[0].t();
         return Tensors{t, t.select(0, 0).detach()};
       },
       "OG:d | IN0[permute]* IN0[permute,select,detach] | IM0 | TR"},
      {"a view that a custom function returns",
       {Leaf({4})},
       [](const Tensors& in) { return Tensors{Halved::apply(in[0])}; },
       "- | CFV[view]@in0* | P0 | TR"},
      {"the same of an intermediate",
       {Leaf({4})},
       [](const Tensors& in) { return Tensors{Halved::apply(in[0] * 2)}; },
       "- | UV* | P0 | TR"},
      {"of a tensor that occurs twice", {}, [](const Tensors&) { return Tensors{at::ones({2})}; }, " | NA |  | INF"},
  });
  const at::Tensor twice = Leaf({4});
  Check({{"the last occurrence counts",
          {twice, twice},
          [](const Tensors& in) {
            return Tensors{in[0].view({2, 2}), in[0]};
          },
          "- - | IN1[view]* IS1* |  | INF"}});
}

TEST(AnalyzeFunctionTest, OutputsThatAliasIntermediates) {
  Check({
      {"a single view",
       {Leaf({2, 2})},
       [](const Tensors& in) { return Tensors{(in[0] * 3).view({-1})}; },
       "- | UV* | P0 | TR"},
      {"a single view without grad",
       {Plain({2, 2})},
       [](const Tensors& in) { return Tensors{(in[0] * 3).view({-1})}; },
       "- | NA |  | INF"},
      {"two views",
       {Leaf({2, 2})},
       [](const Tensors& in) {
         const at::Tensor o = in[0] * 3;
         return Tensors{o.view({-1}), o.view({-1})};
       },
       "- | AIS0[view]* AI0[view]* | IB0 | TR nib1"},
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
      {"two bases",
       {Leaf({2, 2})},
       [](const Tensors& in) {
         const at::Tensor o1 = in[0] * 3, o2 = in[0] * 4;
         return Tensors{o1.view({-1}), o2.t(), o1.t()};
       },
       "- | AIS0[view]* UV* AI0[permute]* | P1 IB0 | TR nib1"},
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
      {"a no-op view without grad",
       {Plain({4})},
       [](const Tensors& in) {
         const at::Tensor o = in[0] * 3;
         return Tensors{o, o.view({4})};
       },
       "- | NA AIB0[view] |  | INF"},
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

TEST(AnalyzeFunctionTest, GradMode) {
  Check({
      {"turned off",
       {Leaf({3})},
       [](const Tensors& in) {
         const at::Tensor y = in[0] * in[0];
         at::GradMode::set_enabled(false);
         return Tensors{y.clone(), y};
       },
       "- | NA NA* | P1 | TR grad0"},
      {"on inside, called under no_grad",
       {Leaf({3})},
       [](const Tensors& in) {
         at::AutoGradMode enabled(true);
         return Tensors{in[0].cos()};
       },
       "- | NA* | P0 | TR",
       true,
       false},
      {"a view, called under no_grad",
       {Leaf({4})},
       [](const Tensors& in) {
         return Tensors{in[0].view({2, 2}), in[0].sin()};
       },
       "- | IN0[view]^ NA |  | INF",
       true,
       false},
  });
}

// "a: base 0, b: argument 1", then the program's facts.
std::string BindingSummary(const Tensors& inputs, const std::function<Tensors(const Tensors&)>& function) {
  const auto facts = AnalyzeFunction(function, {}, inputs, {});
  if (!facts.ok()) return std::string(facts.status().message());
  const auto bound = BindInputs(*facts, DescribeExamples({}, inputs));
  if (!bound.ok()) return std::string(bound.status().message());
  return absl::StrCat(bound->binding.ToString(), " => ", Summary(bound->program_facts));
}

TEST(AnalyzeFunctionTest, MergesInputsThatShareMemory) {
  const auto both = [](const Tensors& in) {
    in[0].add_(1);
    return Tensors{in[0] + in[1]};
  };
  const at::Tensor x = NonLeaf({2, 2});
  EXPECT_EQ(BindingSummary({x[0], x[0]}, both),
            "unique input 0 is f32[2]{1} of base 0 (f32[2, 2]{2, 1}); unique input 1 is f32[2]{1} of base 0 (f32[2, "
            "2]{2, 1}) => OG:d | NA* | IM0 P0 | TR");
  EXPECT_EQ(BindingSummary({x[0], x[1]}, both), "arguments as they are => OG:d - | NA* | IM0 P0 | TR");
  EXPECT_EQ(BindingSummary({x[0], x},
                           [](const Tensors& in) {
                             in[0].add_(1);
                             return Tensors{in[1].view({-1}), in[0]};
                           }),
            "unique input 0 is f32[2]{1} of base 0 (f32[2, 2]{2, 1}); unique input 1 is f32[2, 2]{2, 1} of base 0 "
            "(f32[2, 2]{2, 1}) => OG:d | IN0[view]* IN0[as_strided]* | IM0 | TR");
  const at::Tensor leaf = Leaf({4});
  EXPECT_EQ(BindingSummary({leaf, leaf.detach()},
                           [](const Tensors& in) {
                             in[1].mul_(2);
                             return Tensors{in[0] * 3};
                           }),
            "unique input 0 is f32[4]{1} of base 0 (f32[4]{1}); unique input 1 is f32[4]{1} of base 0 (f32[4]{1}), "
            "detached => IG:d/ng | NA* | P0 | TR");
  const at::Tensor plain = Plain({4});
  EXPECT_EQ(BindingSummary({plain, plain.view(at::kInt)}, both),
            "inputs 0 (f32) and 1 (i32) share memory that is written to: input mutations on views with different "
            "dtypes are not supported");
  EXPECT_EQ(BindingSummary({plain, plain, plain.slice(0, 1, 3)}, both),
            "input 1 is input 0; unique input 0 is f32[4]{1} of base 0 (f32[4]{1}); unique input 1 is f32[2]{1}+1 of "
            "base 0 (f32[4]{1}) => IG:d | NA |  | INF");
}

TEST(AnalyzeFunctionTest, RecordsWhetherDeterministicAlgorithmsAreEnabled) {
  const auto recorded = [] {
    return AnalyzeFunction([](const Tensors& in) { return Tensors{in[0] * 2}; }, {}, {Leaf({3})}, {})->deterministic;
  };
  EXPECT_EQ(recorded(), std::optional(false));
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/false);
  EXPECT_EQ(recorded(), std::optional(true));
  at::globalContext().setDeterministicAlgorithms(true, /*warn_only=*/true);
  EXPECT_EQ(recorded(), std::optional(true));
  at::globalContext().setDeterministicAlgorithms(false, /*warn_only=*/false);
}

}  // namespace
}  // namespace cotan::aot
