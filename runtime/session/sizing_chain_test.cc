// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/sizing_chain.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/session/session.h"
#include "runtime/testing/limited_device.h"
#include "runtime/testing/program_builder.h"
#include "runtime/testing/test_kernels.h"

namespace cotan {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::MethodBuilder;
using testing::ProgramBuilder;
using testing::TestKernels;

void Give(MethodBuilder& method, uint32_t index, bool from_inputs, uint32_t count) {
  serialization::ContinuedInput& input = *method.proto().mutable_continuation()->add_inputs();
  input.set_index(index);
  input.set_from_inputs(from_inputs);
  input.set_count(count);
}

// "step" takes x f32[6] and n i64[], counts its calls in a state, and returns the first n elements of 2 x, plus 1, and
// all of 2 x. "step.sizes" computes 2 x and n.
ProgramBuilder CountedProgram() {
  ProgramBuilder program;
  serialization::SymbolProto& symbol = *program.artifact().add_symbols();
  symbol.set_name("nonzero");
  symbol.set_min(0);
  symbol.set_max(4);
  const uint32_t calls = program.AddState("calls", serialization::State::BUFFER, DType::kFloat32, testing::Sizes(), 0);
  const auto plus = [](auto& b, double number) { return b.Add(0, b.Constant(b.dtype(0), number)); };
  MethodBuilder step = program.AddMethod("step");
  step.Input("x", DType::kFloat32, {"6"});
  step.Input("n", DType::kInt64, {});
  const uint32_t first = step.Input("continued.0", DType::kFloat32, {"s0"});
  const uint32_t all = step.Input("continued.1", DType::kFloat32, {"6"});
  const uint32_t state = step.Read(calls, DType::kFloat32, {});
  step.Update(calls, step.Pointwise({}, {state}, [&](auto& b) { return plus(b, 1); }));
  step.Output("first", step.Pointwise({"s0"}, {first}, [&](auto& b) { return plus(b, 1); }));
  step.Output("all", all);

  MethodBuilder sizes = program.AddMethod("step.sizes");
  const uint32_t x = sizes.Input("x", DType::kFloat32, {"6"});
  const uint32_t n = sizes.Input("n", DType::kInt64, {});
  sizes.Output("", sizes.Pointwise({"6"}, {x}, [](auto& b) { return b.Add(0, 0); }));
  sizes.Output("head.nonzero", sizes.Pointwise({}, {n}, [&](auto& b) { return plus(b, 0); }));
  sizes.proto().mutable_continuation()->set_method("step");
  Give(sizes, 0, /*from_inputs=*/true, 0);
  Give(sizes, 1, /*from_inputs=*/true, 0);
  Give(sizes, 0, /*from_inputs=*/false, /*count=*/2);
  Give(sizes, 0, /*from_inputs=*/false, 0);
  return program;
}

class OtherDevice final : public testing::LimitedDevice {
 public:
  DeviceType type() const override { return DeviceType::kCuda; }
};

class SizingChainTest : public ::testing::Test {
 protected:
  SizingChainTest() : session_(*Session::Create(CountedProgram().Load(), {.kernels = &TestKernels(), .threads = 1})) {}

  absl::StatusOr<std::vector<Tensor>> Run(int64_t count) {
    return session_.Run("step", {*Tensor::From<float>({1, 2, 3, 4, 5, 6}, {6}), *Tensor::From<int64_t>({count}, {})});
  }

  float Calls() { return *session_.State("calls")->Item<float>(); }

  static std::vector<float> Elements(const Tensor& tensor) {
    return {tensor.data<float>(), tensor.data<float>() + tensor.num_elements()};
  }

  Session session_;
};

TEST_F(SizingChainTest, TheMethodGoesOnAtTheCount) {
  for (const int64_t count : {3, 0, 4, 3}) {
    const auto results = Run(count);
    ASSERT_TRUE(results.ok()) << results.status();
    ASSERT_THAT((*results)[0].sizes(), ElementsAre(count));
    for (int64_t i = 0; i < count; ++i) {
      EXPECT_EQ(Elements((*results)[0])[static_cast<size_t>(i)], 2 * static_cast<float>(i + 1) + 1);
    }
    EXPECT_THAT(Elements((*results)[1]), ElementsAre(2, 4, 6, 8, 10, 12));
  }
  EXPECT_EQ(Calls(), 4);
  EXPECT_EQ(session_.num_plans_made(), 4);  // of "step.sizes", and of "step" at three sizes
}

TEST_F(SizingChainTest, ACountOutsideOfItsRangeChangesNoState) {
  for (const int64_t count : {5, 7, -1}) {
    const absl::Status status = Run(count).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(status.message(), HasSubstr("method 'step': head.nonzero has "));
    EXPECT_THAT(status.message(), HasSubstr("elements, and 0 to 4 were declared"));
  }
  EXPECT_EQ(Calls(), 0);
}

TEST_F(SizingChainTest, WrongArgumentsAreThoseOfTheMethod) {
  const absl::Status status = session_.Run("step", {*Tensor::Zeros(DType::kFloat32, {6})}).status();
  EXPECT_THAT(status.message(), HasSubstr("method 'step' takes 2 arguments (x, n), got 1"));
  EXPECT_THAT(session_.Run("step.sizes", {*Tensor::Zeros(DType::kFloat32, {6})}).status().message(),
              HasSubstr("computes sizes for 'step'"));
}

TEST_F(SizingChainTest, OtherDevicesAreRefused) {
  OtherDevice device;
  auto session = Session::Create(CountedProgram().Load(), {.kernels = &TestKernels(), .device = &device, .threads = 1});
  ASSERT_TRUE(session.ok()) << session.status();
  const absl::Status status =
      session->Run("step", {*Tensor::Zeros(DType::kFloat32, {6}), *Tensor::From<int64_t>({2}, {})}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << status;
  EXPECT_THAT(status.message(), HasSubstr("counted on the CPU only"));
}

TEST_F(SizingChainTest, SummariesAreOfAllMethodsOfTheChain) {
  const MethodHandle step = *session_.FindMethod("step");
  EXPECT_EQ(session_.Summary(step).status().code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(Run(2).ok());
  const auto names = session_.StepNames(step);
  ASSERT_TRUE(names.ok()) << names.status();
  EXPECT_EQ(static_cast<int>(names->size()), session_.Summary(step)->num_steps);
  EXPECT_THAT(names->front(), HasSubstr("method 'step.sizes'"));
  EXPECT_THAT(names->back(), HasSubstr("method 'step'"));
  std::vector<Tensor> results(2);
  std::vector<int64_t> nanoseconds;
  const std::vector<Tensor> arguments = {*Tensor::Zeros(DType::kFloat32, {6}), *Tensor::From<int64_t>({2}, {})};
  ASSERT_TRUE(session_.RunTimed(step, arguments, absl::MakeSpan(results), nanoseconds).ok());
  EXPECT_EQ(nanoseconds.size(), names->size());
}

}  // namespace
}  // namespace cotan
