// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/arguments.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/limited_device.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using serialization::SymbolProto;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::LimitedDevice;
using testing::MethodBuilder;
using testing::ProgramBuilder;

Tensor Zeros(const DimVector& sizes, DType dtype = DType::kFloat32) { return *Tensor::Zeros(dtype, sizes); }

// run(x f32[s0, (s0 * 2)], y f32[s1]) of dimensions "rows" and "columns"; no argument has the third one,
// "other".
std::shared_ptr<const Program> TwoSymbols() {
  ProgramBuilder program;
  for (const char* name : {"rows", "columns", "other"}) {
    SymbolProto& symbol = *program.artifact().add_symbols();
    symbol.set_name(name);
    symbol.set_min(2);
    symbol.set_max(10);
  }
  MethodBuilder m = program.AddMethod("run");
  m.Input("x", DType::kFloat32, {"s0", "(s0 * 2)"});
  m.Input("y", DType::kFloat32, {"s1"});
  return program.Load();
}

absl::StatusOr<DimVector> Check(const Program& program, const std::vector<Tensor>& arguments,
                                const Device& device = HostDevice()) {
  return CheckArguments(program, program.method(0), /*num_saved=*/0, arguments, device, {});
}

TEST(ArgumentsTest, SymbolsFollowFromSizes) {
  const auto program = TwoSymbols();
  const absl::StatusOr<DimVector> symbols = Check(*program, {Zeros({3, 6}), Zeros({5})});
  ASSERT_TRUE(symbols.ok()) << symbols.status();
  EXPECT_THAT(*symbols, ElementsAre(3, 5, 2));
}

TEST(ArgumentsTest, DerivedSizesAreChecked) {
  const auto program = TwoSymbols();
  const absl::Status status = Check(*program, {Zeros({3, 7}), Zeros({5})}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("argument 0 'x': expected f32[s0,(s0 * 2)], got f32[3,7]"));
}

TEST(ArgumentsTest, DerivedSizesGiveTheirSymbols) {
  ProgramBuilder program;
  SymbolProto& symbol = *program.artifact().add_symbols();
  symbol.set_name("half");
  symbol.set_min(2);
  symbol.set_max(10);
  MethodBuilder m = program.AddMethod("run");
  m.Input("x", DType::kFloat32, {"(s0 * 2)"});
  m.Input("y", DType::kFloat32, {"s0"});
  const auto loaded = program.Load();
  EXPECT_THAT(*Check(*loaded, {Zeros({6}), Zeros({3})}), ElementsAre(3));
  EXPECT_THAT(std::string(Check(*loaded, {Zeros({6}), Zeros({4})}).status().message()),
              HasSubstr("'y': dimension 0 is 'half', which is 3 elsewhere, got 4"));
  EXPECT_THAT(std::string(Check(*loaded, {Zeros({22}), Zeros({11})}).status().message()),
              HasSubstr("'x': dimension 0 has 22 elements, which makes 'half' in [2, 10], got 11"));
}

TEST(ArgumentsTest, RangesAreChecked) {
  const auto program = TwoSymbols();
  const absl::Status status = Check(*program, {Zeros({3, 6}), Zeros({11})}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(status.message()), HasSubstr("'columns' in [2, 10], got 11"));
}

TEST(ArgumentsTest, AnotherDeviceIsRefused) {
  const auto program = TwoSymbols();
  LimitedDevice device;
  const absl::Status status = Check(*program, {Zeros({3, 6}), Zeros({5})}, device).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("argument 0 'x' is on cpu"));
}

TEST(ArgumentsTest, ASymbolThatNoArgumentGivesIsNamedIfItIsUsed) {
  ProgramBuilder program;
  SymbolProto& symbol = *program.artifact().add_symbols();
  symbol.set_name("batch");
  symbol.set_min(1);
  symbol.set_max(4);
  MethodBuilder m = program.AddMethod("run");
  m.Input("x", DType::kFloat32, {"(s0 * s0)"});
  const auto loaded = program.Load();
  const absl::Status status = Check(*loaded, {Zeros({4})}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("no argument has the dimension 'batch'"));
}

TEST(ArgumentsTest, QuickCheckComparesEverything) {
  const std::vector<TensorSpec> specs = {{DType::kFloat32, {.sizes = {2, 3}, .strides = {3, 1}, .offset = 0}}};
  LimitedDevice other;
  const auto match = [&specs](const Tensor& argument, const Device& device) {
    return ArgumentsMatch(specs, {&argument}, device);
  };
  EXPECT_TRUE(match(Zeros({2, 3}), HostDevice()));
  EXPECT_FALSE(match(Zeros({2, 3}), other));
  EXPECT_FALSE(match(Zeros({3, 2}), HostDevice()));
  EXPECT_FALSE(match(Zeros({2, 3}, DType::kFloat64), HostDevice()));
  EXPECT_FALSE(match(Tensor(), HostDevice()));
  EXPECT_FALSE(ArgumentsMatch(specs, {}, HostDevice()));
}

TEST(ArgumentsTest, StridesCountOnlyWhereElementsDiffer) {
  const StridedLayout a = {.sizes = {1, 3}, .strides = {3, 1}, .offset = 0};
  EXPECT_TRUE(SameGeometry(a, {.sizes = {1, 3}, .strides = {7, 1}, .offset = 0}));
  EXPECT_FALSE(SameGeometry(a, {.sizes = {1, 3}, .strides = {3, 2}, .offset = 0}));
  EXPECT_FALSE(SameGeometry(a, {.sizes = {3, 1}, .strides = {1, 1}, .offset = 0}));
  EXPECT_TRUE(SameGeometry({.sizes = {2, 0}, .strides = {1, 1}, .offset = 0},
                           {.sizes = {2, 0}, .strides = {5, 5}, .offset = 0}));
}

}  // namespace
}  // namespace cotan
