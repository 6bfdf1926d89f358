#include "kernels/cuda/expr_compile.h"

#include <cmath>
#include <limits>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/kernel_testutil.h"

namespace cotan::cuda {
namespace {

using serialization::DTYPE_BOOL;
using serialization::DTYPE_F32;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Compiles and evaluates on the host; the result of the only output.
template <typename T = float>
std::vector<T> Evaluate(const ExprRequest& request, std::vector<const void*> inputs) {
  absl::StatusOr<ExprProgram> program = CompileExpr(request.Get());
  EXPECT_TRUE(program.ok()) << program.status();
  if (!program.ok()) return {};
  std::vector<T> result(program->num_elements);
  ExprPointers pointers = {};
  for (size_t i = 0; i < inputs.size(); ++i) pointers.inputs[i] = inputs[i];
  pointers.outputs[0] = result.data();
  for (int64_t i = 0; i < program->num_elements; ++i) EvaluateExpr<int64_t>(*program, pointers, i);
  return result;
}

TEST(CompileExpr, BroadcastsInputsToTheDomain) {
  ExprRequest request({2, 3});
  const int x = request.Input(DType::kFloat32, {2, 3});
  const int row = request.Input(DType::kFloat32, {3});
  request.Output(request.Add(serialization::FN_ADD, DTYPE_F32, {x, row}));
  const float a[] = {1, 2, 3, 4, 5, 6}, b[] = {10, 20, 30};
  EXPECT_THAT(Evaluate(request, {a, b}), ElementsAre(11, 22, 33, 14, 25, 36));
}

TEST(CompileExpr, ReadsTransposedInputs) {
  ExprRequest request({2, 3});
  const int x = request.Input(DType::kFloat32, StridedLayout{.sizes = {2, 3}, .strides = {1, 2}});
  request.Output(request.Add(serialization::FN_NEG, DTYPE_F32, {x}));
  const float a[] = {1, 2, 3, 4, 5, 6};
  EXPECT_THAT(Evaluate(request, {a}), ElementsAre(-1, -3, -5, -2, -4, -6));
}

TEST(CompileExpr, MergesDimensionsOfContiguousOperands) {
  ExprRequest request({2, 1, 3, 4});
  const int x = request.Input(DType::kFloat32, {2, 1, 3, 4});
  const int y = request.Input(DType::kFloat32, DimVector{});
  request.Output(request.Add(serialization::FN_MUL, DTYPE_F32, {x, y}));
  absl::StatusOr<ExprProgram> program = CompileExpr(request.Get());
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->rank, 1);
  EXPECT_EQ(program->sizes[0], 24);
  EXPECT_EQ(program->inputs[0].strides[0], 1);
  EXPECT_EQ(program->inputs[1].strides[0], 0);
}

TEST(CompileExpr, SelectsByComparison) {
  ExprRequest request({4});
  const int x = request.Input(DType::kFloat32, {4});
  const int zero = request.Constant(0.0);
  const int positive = request.Add(serialization::FN_GT, DTYPE_BOOL, {x, zero});
  const int root = request.Add(serialization::FN_SQRT, DTYPE_F32, {x});
  request.Output(request.Add(serialization::FN_SELECT, DTYPE_F32, {positive, root, zero}));
  const float a[] = {-1, 4, 9, kNan};
  EXPECT_THAT(Evaluate(request, {a}), ElementsAre(0, 2, 3, 0));
}

TEST(CompileExpr, StoresBool) {
  ExprRequest request({3});
  const int x = request.Input(DType::kFloat32, {3});
  request.Output(request.Add(serialization::FN_CAST, DTYPE_BOOL, {x}), DType::kBool);
  const float a[] = {0, 0.25f, kNan};
  EXPECT_THAT(Evaluate<uint8_t>(request, {a}), ElementsAre(0, 1, 1));
}

TEST(CompileExpr, MaximumKeepsNanAndFmaxDropsIt) {
  for (const auto& [fn, keeps] : {std::pair{serialization::FN_MAXIMUM, true}, {serialization::FN_FMAX, false}}) {
    ExprRequest request({2});
    const int x = request.Input(DType::kFloat32, {2}), y = request.Input(DType::kFloat32, {2});
    request.Output(request.Add(fn, DTYPE_F32, {x, y}));
    const float a[] = {kNan, 1}, b[] = {2, kNan};
    for (float value : Evaluate(request, {a, b})) EXPECT_EQ(std::isnan(value), keeps);
  }
}

TEST(CompileExpr, FloorDivisionAndRemainderFollowTheDivisorsSign) {
  const float a[] = {7, -7, 7, -7}, b[] = {2, 2, -2, -2};
  for (const auto& [fn, expected] : {std::pair{serialization::FN_FLOOR_DIV, std::vector<float>{3, -4, -4, 3}},
                                     {serialization::FN_REMAINDER, std::vector<float>{1, 1, -1, -1}}}) {
    ExprRequest request({4});
    const int x = request.Input(DType::kFloat32, {4}), y = request.Input(DType::kFloat32, {4});
    request.Output(request.Add(fn, DTYPE_F32, {x, y}));
    EXPECT_EQ(Evaluate(request, {a, b}), expected);
  }
}

TEST(CompileExpr, IotaCountsAlongItsDimension) {
  ExprRequest request({2, 3});
  request.Output(request.Iota(1));
  EXPECT_THAT(Evaluate(request, {}), ElementsAre(0, 1, 2, 0, 1, 2));
}

TEST(CompileExpr, RandomNumbersAreThePhiloxStreamOfTheElement) {
  ExprRequest request({2, 3});
  request.Output(request.RandomUniform("5"));
  const int64_t state[] = {1234, 100};
  const std::vector<float> drawn = Evaluate(request, {state});
  ASSERT_EQ(drawn.size(), 6u);
  for (int i = 0; i < 6; ++i) EXPECT_EQ(drawn[i], UniformFloat(Philox(1234, 105 + i / 4).lane[i % 4]));
}

TEST(CompileExpr, SizesAreTakenFromTheSymbols) {
  ExprRequest request({2});
  const int x = request.Input(DType::kFloat32, {2});
  request.Output(request.Add(serialization::FN_DIV, DTYPE_F32, {x, request.Size("(s0 * 2)")}));
  request.symbols = {4};
  const float a[] = {8, 16};
  EXPECT_THAT(Evaluate(request, {a}), ElementsAre(1, 2));
}

TEST(CompileExpr, RefusesReductions) {
  ExprRequest request({2, 3});
  request.op.mutable_expr()->add_reduce_dims(1);
  const absl::Status status = CompileExpr(request.Get()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("no reductions"));
}

TEST(CompileExpr, RefusesOtherDTypesByName) {
  ExprRequest request({2});
  request.Input(DType::kFloat64, {2});
  request.Output(0, DType::kFloat64);
  const absl::Status status = CompileExpr(request.Get()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("f64"));
}

TEST(CompileExpr, RefusesFunctionsItLacks) {
  ExprRequest request({2});
  const int x = request.Input(DType::kFloat32, {2});
  request.Output(request.Add(serialization::FN_DIGAMMA, DTYPE_F32, {x}));
  const absl::Status status = CompileExpr(request.Get()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("function 44"));
}

TEST(CompileExpr, RefusesMoreInstructionsThanItHolds) {
  ExprRequest request({2});
  int x = request.Input(DType::kFloat32, {2});
  for (int i = 0; i < kMaxExprInstructions; ++i) x = request.Add(serialization::FN_NEG, DTYPE_F32, {x});
  request.Output(x);
  const absl::Status status = CompileExpr(request.Get()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(status.message(), HasSubstr("fuse less"));
}

TEST(CompileExpr, RefusesOperandsThatComeLater) {
  ExprRequest request({2});
  request.Output(request.Add(serialization::FN_NEG, DTYPE_F32, {7}));
  EXPECT_EQ(CompileExpr(request.Get()).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CompileExpr, RefusesInputsThatDoNotFitTheDomain) {
  ExprRequest request({2, 3});
  request.Output(request.Input(DType::kFloat32, {2}));
  EXPECT_EQ(CompileExpr(request.Get()).status().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::cuda
