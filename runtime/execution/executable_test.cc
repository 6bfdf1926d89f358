// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/executable.h"

#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/testing/limited_device.h"
#include "runtime/testing/program_builder.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;
using testing::ExprBuilder;
using testing::LimitedDevice;
using testing::MethodBuilder;
using testing::ProgramBuilder;
using testing::TestKernels;

// y = 2 x over [2,2].
std::shared_ptr<const Program> Twice() {
  ProgramBuilder program;
  MethodBuilder m = program.AddMethod("run");
  const uint32_t x = m.Input("x", DType::kFloat32, {"2", "2"});
  m.Output("y", m.Pointwise({"2", "2"}, {x}, [](ExprBuilder& b) { return b.Add(0, 0); }));
  return program.Load();
}

class ExecutableTest : public ::testing::Test {
 protected:
  ExecutableTest() : program_(Twice()) {
    executable_ = *Executable::Make(*program_, 0, {}, {.kernels = &TestKernels(), .device = &device_, .threads = 1});
    arena_ = *Storage::Allocate(device_, static_cast<size_t>(executable_->plan().arena_bytes));
    executable_->Bind({.arena = arena_->data(), .states = {}}, 1);
  }

  Tensor OnDevice(const std::vector<float>& values, StridedLayout layout) {
    const Tensor tensor = *Tensor::EmptyStrided(DType::kFloat32, std::move(layout), device_);
    EXPECT_TRUE(device_.CopyFromHost(tensor.address(), values.data(), values.size() * sizeof(float)).ok());
    return tensor;
  }

  std::vector<float> Run(const Tensor& argument) {
    Tensor result;
    EXPECT_TRUE(executable_->SetInput(0, argument).ok());
    EXPECT_TRUE(executable_->SetOutput(0, result).ok());
    EXPECT_TRUE(executable_->Run().ok());
    return *result.ToVector<float>();
  }

  LimitedDevice device_;
  std::shared_ptr<const Program> program_;
  std::unique_ptr<Executable> executable_;
  std::shared_ptr<Storage> arena_;
};

TEST_F(ExecutableTest, ArgumentsOfThePlannedLayoutAreNotCopied) {
  const Tensor rows = OnDevice({1, 2, 3, 4}, {.sizes = {2, 2}, .strides = {2, 1}, .offset = 0});
  Tensor result = OnDevice({0, 0, 0, 0}, {.sizes = {2, 2}, .strides = {2, 1}, .offset = 0});
  const int before = device_.num_allocations();
  ASSERT_TRUE(executable_->SetInput(0, rows).ok());
  ASSERT_TRUE(executable_->SetOutput(0, result).ok());
  ASSERT_TRUE(executable_->Run().ok());
  EXPECT_EQ(device_.num_allocations(), before);
  EXPECT_THAT(*result.ToVector<float>(), ElementsAre(2, 4, 6, 8));
}

TEST_F(ExecutableTest, OtherLayoutsAreCopiedEachTimeAnew) {
  const Tensor columns = OnDevice({1, 2, 3, 4}, {.sizes = {2, 2}, .strides = {1, 2}, .offset = 0});
  EXPECT_THAT(Run(columns), ElementsAre(2, 6, 4, 8));
  columns.data<float>()[0] = 10;
  EXPECT_THAT(Run(columns), ElementsAre(20, 6, 4, 8));
  const Tensor expanded = OnDevice({7, 8}, {.sizes = {2, 2}, .strides = {0, 1}, .offset = 0});
  EXPECT_THAT(Run(expanded), ElementsAre(14, 16, 14, 16));
  EXPECT_THAT(Run(columns), ElementsAre(20, 6, 4, 8));
}

TEST_F(ExecutableTest, ResultsOfAnotherKindAreReplaced) {
  Tensor result = *Tensor::Zeros(DType::kFloat32, {2, 2});  // on the host
  ASSERT_TRUE(executable_->SetOutput(0, result).ok());
  EXPECT_EQ(&result.device(), &device_);
  const void* address = result.address();
  ASSERT_TRUE(executable_->SetOutput(0, result).ok());
  EXPECT_EQ(result.address(), address);
}

TEST_F(ExecutableTest, MemoryForCopiesMayRunOut) {
  const Tensor columns = OnDevice({1, 2, 3, 4}, {.sizes = {2, 2}, .strides = {1, 2}, .offset = 0});
  device_.FailAfter(0);
  EXPECT_EQ(executable_->SetInput(0, columns).code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(Run(columns), ElementsAre(2, 6, 4, 8));
}

}  // namespace
}  // namespace cotan
