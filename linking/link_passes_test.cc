// SPDX-License-Identifier: Apache-2.0

#include "linking/link_passes.h"

#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

namespace cotan {
namespace {

using serialization::Method;
using serialization::Op;

// Builds a method from lines:
//   in p g       inputs
//   a = op p g   an op; "gather", "print" and "check" are ops that a caller observes
//   acc p g      the sum of both becomes the new content of p
//   out a        results
Method Parse(const std::string& text) {
  Method method;
  std::map<std::string, uint32_t> value_of;
  std::map<std::string, uint32_t> input_of;
  const auto define = [&](const std::string& name) {
    method.add_values()->set_name(name);
    return value_of[name] = static_cast<uint32_t>(method.values_size() - 1);
  };
  for (const absl::string_view line : absl::StrSplit(text, '\n', absl::SkipWhitespace())) {
    std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    if (words[0] == "in" || words[0] == "out") {
      for (size_t i = 1; i < words.size(); ++i) {
        if (words[0] == "out") {
          method.add_outputs(value_of.at(words[i]));
          continue;
        }
        input_of[words[i]] = static_cast<uint32_t>(method.inputs_size());
        method.add_inputs(define(words[i]));
      }
      continue;
    }
    const bool accumulates = words[0] == "acc";
    const size_t first = accumulates ? 1 : words[0] == "print" ? 1 : 3;
    Op& op = *method.add_ops();
    op.set_source(std::string(line));
    for (size_t i = first; i < words.size(); ++i) op.add_inputs(value_of.at(words[i]));
    if (words[0] == "print") {
      op.mutable_effect();
      continue;
    }
    const std::string kind = accumulates ? "op" : words[2];
    if (kind == "gather") {
      op.mutable_gather();
    } else if (kind == "check") {
      op.mutable_checked_index();
    } else {
      op.mutable_expr();
    }
    const uint32_t value = define(accumulates ? absl::StrCat("new ", words[1]) : words[0]);
    op.add_outputs(value);
    if (!accumulates) continue;
    serialization::InputUpdate& update = *method.add_input_updates();
    update.set_input(input_of.at(words[1]));
    update.set_value(value);
  }
  return method;
}

// Returns the ops, one line each.
std::string Text(const Method& method) {
  std::vector<std::string> lines;
  for (const Op& op : method.ops()) lines.push_back(op.source());
  return absl::StrJoin(lines, "\n");
}

std::string AccumulatedSoon(const std::string& text) {
  Method method = Parse(text);
  AccumulateAsSoonAsPossible(method);
  return Text(method);
}

std::string WithoutDeadOps(const std::string& text) {
  Method method = Parse(text);
  RemoveDeadOps(method);
  return Text(method);
}

TEST(LinkPassesTest, AnAccumulationStandsBehindItsGradient) {
  EXPECT_EQ(AccumulatedSoon("in p x\n"
                            "g = op x\n"
                            "a = op g\n"
                            "b = op a\n"
                            "acc p g\n"
                            "out b\n"),
            "g = op x\n"
            "acc p g\n"
            "a = op g\n"
            "b = op a");
}

TEST(LinkPassesTest, AnAccumulationOfAnInputStays) {
  EXPECT_EQ(AccumulatedSoon("in p q\n"
                            "a = op q\n"
                            "acc p q\n"
                            "b = op a\n"
                            "out b\n"),
            "a = op q\n"
            "acc p q\n"
            "b = op a");
}

TEST(LinkPassesTest, AccumulationsOfOneGradientKeepTheirOrder) {
  EXPECT_EQ(AccumulatedSoon("in p q x\n"
                            "g = op x\n"
                            "a = op g\n"
                            "acc p g\n"
                            "acc q g\n"
                            "out a\n"),
            "g = op x\n"
            "acc p g\n"
            "acc q g\n"
            "a = op g");
}

TEST(LinkPassesTest, OpsThatNobodyReadsVanish) {
  EXPECT_EQ(WithoutDeadOps("in x\n"
                           "a = op x\n"
                           "b = op a\n"
                           "c = op a\n"
                           "out c\n"),
            "a = op x\n"
            "c = op a");
}

TEST(LinkPassesTest, EffectsChecksAndAccumulationsStayWithWhatTheyRead) {
  const std::string text =
      "a = op x\n"
      "print a\n"
      "b = op x\n"
      "c = check b\n"
      "d = gather x b\n"
      "e = op x\n"
      "acc p e";
  EXPECT_EQ(WithoutDeadOps(absl::StrCat("in p x\n", text, "\nf = op e\n")), text);
}

}  // namespace
}  // namespace cotan
