// SPDX-License-Identifier: Apache-2.0

#include "aot/aotautograd/analyze_function.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <functional>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "aot/aotautograd/describe_examples.h"
#include "aot/aotautograd/input_binding.h"
#include "aot/aotautograd/metadata_summary.h"

// More tables: analyzed_inputs_test.cc, analyzed_input_aliases_test.cc, analyzed_intermediates_test.cc.
namespace cotan::aot {
namespace {

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
            "unique input 0 is f32[4]{1} of base 0 (f32[4]{1}); unique input 1 is i32[4]{1} of base 0 (f32[4]{1}) => "
            "IG:d | NA |  | INF");
  const at::Tensor pairs = plain.view(at::kComplexFloat);
  EXPECT_EQ(BindingSummary({pairs, plain.view(at::kInt)},
                           [](const Tensors& in) {
                             in[0].mul_(2);
                             return Tensors{in[1] + 1};
                           }),
            "inputs 0 (c64) and 1 (i32) share memory that is written to: input mutations on complex views with "
            "different dtypes are not supported; take the view inside");
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
