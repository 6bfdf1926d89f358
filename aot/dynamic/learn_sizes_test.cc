// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/learn_sizes.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/substitute.h"
#include "aot/ir/text.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace cotan::aot {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

const DynamicShapes kShapes{{{"time", 2, 64, 8}}, {{SymInt::Symbol(0)}}};
const std::vector<DimVector> kPoints = {{11}, {14}, {13}, {2}, {64}};
constexpr int kNumBase = 3;

// Returns the graphs of `text`, with $0, $1, $2 replaced by each element of `fill`.
MethodTraces Traces(absl::string_view text, const std::function<std::vector<int64_t>(int64_t)>& fill) {
  MethodTraces traces;
  traces.name = "forward";
  for (const DimVector& point : kPoints) {
    std::vector<std::string> texts;
    for (const int64_t value : fill(point[0])) texts.push_back(absl::StrCat(value));
    texts.resize(3);
    const std::string filled = absl::Substitute(text, texts[0], texts[1], texts[2]);
    auto graph = ParseGraph(filled);
    EXPECT_TRUE(graph.ok()) << graph.status() << filled;
    traces.graphs.push_back(*std::move(graph));
  }
  return traces;
}

absl::StatusOr<LearnedSizes> Learn(MethodTraces traces) {
  return InferSymbolicSizes(kShapes, kPoints, kNumBase, {std::move(traces)});
}

TEST(LearnSizesTest, SizesBecomeExpressions) {
  const auto learned = Learn(Traces(R"(graph @forward {
  %0: f32[$0,4] = user_input 0 "input.0"
  %1: f32[$1] = aten.view.default(%0, [$1])
  user_output 0 "output.0" = %1
}
)",
                                    [](int64_t n) {
                                      return std::vector<int64_t>{n, 4 * n};
                                    }));
  ASSERT_TRUE(learned.ok()) << learned.status();
  EXPECT_THAT(learned->others, Contains(SymInt::Symbol(0) * SymInt(4)));
}

constexpr absl::string_view kSlice = R"(graph @forward {
  %0: f32[$0] = user_input 0 "input.0"
  %1: f32[$1] = aten.slice.Tensor(%0, 0, 0, $2, 1)
  user_output 0 "output.0" = %1
}
)";

TEST(LearnSizesTest, ASizeThatIsBoundedWithinTheRangeIsRefused) {
  const auto bounded = [](int64_t limit) {
    return [limit](int64_t n) { return std::vector<int64_t>{n, std::min(n, limit), 9999}; };
  };
  EXPECT_TRUE(Learn(Traces(kSlice, bounded(64))).ok());
  EXPECT_THAT(
      Learn(Traces(kSlice, bounded(40))).status().message(),
      HasSubstr("method 'forward', aten.slice.Tensor: a size is not a known function of the dynamic dimensions: it "
                "was 11, 14, 13, 2, 40"));
  EXPECT_THAT(Learn(Traces(kSlice, bounded(5))).status().message(), HasSubstr("it was 5, 5, 5, 2, 5"));
}

TEST(LearnSizesTest, AnotherProgramAtOtherSizesIsRefused) {
  const auto fill = [](int64_t n) { return std::vector<int64_t>{n}; };
  MethodTraces traces = Traces(R"(graph @forward {
  %0: f32[$0] = user_input 0 "input.0"
  %1: f32[$0] = aten.neg.default(%0)
  user_output 0 "output.0" = %1
}
)",
                               fill);
  traces.graphs[4].nodes().front().op = "aten.abs.default";
  EXPECT_THAT(Learn(traces).status().message(),
              HasSubstr("where it has aten.neg.default with time=11, it has aten.abs.default with time=64"));
  traces.graphs[4].nodes().clear();
  EXPECT_THAT(Learn(traces).status().message(), HasSubstr("it has its end with time=64"));
}

TEST(LearnSizesTest, WindowsAreRoundedAsTheOpDoes) {
  const auto learned = Learn(Traces(R"(graph @forward {
  %0: f32[2,3,$0] = user_input 0 "input.0"
  %1: f32[8,3,3] = parameter 0 "weight"
  %2: f32[2,8,$1] = aten.convolution.default(%0, %1, none, [2], [1], [1], false, [0], 1)
  user_output 0 "output.0" = %2
}
)",
                                    [](int64_t n) {
                                      return std::vector<int64_t>{n, (n - 1) / 2 + 1};
                                    }));
  ASSERT_TRUE(learned.ok()) << learned.status();
  ASSERT_EQ(learned->windows.size(), 1u);
  for (int64_t n = 1; n < 20; ++n) EXPECT_EQ(*learned->windows[0].Evaluate({n}), (n - 1) / 2 + 1);
}

}  // namespace
}  // namespace cotan::aot
