// SPDX-License-Identifier: Apache-2.0

#include "runtime/training/batch_feed.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/program_builder.h"

namespace cotan::training {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LinearRegression;
using testing::MethodBuilder;
using testing::ProgramBuilder;

template <typename T>
Tensor Values(std::vector<T> values, std::vector<int64_t> sizes) {
  return *Tensor::From<T>(values, absl::MakeConstSpan(sizes));
}

// A program with a method of one input.
std::shared_ptr<const Program> OneInput(DType dtype, const testing::Sizes& sizes) {
  ProgramBuilder program;
  MethodBuilder method = program.AddMethod("eval");
  method.Output("y", method.Input("x", dtype, sizes));
  return program.Load();
}

std::string Refusal(const std::shared_ptr<const Program>& program, Dataset data, Normalization normalization = {}) {
  const absl::Status status = BatchFeed::Create(*program, "eval", std::move(data), normalization, 1).status();
  EXPECT_FALSE(status.ok());
  return std::string(status.message());
}

TEST(BatchFeedTest, ConvertsAndReshapesExamples) {
  const Dataset data = *Dataset::Create({{"pixels", Values<uint8_t>({1, 2, 3, 4, 5, 6, 7, 8}, {2, 2, 2})}});
  const std::shared_ptr<const Program> program = OneInput(DType::kFloat32, {"2", "1", "2", "2"});
  absl::StatusOr<BatchFeed> feed = BatchFeed::Create(*program, "eval", data, {.mean = 1, .deviation = 2}, 1);
  ASSERT_TRUE(feed.ok()) << feed.status();
  EXPECT_EQ(feed->smallest_batch(), 2);
  const auto arguments = feed->Load({1, 0});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_EQ((*arguments)[0].ToString(), "f32[2,1,2,2]");
  EXPECT_THAT(*(*arguments)[0].ToVector<float>(), ElementsAre(2, 2.5, 3, 3.5, 0, 0.5, 1, 1.5));
  EXPECT_FALSE(feed->Load({0}).ok());
}

TEST(BatchFeedTest, BatchesOfAnySizeOfADynamicProgram) {
  const Dataset data = *Dataset::Create(
      {{"x", Values<double>({1, 2, 3, 4, 5, 6}, {2, 3})}, {"y", Values<float>({7, 8, 9, 10}, {2, 2})}});
  const std::shared_ptr<const Program> program = LinearRegression().Load();
  absl::StatusOr<BatchFeed> feed = BatchFeed::Create(*program, "train_step", data, {.mean = 1, .deviation = 1}, 1);
  ASSERT_TRUE(feed.ok()) << feed.status();
  EXPECT_EQ(feed->smallest_batch(), 1);
  EXPECT_EQ(feed->largest_batch(), 64);
  for (const std::vector<int64_t>& rows : {std::vector<int64_t>{1}, {0, 1, 0}}) {
    const auto arguments = feed->Load(rows);
    ASSERT_TRUE(arguments.ok()) << arguments.status();
    EXPECT_EQ((*arguments)[0].sizes()[0], static_cast<int64_t>(rows.size()));
    EXPECT_EQ((*arguments)[0].ToVector<float>()->at(0), rows[0] == 1 ? 3 : 0) << "normalized";
    EXPECT_EQ((*arguments)[1].ToVector<float>()->at(0), rows[0] == 1 ? 9 : 7) << "not normalized";
  }
}

TEST(BatchFeedTest, OtherDimensionsAreTheirSizesInTheData) {
  ProgramBuilder program;
  for (const char* name : {"batch", "length"}) {
    serialization::SymbolProto& symbol = *program.artifact().add_symbols();
    symbol.set_name(name);
    symbol.set_min(1);
    symbol.set_max(8);
  }
  MethodBuilder method = program.AddMethod("eval");
  method.Output("y", method.Input("tokens", DType::kInt64, {"s0", "s1"}));
  method.Output("z", method.Input("next", DType::kInt64, {"(s0 * s1)"}));
  const Tensor tokens = Values<int16_t>({1, 2, 3, 4, 5, 6}, {2, 3});
  const std::shared_ptr<const Program> loaded = program.Load();
  absl::StatusOr<BatchFeed> feed =
      BatchFeed::Create(*loaded, "eval", *Dataset::Create({{"a", tokens}, {"b", tokens}}), {}, 0);
  ASSERT_TRUE(feed.ok()) << feed.status();
  const auto arguments = feed->Load({1});
  ASSERT_TRUE(arguments.ok()) << arguments.status();
  EXPECT_THAT((*arguments)[0].ToString(), "i64[1,3]");
  EXPECT_THAT(*(*arguments)[1].ToVector<int64_t>(), ElementsAre(4, 5, 6));
}

TEST(BatchFeedTest, ClassesMustBeWholeNumbersInRange) {
  const auto classes = [](double value) { return *Dataset::Create({{"class", Values<double>({0, value}, {2})}}); };
  EXPECT_TRUE(BatchFeed::Create(*OneInput(DType::kInt64, {"2"}), "eval", classes(3), {}, 0).ok());
  EXPECT_THAT(Refusal(OneInput(DType::kInt64, {"2"}), classes(2.5)),
              HasSubstr("column 'class', example 1: a value is not a number of i64, the dtype of input 'x'"));
  EXPECT_THAT(Refusal(OneInput(DType::kInt64, {"2"}), classes(9.3e18)), HasSubstr("example 1"));
  EXPECT_THAT(Refusal(OneInput(DType::kUInt8, {"2"}), classes(256)), HasSubstr("example 1"));
  EXPECT_THAT(Refusal(OneInput(DType::kUInt8, {"2"}), classes(-1)), HasSubstr("example 1"));
  EXPECT_THAT(Refusal(OneInput(DType::kBool, {"2"}), classes(2)), HasSubstr("example 1"));
}

TEST(BatchFeedTest, DataThatDoNotFitAreNamed) {
  const Dataset data = *Dataset::Create({{"a", Values<float>({1, 2, 3, 4}, {2, 2})}});
  EXPECT_THAT(Refusal(OneInput(DType::kFloat32, {"2", "3"}), data),
              HasSubstr("column 'a' has 2 elements in an example (f32[2,2]), which do not fill input 'x' of sizes "
                        "[2,3] for a batch of 2"));
  EXPECT_THAT(Refusal(OneInput(DType::kFloat32, {}), data), HasSubstr("has no dimension of examples"));
  EXPECT_THAT(Refusal(OneInput(DType::kFloat16, {"2", "2"}), data), HasSubstr("store it as f16"));
  EXPECT_THAT(Refusal(LinearRegression().Load(),
                      *Dataset::Create({{"a", Values<float>({1}, {1})}, {"b", Values<float>({1}, {1})}})),
              HasSubstr("has 1 inputs ('input'), but the data has 2 columns for it ('a', 'b')"));
  EXPECT_THAT(Refusal(OneInput(DType::kFloat32, {"2", "2"}), data, {.mean = 0, .deviation = 0}),
              HasSubstr("deviation = 0"));
}

}  // namespace
}  // namespace cotan::training
