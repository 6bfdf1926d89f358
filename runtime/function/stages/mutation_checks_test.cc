// SPDX-License-Identifier: Apache-2.0

#include "runtime/function/stages/mutation_checks.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session/session_access.h"
#include "runtime/testing/limited_device.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::At;
using ::testing::ElementsAre;
using testing::Fresh;
using ::testing::HasSubstr;
using testing::LoadedFunction;
using testing::MethodBuilder;
using testing::Mutated;
using testing::Plain;
using testing::Plus;
using testing::ProgramBuilder;
using testing::RowMajor;
using testing::TestKernels;
using testing::Values;
using testing::Vector;

// x.t_(); x.mul_(2); return y + 1
ProgramBuilder MovesAndWrites(const std::vector<std::string>& sizes, const TensorGeometry& after) {
  ProgramBuilder builder;
  MethodBuilder f = builder.AddMethod("f");
  f.Input("x", DType::kFloat32, sizes);
  const uint32_t y = f.Input("y", DType::kFloat32, {"4"});
  std::vector<std::string> new_sizes;
  for (const SymInt& size : after.sizes) new_sizes.push_back(size.ToString());
  f.Output("x", f.Pointwise(new_sizes, {}, [](testing::ExprBuilder& e) { return e.Constant(DType::kFloat32, 7); }));
  f.Output("y", Plus(f, y, 1.0));
  ViewAndMutationMetaFields facts;
  facts.input_info = {Mutated(Plain()), Plain()};
  facts.input_info[0].mutates_metadata = true;
  facts.input_info[0].geometry_after = after;
  facts.output_info = {Fresh(false)};
  SetMetadata(f, facts);
  return builder;
}

Variable Part(const Variable& all, const DimVector& sizes, const DimVector& strides, int64_t offset) {
  return *all.AsStrided({.sizes = sizes, .strides = strides, .offset = offset});
}

