// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/call_facts.h"

#include <cmath>
#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace cotan::conformance {
namespace {

constexpr char kEager[] = R"({
  "outputs": [{"dtype": "float32", "size": [2], "stride": [1], "offset": 0, "requires_grad": true,
               "is_leaf": false, "is_view": true, "values": [1.5, "Infinity"]},
              {"py": "NoneType", "value": null}],
  "inputs_after": [{"dtype": "complex64", "size": [1], "stride": [1], "offset": 3, "requires_grad": false,
                    "is_leaf": true, "is_view": false, "values": [[0.5, -1]]}],
  "version_bumps": [2], "grad_mode_before": true, "grad_mode_after": false,
  "storage_alias_pairs": [["in0", "out0"]], "same_object_pairs": [["out0", "out1"]],
  "loss_terms": [0, 2], "root_grads": [null, {"dtype": "float32", "size": [2], "values": [1, 2]}],
  "inputs_after_backward": [[7, 8]]})";

CallFacts Calls() { return ParseCallFacts(Json::parse(kEager)); }
GradFacts Gradients() { return ParseGradFacts(Json::parse(kEager)); }

int NumDifferences(const CallFacts& actual) {
  Differences differences;
  CompareCalls(actual, Calls(), differences);
  return static_cast<int>(differences.all().size());
}

int NumDifferences(const GradFacts& actual) {
  Differences differences;
  CompareGradients(actual, Gradients(), differences);
  return static_cast<int>(differences.all().size());
}

TEST(CompareCalls, FindsNothingBetweenEqualFacts) { EXPECT_EQ(NumDifferences(Calls()), 0); }

TEST(CompareCalls, FindsEachChange) {
  const std::vector<std::function<void(CallFacts&)>> changes = {
      [](CallFacts& f) { f.outputs.pop_back(); },
      [](CallFacts& f) { f.outputs[0].is_none = true; },
      [](CallFacts& f) { f.outputs[0].dtype = "float64"; },
      [](CallFacts& f) {
        f.outputs[0].sizes = {2, 1};
      },
      [](CallFacts& f) { f.outputs[0].strides = {2}; },
      [](CallFacts& f) { f.outputs[0].offset = 1; },
      [](CallFacts& f) { f.outputs[0].requires_grad = false; },
      [](CallFacts& f) { f.outputs[0].is_leaf = true; },
      [](CallFacts& f) { f.outputs[0].is_view = false; },
      [](CallFacts& f) { f.outputs[0].values[0] = 1.50001; },
      [](CallFacts& f) { f.outputs[0].values[1] = NAN; },
      [](CallFacts& f) { f.outputs[0].values.pop_back(); },
      [](CallFacts& f) { f.inputs_after[0].values[1] = 1; },
      [](CallFacts& f) { f.version_bumped[0] = false; },
      [](CallFacts& f) { f.grad_mode_after = true; },
      [](CallFacts& f) { f.storage_alias_pairs.clear(); },
      [](CallFacts& f) { f.same_object_pairs[0].second = "out2"; },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    CallFacts changed = Calls();
    changes[i](changed);
    EXPECT_EQ(NumDifferences(changed), 1) << "change " << i;
  }
}

TEST(CompareCalls, FindsADifferentIsView) {
  CallFacts facts = Calls();
  facts.outputs[0].is_view = !facts.outputs[0].is_view;
  EXPECT_GT(NumDifferences(facts), 0);
}

TEST(CompareCalls, AllowsIsLeafFromBeforeGradFnWasRead) {
  CallFacts golden = Calls();
  golden.outputs[0].is_leaf = false;
  CallFacts actual = golden;
  actual.outputs[0].is_leaf = true;
  actual.outputs[0].is_leaf_when_asked = false;
  Differences differences;
  CompareCalls(actual, golden, differences);
  EXPECT_TRUE(differences.none());
}

TEST(CompareCalls, AllowsRounding) {
  CallFacts rounded = Calls();
  rounded.outputs[0].values[0] += 2e-6;
  EXPECT_EQ(NumDifferences(rounded), 0);
}

TEST(CompareCalls, AllowsRoundingRelativeToTheAbsoluteValueOfAComplexNumber) {
  CallFacts golden = Calls();
  golden.outputs[0].dtype = "complex64";
  golden.outputs[0].values = {100, 1};
  for (const double error : {1e-4, 1e-3}) {
    CallFacts rounded = golden;
    rounded.outputs[0].values[1] += error;
    Differences differences;
    CompareCalls(rounded, golden, differences);
    EXPECT_EQ(differences.none(), error < 2e-4);
  }
}

TEST(CompareCalls, InfinityDiffersFromAFiniteValue) {
  CallFacts golden = Calls();
  golden.outputs[0].values[0] = INFINITY;
  EXPECT_EQ(NumDifferences(golden), 1);
}

TEST(CompareGradients, FindsNothingBetweenEqualFacts) { EXPECT_EQ(NumDifferences(Gradients()), 0); }

TEST(CompareGradients, FindsEachChange) {
  const std::vector<std::function<void(GradFacts&)>> changes = {
      [](GradFacts& f) { f.loss_terms = {0}; },
      [](GradFacts& f) { f.root_grads.pop_back(); },
      [](GradFacts& f) {
        f.root_grads[0] = GradFacts::Gradient{"float32", {2}, {0, 0}};
      },
      [](GradFacts& f) { f.root_grads[1]->values[1] = 2.5; },
      [](GradFacts& f) { f.root_grads[1]->dtype = "float64"; },
      [](GradFacts& f) {
        f.root_grads[1]->sizes = {1, 2};
      },
      [](GradFacts& f) { f.inputs_after_backward[0][0] = 6; },
      [](GradFacts& f) { f.inputs_after_backward.clear(); },
  };
  for (size_t i = 0; i < changes.size(); ++i) {
    GradFacts changed = Gradients();
    changes[i](changed);
    EXPECT_EQ(NumDifferences(changed), 1) << "change " << i;
  }
}

}  // namespace
}  // namespace cotan::conformance
