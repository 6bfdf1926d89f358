// SPDX-License-Identifier: Apache-2.0

#include "testing/conformance/harness/call_facts.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace cotan::conformance {
namespace {

constexpr double kTolerance = 2e-6;

double ParseValue(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_boolean()) return value.get<bool>() ? 1 : 0;
  if (value == "Infinity") return INFINITY;
  if (value == "-Infinity") return -INFINITY;
  return NAN;
}

// A pair for each complex element.
void AppendValues(const Json& values, std::vector<double>& to) {
  for (const Json& value : values) {
    if (value.is_array()) {
      AppendValues(value, to);
    } else {
      to.push_back(ParseValue(value));
    }
  }
}

std::vector<double> ParseValues(const Json& values) {
  std::vector<double> result;
  AppendValues(values, result);
  return result;
}

TensorFacts ParseTensor(const Json& json) {
  TensorFacts facts;
  if (!json.contains("dtype")) {  // {"py": "float", "value": 1.5}
    facts.is_none = !json.contains("value") || json["value"].is_null();
    if (!facts.is_none) facts.number = ParseValue(json["value"]);
    return facts;
  }
  facts.dtype = json["dtype"];
  facts.sizes = json["size"].get<std::vector<int64_t>>();
  facts.strides = json["stride"].get<std::vector<int64_t>>();
  facts.offset = json["offset"];
  facts.requires_grad = json["requires_grad"];
  facts.is_leaf = json["is_leaf"];
  facts.is_view = json["is_view"];
  facts.values = ParseValues(json["values"]);
  return facts;
}

NamePairs ParsePairs(const Json& json) {
  NamePairs pairs;
  for (const Json& pair : json) pairs.emplace_back(pair[0], pair[1]);
  return pairs;
}

// A number of one element or of two parts, as the values from `at`.
double Magnitude(const std::vector<double>& values, size_t at, size_t parts) {
  double magnitude = 0;
  for (size_t i = at; i < at + parts; ++i) {
    if (std::isfinite(values[i])) magnitude = std::max(magnitude, std::fabs(values[i]));
  }
  return magnitude;
}

bool IsClose(double a, double b, double magnitude) {
  if (a == b || (std::isnan(a) && std::isnan(b))) return true;
  return std::isfinite(a - b) && std::fabs(a - b) <= kTolerance * std::max(1.0, magnitude);
}

bool AreClose(const std::vector<double>& a, const std::vector<double>& b, size_t parts) {
  if (a.size() != b.size()) return false;
  for (size_t i = 0; i < a.size(); ++i) {
    const size_t number = i - i % parts;
    if (!IsClose(a[i], b[i], std::max(Magnitude(a, number, parts), Magnitude(b, number, parts)))) return false;
  }
  return true;
}

void CompareValues(const std::vector<double>& actual, const std::vector<double>& expected, absl::string_view dtype,
                   const std::string& place, Differences& d) {
  const size_t parts = absl::StartsWith(dtype, "complex") && actual.size() % 2 == 0 ? 2 : 1;
  if (!AreClose(actual, expected, parts)) {
    d.Add(absl::StrCat(place, ": ", Describe(actual), " instead of ", Describe(expected)));
  }
}

// A golden file does not record whether grad_fn was read before.
void CompareLeaf(const TensorFacts& actual, const TensorFacts& expected, const std::string& place, Differences& d) {
  const bool both_asked = actual.is_leaf_when_asked.has_value() && expected.is_leaf_when_asked.has_value();
  if (!both_asked && actual.is_leaf_when_asked == expected.is_leaf) return;
  d.Expect(absl::StrCat(place, ".is_leaf"), both_asked ? *actual.is_leaf_when_asked : actual.is_leaf,
           both_asked ? *expected.is_leaf_when_asked : expected.is_leaf);
}

void CompareTensor(const TensorFacts& actual, const TensorFacts& expected, const std::string& place, Differences& d) {
  d.Expect(absl::StrCat(place, " is none"), actual.is_none, expected.is_none);
  d.Expect(absl::StrCat(place, " is a number"), actual.number.has_value(), expected.number.has_value());
  if (actual.number.has_value() && expected.number.has_value()) {
    CompareValues({*actual.number}, {*expected.number}, /*dtype=*/"", place, d);
  }
  if (actual.is_none || expected.is_none || actual.number.has_value() || expected.number.has_value()) return;
  d.Expect(absl::StrCat(place, ".dtype"), actual.dtype, expected.dtype);
  d.Expect(absl::StrCat(place, ".sizes"), actual.sizes, expected.sizes);
  d.Expect(absl::StrCat(place, ".strides"), actual.strides, expected.strides);
  d.Expect(absl::StrCat(place, ".offset"), actual.offset, expected.offset);
  CompareValues(actual.values, expected.values, expected.dtype, absl::StrCat(place, ".values"), d);
  d.Expect(absl::StrCat(place, ".requires_grad"), actual.requires_grad, expected.requires_grad);
  CompareLeaf(actual, expected, place, d);
  d.Expect(absl::StrCat(place, ".is_view"), actual.is_view, expected.is_view);
}