TEST(MutationChecksTest, MetadataMutatedAndWrittenArgumentDoesNotOverlapOthers) {
  const TensorGeometry transposed = {DType::kFloat32, {SymInt(2), SymInt(2)}, {SymInt(1), SymInt(2)}, SymInt(0)};
  LoadedFunction program(MovesAndWrites({"2", "2"}, transposed));
  const Variable all(Vector({1, 2, 3, 4, 5, 6, 7, 8}));
  const Variable x = Part(all, {2, 2}, {2, 1}, 0);
  const uint32_t version = all.version();
  const absl::Status refused = program.f.Call({x, Part(all, {4}, {1}, 3)}).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(refused.message(), HasSubstr("writes argument 0 'x', which shares memory with argument 1 'y'"));
  EXPECT_THAT(Values(all), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
  EXPECT_EQ(ToString(x.layout()), "[2,2]{2,1}");
  EXPECT_EQ(all.version(), version);
  const auto results = program.Call({x, Part(all, {4}, {1}, 4)});
  EXPECT_THAT(Values(all), ElementsAre(7, 7, 7, 7, 5, 6, 7, 8));
  EXPECT_THAT(Values(At(results, 0)), ElementsAre(6, 7, 8, 9));
}

TEST(MutationChecksTest, ArgumentIsNotWrittenWhereItHasNoElements) {
  const TensorGeometry transposed = {DType::kFloat32, {SymInt(2), SymInt(2)}, {SymInt(1), SymInt(2)}, SymInt(0)};
  LoadedFunction program(MovesAndWrites({"2", "2"}, transposed));
  const Variable all(Vector({1, 2, 3, 4, 5, 6, 7, 8}));
  EXPECT_THAT(program.f.Call({Part(all, {2, 2}, {2, 1}, 4), Variable(Vector({0, 0, 0, 0}))}).status().message(),
              HasSubstr("argument 'x' is written with the layout [2,2]{1,2} in its storage, some elements of which"));
  EXPECT_THAT(Values(all), ElementsAre(1, 2, 3, 4, 5, 6, 7, 8));
}

// x.resize_(6), in a storage with and without room for 6 elements; x.fill_(7)
TEST(MutationChecksTest, ArgumentThatGrowsDoesNotOverlapOthers) {
  LoadedFunction program(MovesAndWrites({"2"}, RowMajor({6})));
  const Variable all(Vector({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}));
  EXPECT_THAT(program.f.Call({Part(all, {2}, {1}, 0), Part(all, {4}, {1}, 4)}).status().message(),
              HasSubstr("writes argument 0 'x', which shares memory with argument 1 'y'"));
  EXPECT_EQ(At(program.Call({Part(all, {2}, {1}, 0), Part(all, {4}, {1}, 6)}), 0).sizes()[0], 4);
  EXPECT_THAT(Values(all), ElementsAre(7, 7, 7, 7, 7, 7, 7, 8, 9, 10));
  const Variable small(Vector({1, 2, 3, 4}));
  EXPECT_THAT(program.f.Call({Part(small, {2}, {1}, 0), Part(small, {4}, {1}, 0)}).status().message(),
              HasSubstr("writes argument 0 'x', which shares memory with argument 1 'y'"));
  EXPECT_THAT(Values(small), ElementsAre(1, 2, 3, 4));
}

// mean += x (a buffer); x.t_(); x.fill_(7)
TEST(MutationChecksTest, ArgumentsDoNotOverlapStatesThatAreUpdated) {
  const TensorGeometry transposed = {DType::kFloat32, {SymInt(2), SymInt(2)}, {SymInt(1), SymInt(2)}, SymInt(0)};
  ProgramBuilder builder = MovesAndWrites({"2", "2"}, transposed);
  const uint32_t state = builder.AddState("mean", serialization::State::BUFFER, DType::kFloat32, {"4"}, 1);
  MethodBuilder f(*builder.artifact().mutable_methods(0));
  f.Update(state, Plus(f, 1, 1.0));
  LoadedFunction program(std::move(builder));
  const Variable mean(SessionCoreOf(program.session)->states().tensor(static_cast<int>(state)));
  const Variable x(*Tensor::From<float>({1, 2, 3, 4}, {2, 2}));
  EXPECT_THAT(program.f.Call({x, mean}).status().message(),
              HasSubstr("updates state 'mean', which shares memory with argument 1 'y'"));
  EXPECT_THAT(program.f.Call({Part(mean, {2, 2}, {2, 1}, 0), Variable(Vector({0, 0, 0, 0}))}).status().message(),
              HasSubstr("updates state 'mean', which shares memory with argument 0 'x'"));
  EXPECT_THAT(Values(mean), ElementsAre(1, 1, 1, 1));
  EXPECT_THAT(Values(x), ElementsAre(1, 2, 3, 4));
  program.Call({x, Variable(Vector({0, 1, 2, 3}))});
  EXPECT_THAT(Values(mean), ElementsAre(1, 2, 3, 4));
}

// x.resize_(6); x.fill_(7), in a storage of 2 elements: the larger one is allocated before anything is written.
TEST(MutationChecksTest, AFailedAllocationChangesNothing) {
  testing::LimitedDevice device;
  Session session = *Session::Create(MovesAndWrites({"2"}, RowMajor({6})).Load(),
                                     {.kernels = &TestKernels(), .device = &device, .threads = 1});
  Function f = *Function::Create(session, "f");
  const auto make = [&device](const std::vector<float>& values) {
    const Tensor host = Vector(values);
    const Tensor made = *Tensor::Empty(DType::kFloat32, {static_cast<int64_t>(values.size())}, device);
    EXPECT_TRUE(device.Copy(made.address(), host.address(), values.size() * sizeof(float)).ok());
    return Variable(made);
  };
  const Variable y = make({1, 2, 3, 4});
  ASSERT_TRUE(f.Call({make({1, 2}), y}).ok());  // plans the method
  const int before = device.num_allocations();
  ASSERT_TRUE(f.Call({make({1, 2}), y}).ok());
  const int needed = device.num_allocations() - before - 1;  // without that of make()
  for (int i = 0; i < needed; ++i) {
    const Variable x = make({1, 2});
    device.FailAfter(i);
    EXPECT_EQ(f.Call({x, y}).status().code(), absl::StatusCode::kResourceExhausted) << i;
    EXPECT_EQ(ToString(x.layout()), "[2]{1}");
    EXPECT_THAT(Values(x), ElementsAre(1, 2));
    EXPECT_EQ(x.version(), 0);
  }
}

}  // namespace
}  // namespace cotan
