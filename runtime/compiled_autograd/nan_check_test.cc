// SPDX-License-Identifier: Apache-2.0

#include "runtime/compiled_autograd/nan_check.h"

#include <complex>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "runtime/compiled_autograd/compiled_autograd.h"
#include "runtime/testing/loaded_function.h"

namespace cotan {
namespace {

using testing::At;
using ::testing::HasSubstr;
using testing::Leaf;
using testing::LoadedFunction;
using testing::Square;
using testing::Vector;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

class NanCheckTest : public ::testing::Test {
 protected:
  NanCheckTest() { EXPECT_TRUE(CompiledAutograd::Reset().ok()); }
  ~NanCheckTest() override { EXPECT_TRUE(CompiledAutograd::Reset().ok()); }

  LoadedFunction program_{Square()};
};

TEST_F(NanCheckTest, GradientsThatAreAlreadyNanAreRefused) {
  Variable x = Leaf({3, 4});
  ASSERT_TRUE(x.SetGrad(Variable(Vector({0, kNan}))).ok());
  CompiledAutograd scope({.check_nan = true});
  const auto results = program_.Call({x});
  const absl::Status status = program_.Backward(At(results, 0), {1, 1});
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(status.message(), HasSubstr("grad() of parameter 0, f32[2], is already NaN, which is not supported"));
}

TEST_F(NanCheckTest, NanGradientsOfLeavesAreRefused) {
  for (int round = 0; round < 2; ++round) {  // a capture and a hit
    const Variable x = Leaf({3, 4});
    CompiledAutograd scope({.check_nan = true});
    const auto results = program_.Call({x});
    const absl::Status status = program_.Backward(At(results, 0), {1, kNan});
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(status.message(), HasSubstr("NaN gradients for parameters: 0"));
  }
}

TEST_F(NanCheckTest, NanGradientsThatAreReturnedAreRefused) {
  const Variable x = Leaf({3, 4});
  CompiledAutograd scope({.check_nan = true});
  const auto results = program_.Call({x});
  const auto found = autograd::Grad({At(results, 0)}, {x}, {Vector({kNan, 1})}, program_.session.ops());
  EXPECT_EQ(found.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(found.status().message(), HasSubstr("NaN gradients for outputs: 0"));
}

TEST_F(NanCheckTest, OrdinaryGradientsAndOtherScopesPass) {
  for (const bool check : {true, false}) {
    const Variable x = Leaf({3, 4});
    CompiledAutograd scope({.check_nan = check});
    const auto results = program_.Call({x});
    EXPECT_TRUE(program_.Backward(At(results, 0), {1, check ? 1 : kNan}).ok());
  }
}

TEST(HasNanTest, ReadsAllKindsOfElements) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_TRUE(*HasNan(*Tensor::From<double>({1, nan}, {2})));
  EXPECT_FALSE(*HasNan(*Tensor::From<double>({1, 2}, {2})));
  EXPECT_TRUE(*HasNan(*Tensor::From<std::complex<float>>({{1, kNan}}, {1})));
  EXPECT_FALSE(*HasNan(*Tensor::From<int64_t>({1, 2}, {2})));
  EXPECT_FALSE(*HasNan(*Tensor::Zeros(DType::kFloat16, {4})));
  Tensor half = *Tensor::Zeros(DType::kFloat16, {4});
  static_cast<uint16_t*>(half.address())[3] = 0x7e00;
  EXPECT_TRUE(*HasNan(half));
}

}  // namespace
}  // namespace cotan