std::string PairsText(const NamePairs& pairs) {
  std::string text = "[";
  for (const auto& [a, b] : pairs) absl::StrAppend(&text, text.size() > 1 ? " " : "", a, "=", b);
  return text + "]";
}

}  // namespace

CallFacts ParseCallFacts(const Json& eager) {
  CallFacts facts;
  for (const Json& output : eager["outputs"]) facts.outputs.push_back(ParseTensor(output));
  for (const Json& input : eager["inputs_after"]) facts.inputs_after.push_back(ParseTensor(input));
  for (const Json& bumps : eager["version_bumps"]) facts.version_bumped.push_back(bumps != 0);
  facts.grad_mode_after = eager["grad_mode_after"];
  facts.storage_alias_pairs = ParsePairs(eager["storage_alias_pairs"]);
  facts.same_object_pairs = ParsePairs(eager["same_object_pairs"]);
  return facts;
}

GradFacts ParseGradFacts(const Json& eager) {
  GradFacts facts;
  facts.loss_terms = eager["loss_terms"].get<std::vector<int>>();
  for (const Json& gradient : eager["root_grads"]) {
    facts.root_grads.emplace_back();
    if (gradient.is_null()) continue;
    facts.root_grads.back() = GradFacts::Gradient{gradient["dtype"], gradient["size"].get<std::vector<int64_t>>(),
                                                  ParseValues(gradient["values"])};
  }
  if (eager.contains("inputs_after_backward")) {
    for (const Json& input : eager["inputs_after_backward"]) {
      facts.inputs_after_backward.push_back(ParseValues(input.contains("values") ? input["values"] : input));
    }
  }
  return facts;
}

void CompareCalls(const CallFacts& actual, const CallFacts& expected, Differences& d) {
  d.Expect("number of outputs", actual.outputs.size(), expected.outputs.size());
  for (size_t i = 0; i < std::min(actual.outputs.size(), expected.outputs.size()); ++i) {
    CompareTensor(actual.outputs[i], expected.outputs[i], absl::StrCat("output ", i), d);
  }
  for (size_t i = 0; i < std::min(actual.inputs_after.size(), expected.inputs_after.size()); ++i) {
    CompareTensor(actual.inputs_after[i], expected.inputs_after[i], absl::StrCat("input ", i, " after"), d);
  }
  d.Expect("same objects", PairsText(actual.same_object_pairs), PairsText(expected.same_object_pairs));
  d.Expect("shared storage", PairsText(actual.storage_alias_pairs), PairsText(expected.storage_alias_pairs));
  d.Expect("versions bumped", actual.version_bumped, expected.version_bumped);
  d.Expect("grad mode after", actual.grad_mode_after, expected.grad_mode_after);
}

void CompareGradients(const GradFacts& actual, const GradFacts& expected, Differences& d) {
  d.Expect("loss terms", actual.loss_terms, expected.loss_terms);
  d.Expect("number of roots", actual.root_grads.size(), expected.root_grads.size());
  for (size_t i = 0; i < std::min(actual.root_grads.size(), expected.root_grads.size()); ++i) {
    const std::string place = absl::StrCat("gradient of root ", i);
    const auto& a = actual.root_grads[i];
    const auto& b = expected.root_grads[i];
    d.Expect(absl::StrCat(place, " is defined"), a.has_value(), b.has_value());
    if (!a.has_value() || !b.has_value()) continue;
    d.Expect(absl::StrCat(place, ".dtype"), a->dtype, b->dtype);
    d.Expect(absl::StrCat(place, ".sizes"), a->sizes, b->sizes);
    CompareValues(a->values, b->values, b->dtype, place, d);
  }
  d.Expect("inputs after backward", actual.inputs_after_backward.size(), expected.inputs_after_backward.size());
  for (size_t i = 0; i < std::min(actual.inputs_after_backward.size(), expected.inputs_after_backward.size()); ++i) {
    CompareValues(actual.inputs_after_backward[i], expected.inputs_after_backward[i], /*dtype=*/"",
                  absl::StrCat("input ", i, " after backward"), d);
  }
}

}  // namespace cotan::conformance
