// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/decomposition.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "aot/aotautograd/tracer.h"
#include "aot/ir/text.h"

namespace cotan::aot {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using IValues = std::vector<c10::IValue>;
using Tensors = std::vector<at::Tensor>;

// Computes self + value * t1 * t2.
IValues Addcmul(const IValues& a) { return {a[0].toTensor() + a[1].toTensor() * a[2].toTensor() * a[3].toScalar()}; }

absl::StatusOr<TracedProgram> TraceWith(const DecompositionTable& table, const TensorFunction& function,
                                        const Tensors& inputs) {
  TraceOptions options{.backward = TraceOptions::Backward::kOutputs};
  options.decompositions = &table;
  return Trace(function, {}, inputs, options);
}

std::string ErrorOf(const DecompositionTable& table, const TensorFunction& function, const Tensors& inputs) {
  const auto traced = TraceWith(table, function, inputs);
  return traced.ok() ? "no error" : std::string(traced.status().message());
}

std::string ErrorOf(const std::string& op, const Decomposition& decomposition) {
  return std::string(CheckDecompositions({{op, decomposition}}).message());
}

const TensorFunction kAddcmul = [](const Tensors& in) { return Tensors{at::addcmul(in[0], in[1], in[2], 3).exp()}; };

TEST(DecompositionTest, TheOpsOfADecompositionAreRecordedInItsPlace) {
  const Tensors inputs = {at::rand({2, 3}), at::rand({3}), at::rand({2, 1})};
  const auto traced = TraceWith({{"aten.addcmul.default", Addcmul}}, kAddcmul, inputs);
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_THAT(PrintGraph(traced->graph),
              AllOf(HasSubstr("aten.mul.Tensor(%1, %2)"), HasSubstr("aten.mul.Scalar(%3, 3)"),
                    HasSubstr("aten.exp.default"), Not(HasSubstr("addcmul"))));
}

TEST(DecompositionTest, TheBackwardsOpsAreDecomposedToo) {
  const DecompositionTable table = {{"aten.tanh_backward.default", [](const IValues& a) -> IValues {
                                       return {a[0].toTensor() * (1 - a[1].toTensor().square())};
                                     }}};
  const auto traced =
      TraceWith(table, [](const Tensors& in) { return Tensors{in[0].tanh()}; }, {at::rand({2}).requires_grad_()});
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_THAT(PrintGraph(traced->graph), AllOf(HasSubstr("aten.tanh.default"), Not(HasSubstr("tanh_backward"))));
}

TEST(DecompositionTest, MayWriteToItsOwnTensorsAndCallCompositeOpsAndItself) {
  const DecompositionTable table = {{"aten.relu.default", [](const IValues& a) -> IValues {
                                       at::Tensor result = at::zeros_like(a[0].toTensor());
                                       result.add_(at::relu(a[0].toTensor()));
                                       return {at::matmul(result, at::eye(2))};
                                     }}};
  const auto traced = TraceWith(table, [](const Tensors& in) { return Tensors{in[0].relu()}; }, {at::rand({2, 2})});
  ASSERT_TRUE(traced.ok()) << traced.status();
  EXPECT_THAT(PrintGraph(traced->graph),
              AllOf(HasSubstr("aten.relu.default"), HasSubstr("aten.add.Tensor"), HasSubstr("aten.mm.default")));
}

TEST(DecompositionTest, ResultsLieInMemoryAsThoseOfTheOp) {
  const DecompositionTable table = {
      {"aten.exp.default", [](const IValues& a) -> IValues { return {a[0].toTensor().contiguous() * 2}; }}};
  const auto traced =
      TraceWith(table, [](const Tensors& in) { return Tensors{in[0].exp().t().view({6})}; }, {at::rand({3, 2}).t()});
  ASSERT_TRUE(traced.ok()) << traced.status();
}

TEST(DecompositionTest, ResultsMustBeThoseOfTheOp) {
  const Tensors inputs = {at::rand({2}), at::rand({2}), at::rand({2})};
  const std::string reason = "aten.addcmul.default: its decomposition gives results of other number, sizes or dtypes";
  EXPECT_THAT(ErrorOf({{"aten.addcmul.default", [](const IValues& a) -> IValues { return {a[0].toTensor().sum()}; }}},
                      kAddcmul, inputs),
              HasSubstr(reason));
  EXPECT_THAT(ErrorOf({{"aten.addcmul.default",
                        [](const IValues& a) -> IValues {
                          return {a[0], a[1]};
                        }}},
                      kAddcmul, inputs),
              HasSubstr(reason));
  EXPECT_THAT(
      ErrorOf({{"aten.addcmul.default", [](const IValues& a) -> IValues { return {a[0].toTensor().to(at::kDouble)}; }}},
              kAddcmul, inputs),
      HasSubstr(reason));
}

TEST(DecompositionTest, ArgumentsMustNotBeWrittenTo) {
  const Decomposition writes = [](const IValues& a) -> IValues { return {a[0].toTensor().add_(1)}; };
  EXPECT_THAT(
      ErrorOf({{"aten.exp.default", writes}}, [](const Tensors& in) { return Tensors{in[0].exp()}; }, {at::rand({2})}),
      HasSubstr("aten.exp.default: its decomposition writes to an argument"));
}

TEST(DecompositionTest, OpsThatAreNeverRecordedAreNamed) {
  EXPECT_THAT(ErrorOf("aten.no_such_op.default", Addcmul), HasSubstr("LibTorch has no op aten.no_such_op.default"));
  EXPECT_THAT(ErrorOf("aten.addcmul.default", nullptr), HasSubstr("aten.addcmul.default: its decomposition is empty"));
  EXPECT_THAT(ErrorOf("aten.addcmul_.default", Addcmul), HasSubstr("aten.addcmul_.default: it writes to an argument"));
  EXPECT_THAT(ErrorOf("aten.permute.default", Addcmul), HasSubstr("its result is a view"));
  EXPECT_THAT(ErrorOf("aten.matmul.default", Addcmul), HasSubstr("LibTorch writes it in terms of other ops"));
  EXPECT_THAT(ErrorOf("aten.bernoulli.default", Addcmul), HasSubstr("Cotan writes it in terms of other ops"));
}

}  // namespace
}  // namespace cotan::aot
