// SPDX-License-Identifier: Apache-2.0

// Tests with known results, small enough to be checked by hand.
#include "kernels/reference/ops.h"

#include <cmath>

#include "gtest/gtest.h"
#include "kernels/reference/register_reference.h"
#include "kernels/testing/host_tensor.h"

namespace cotan::reference {
namespace {

using cotan::testing::HostTensor;
using cotan::testing::RunOp;
using serialization::Op;
using Values = std::vector<double>;

constexpr DType kF32 = DType::kFloat32;
constexpr DType kI64 = DType::kInt64;

template <typename Message>
void SetSpatial(Message& op, int64_t stride, int64_t padding, int64_t dilation) {
  op.add_stride(stride);
  op.add_padding(padding);
  op.add_dilation(dilation);
}

TEST(ReferenceOpsTest, MatmulBroadcastsBatchesAndAddsTheBias) {
  Op op;
  op.mutable_matmul();
  HostTensor a(kF32, {2, 1, 2}, {1, 2, 3, 4});
  HostTensor b(kF32, {2, 1}, {10, 100});
  HostTensor bias(kF32, {1}, {0.5});
  HostTensor out(kF32, {2, 1, 1});
  ASSERT_TRUE(RunOp(MakeMatmul, op, {&a, &b, &bias}, {&out}).ok());
  EXPECT_EQ(out.Values(), (Values{210.5, 430.5}));
}

TEST(ReferenceOpsTest, ConvolutionAndItsGradients) {
  Op forward;
  SetSpatial(*forward.mutable_convolution(), 2, 1, 1);
  forward.mutable_convolution()->set_groups(1);
  HostTensor x(kF32, {1, 1, 4}, {1, 2, 3, 4});
  HostTensor w(kF32, {1, 1, 3}, {1, 10, 100});
  HostTensor bias(kF32, {1}, {1000});
  HostTensor y(kF32, {1, 1, 2});
  ASSERT_TRUE(RunOp(MakeConvolution, forward, {&x, &w, &bias}, {&y}).ok());
  EXPECT_EQ(y.Values(), (Values{1210, 1432}));

  HostTensor grad(kF32, {1, 1, 2}, {1, 2});
  Op backward_input;
  *backward_input.mutable_convolution_backward_input()->mutable_forward() = forward.convolution();
  HostTensor grad_x(kF32, {1, 1, 4});
  ASSERT_TRUE(RunOp(MakeConvolutionBackwardInput, backward_input, {&grad, &w}, {&grad_x}).ok());
  EXPECT_EQ(grad_x.Values(), (Values{10, 102, 20, 200}));

  Op backward_weight;
  *backward_weight.mutable_convolution_backward_weight()->mutable_forward() = forward.convolution();
  HostTensor grad_w(kF32, {1, 1, 3});
  ASSERT_TRUE(RunOp(MakeConvolutionBackwardWeight, backward_weight, {&grad, &x}, {&grad_w}).ok());
  EXPECT_EQ(grad_w.Values(), (Values{4, 7, 10}));
}

TEST(ReferenceOpsTest, TransposedConvolutionIsTheGradientOfAConvolution) {
  Op op;
  SetSpatial(*op.mutable_convolution(), 2, 0, 1);
  op.mutable_convolution()->set_groups(2);
  op.mutable_convolution()->set_transposed(true);
  op.mutable_convolution()->add_output_padding(1);
  HostTensor x(kF32, {1, 2, 2}, {1, 2, 3, 4});
  HostTensor w(kF32, {2, 1, 2}, {1, 10, 1, 100});
  HostTensor y(kF32, {1, 2, 5});
  ASSERT_TRUE(RunOp(MakeConvolution, op, {&x, &w}, {&y}).ok());
  EXPECT_EQ(y.Values(), (Values{1, 10, 2, 20, 0, 3, 300, 4, 400, 0}));
}

TEST(ReferenceOpsTest, MaxPoolGivesIndicesAndItsGradientFollowsThem) {
  Op op;
  op.mutable_max_pool()->add_kernel(2);
  SetSpatial(*op.mutable_max_pool(), 2, 0, 1);
  op.mutable_max_pool()->set_ceil_mode(true);
  HostTensor x(kF32, {1, 5}, {1, 3, 7, 2, 5});
  HostTensor y(kF32, {1, 3}), index(kI64, {1, 3});
  ASSERT_TRUE(RunOp(MakeMaxPool, op, {&x}, {&y, &index}).ok());
  EXPECT_EQ(y.Values(), (Values{3, 7, 5}));
  EXPECT_EQ(index.Values(), (Values{1, 2, 4}));

  Op backward;
  *backward.mutable_max_pool_backward() = op.max_pool();
  HostTensor grad(kF32, {1, 3}, {1, 2, 3}), grad_x(kF32, {1, 5});
  ASSERT_TRUE(RunOp(MakeMaxPoolBackward, backward, {&grad, &index}, {&grad_x}).ok());
  EXPECT_EQ(grad_x.Values(), (Values{0, 1, 2, 0, 3}));
  index.SetValues({1, 5, 4});
  EXPECT_EQ(RunOp(MakeMaxPoolBackward, backward, {&grad, &index}, {&grad_x}).code(),
            absl::StatusCode::kInvalidArgument);
}

TEST(ReferenceOpsTest, AveragePoolCountsPaddingOnRequest) {
  Op op;
  op.mutable_avg_pool()->add_kernel(2);
  SetSpatial(*op.mutable_avg_pool(), 2, 1, 1);
  HostTensor x(kF32, {1, 2}, {2, 6}), y(kF32, {1, 2});
  ASSERT_TRUE(RunOp(MakeAvgPool, op, {&x}, {&y}).ok());
  EXPECT_EQ(y.Values(), (Values{2, 6}));
  op.mutable_avg_pool()->set_count_include_pad(true);
  ASSERT_TRUE(RunOp(MakeAvgPool, op, {&x}, {&y}).ok());
  EXPECT_EQ(y.Values(), (Values{1, 3}));
  Op backward;
  *backward.mutable_avg_pool_backward() = op.avg_pool();
  HostTensor grad_x(kF32, {1, 2});
  ASSERT_TRUE(RunOp(MakeAvgPoolBackward, backward, {&y}, {&grad_x}).ok());
  EXPECT_EQ(grad_x.Values(), (Values{0.5, 1.5}));
}

TEST(ReferenceOpsTest, GatherAndScatterAdd) {
  Op gather;
  gather.mutable_gather()->set_dim(0);
  HostTensor table(kF32, {3, 2}, {1, 2, 3, 4, 5, 6});
  HostTensor index(kI64, {2, 2}, {0, 2, -1, 1});
  HostTensor rows(kF32, {2, 2, 2});
  ASSERT_TRUE(RunOp(MakeGather, gather, {&table, &index}, {&rows}).ok());
  EXPECT_EQ(rows.Values(), (Values{1, 2, 5, 6, 5, 6, 3, 4}));

  Op scatter;
  scatter.mutable_scatter_add()->set_dim(0);
  scatter.mutable_scatter_add()->set_padding_index(1);
  HostTensor sums(kF32, {3, 2});
  ASSERT_TRUE(RunOp(MakeScatterAdd, scatter, {&rows, &index}, {&sums}).ok());
  EXPECT_EQ(sums.Values(), (Values{1, 2, 0, 0, 10, 12}));
  index.SetValues({0, 3, 0, 0});
  EXPECT_EQ(RunOp(MakeGather, gather, {&table, &index}, {&rows}).code(), absl::StatusCode::kInvalidArgument);
}

TEST(ReferenceOpsTest, CheckedIndex) {
  Op op;
  op.mutable_checked_index()->set_size("(s0 + 1)");
  op.mutable_checked_index()->set_from_end(true);
  op.mutable_checked_index()->set_ignored(99);
  HostTensor index(kI64, {2, 2}, {0, 2, -1, 99}), checked(kI64, {2, 2});
  ASSERT_TRUE(RunOp(MakeCheckedIndex, op, {&index}, {&checked}, 1, {2}).ok());
  EXPECT_EQ(checked.Values(), (Values{0, 2, 2, 99}));
  EXPECT_EQ(RunOp(MakeCheckedIndex, op, {&index}, {&checked}, 1, {1}),
            absl::InvalidArgumentError("checked_index: index[0,1] is 2, outside [-2, 2) and not 99, which is ignored"));
}

TEST(ReferenceOpsTest, ConcatAndCopy) {
  Op concat;
  concat.mutable_concat()->set_dim(1);
  HostTensor a(kF32, {2, 1}, {1, 2}), b(kF32, {2, 2}, {3, 4, 5, 6}), out(kF32, {2, 3});
  ASSERT_TRUE(RunOp(MakeConcat, concat, {&a, &b}, {&out}).ok());
  EXPECT_EQ(out.Values(), (Values{1, 3, 4, 2, 5, 6}));
  Op copy;
  copy.mutable_copy();
  HostTensor transposed(kF32, StridedLayout{{2, 3}, {1, 2}});
  ASSERT_TRUE(RunOp(MakeCopy, copy, {&out}, {&transposed}).ok());
  EXPECT_EQ(transposed.Values(), out.Values());
}

TEST(ReferenceOpsTest, CausalAttentionOfTwoQueries) {
  Op op;
  op.mutable_attention()->set_is_causal(true);
  op.mutable_attention()->set_scale(1);
  HostTensor q(kF32, {1, 1, 2, 1}, {1, 1}), k(kF32, {1, 1, 2, 1}, {0, std::log(3.0)});
  HostTensor v(kF32, {1, 1, 2, 1}, {4, 8});
  HostTensor out(kF32, {1, 1, 2, 1}), logsumexp(kF32, {1, 1, 2});
  ASSERT_TRUE(RunOp(MakeAttention, op, {&q, &k, &v}, {&out, &logsumexp}).ok());
  EXPECT_NEAR(out.Values()[0], 4, 1e-6);
  EXPECT_NEAR(out.Values()[1], 7, 1e-6);
  EXPECT_NEAR(logsumexp.Values()[1], std::log(4.0), 1e-6);
}

// Expects that `gradient` is the gradient of `loss` with respect to `x`, by central differences in f64. `loss` reads
// `x`, which is changed and restored.
template <typename Loss>
void ExpectGradientIsDifferenceQuotient(const Loss& loss, HostTensor& x, const HostTensor& gradient) {
  const Values at = x.Values();
  for (size_t i = 0; i < at.size(); ++i) {
    Values moved = at;
    moved[i] = at[i] + 1e-5;
    x.SetValues(moved);
    const double above = loss();
    moved[i] = at[i] - 1e-5;
    x.SetValues(moved);
    EXPECT_NEAR(gradient.Values()[i], (above - loss()) / 2e-5, 1e-8) << i;
  }
  x.SetValues(at);
}

TEST(ReferenceOpsTest, AttentionGradientsAgreeWithFiniteDifferences) {
  constexpr DType kF64 = DType::kFloat64;
  Op op;
  op.mutable_attention()->set_scale(0.7);
  Op backward;
  *backward.mutable_attention_backward() = op.attention();
  std::mt19937_64 random(5);
  HostTensor q(kF64, {1, 2, 3, 2}), k(kF64, {1, 2, 4, 2}), v(kF64, {1, 2, 4, 3}), bias(kF64, {3, 4});
  HostTensor grad(kF64, {1, 2, 3, 3}), out(kF64, {1, 2, 3, 3}), logsumexp(kF64, {1, 2, 3});
  for (HostTensor* tensor : {&q, &k, &v, &bias, &grad}) FillRandom(*tensor, random, -1, 1);
  HostTensor grad_q(kF64, {1, 2, 3, 2}), grad_k(kF64, {1, 2, 4, 2}), grad_v(kF64, {1, 2, 4, 3});
  ASSERT_TRUE(RunOp(MakeAttention, op, {&q, &k, &v, &bias}, {&out, &logsumexp}).ok());
  const absl::Status status =
      RunOp(MakeAttentionBackward, backward, {&grad, &q, &k, &v, &out, &logsumexp, &bias}, {&grad_q, &grad_k, &grad_v});
  ASSERT_TRUE(status.ok()) << status;
  const auto loss = [&] {
    EXPECT_TRUE(RunOp(MakeAttention, op, {&q, &k, &v, &bias}, {&out, &logsumexp}).ok());
    double sum = 0;
    for (size_t i = 0; i < out.Values().size(); ++i) sum += out.Values()[i] * grad.Values()[i];
    return sum;
  };
  const std::pair<HostTensor*, HostTensor*> pairs[] = {{&q, &grad_q}, {&k, &grad_k}, {&v, &grad_v}};
  for (const auto& [x, gradient] : pairs) ExpectGradientIsDifferenceQuotient(loss, *x, *gradient);
}

// Inputs and outputs of a recurrent op of 3 steps, batch 2 and 2 hidden features and of its backward, in f64. The loss
// is the sum of the outputs times `grad_hidden` and, with LSTM cells, of the last cell state times `grad_cell`.
struct RecurrentCase {
  RecurrentCase(serialization::Recurrent::Cell cell_kind, bool reverse, std::mt19937_64& random);

  absl::Status RunForward();
  absl::Status RunBackward();
  // Runs the forward op on the present values of the inputs.
  double Loss();
  // Returns d loss / d projected.
  HostTensor ProjectedGradient() const;
  // Returns d loss / d bias [gates] of a GRU cell: the bias is added to the hidden products of all steps.
  HostTensor BiasGradient() const;

  static constexpr DType kF64 = DType::kFloat64;
  Op op;
  bool is_lstm, is_gru;
  int64_t gates;  // width of the gates of all hidden features
  HostTensor projected{kF64, {3, 2, gates}}, weight{kF64, {gates, 2}}, h0{kF64, {2, 2}}, c0{kF64, {2, 2}};
  HostTensor bias{kF64, {gates}}, grad_hidden{kF64, {3, 2, 2}}, grad_cell{kF64, {2, 2}};
  HostTensor hidden{kF64, {3, 2, 2}}, cell{kF64, {3, 2, 2}}, saved{kF64, {3, 2, 8}};
  HostTensor grad_gates{kF64, {3, 2, is_gru ? 8 : gates}};
  HostTensor grad_h0{kF64, {2, 2}}, grad_c0{kF64, {2, 2}};
};

RecurrentCase::RecurrentCase(serialization::Recurrent::Cell cell_kind, bool reverse, std::mt19937_64& random)
    : is_lstm(cell_kind == serialization::Recurrent::LSTM),
      is_gru(cell_kind == serialization::Recurrent::GRU),
      gates(is_lstm  ? 8
            : is_gru ? 6
                     : 2) {
  op.mutable_recurrent()->set_cell(cell_kind);
  op.mutable_recurrent()->set_reverse(reverse);
  for (HostTensor* x : {&projected, &weight, &h0, &c0, &bias, &grad_hidden, &grad_cell}) FillRandom(*x, random, -1, 1);
}

absl::Status RecurrentCase::RunForward() {
  std::vector<HostTensor*> inputs = {&projected, &weight, &h0}, outputs = {&hidden};
  if (is_lstm) inputs.push_back(&c0), outputs.push_back(&cell);
  if (is_gru) inputs.push_back(&bias);
  if (is_lstm || is_gru) outputs.push_back(&saved);
  return RunOp(MakeRecurrent, op, inputs, outputs);
}

absl::Status RecurrentCase::RunBackward() {
  Op backward;
  *backward.mutable_recurrent_backward() = op.recurrent();
  std::vector<HostTensor*> inputs = {&grad_hidden, &hidden, &weight, &h0};
  std::vector<HostTensor*> gradients = {&grad_gates, &grad_h0};
  if (is_lstm || is_gru) inputs.push_back(&saved);
  if (is_lstm) inputs.insert(inputs.end(), {&cell, &c0, &grad_cell}), gradients.push_back(&grad_c0);
  return RunOp(MakeRecurrentBackward, backward, inputs, gradients);
}

double RecurrentCase::Loss() {
  EXPECT_TRUE(RunForward().ok());
  const size_t last = op.recurrent().reverse() ? 0 : 8;  // element of `cell` at which its last step begins
  double sum = 0;
  for (size_t i = 0; i < 12; ++i) sum += hidden.Values()[i] * grad_hidden.Values()[i];
  for (size_t i = 0; is_lstm && i < 4; ++i) sum += cell.Values()[last + i] * grad_cell.Values()[i];
  return sum;
}

HostTensor RecurrentCase::ProjectedGradient() const {
  if (!is_gru) return grad_gates;
  Values values;
  const Values all = grad_gates.Values();
  for (size_t i = 0; i < all.size(); ++i) {
    if (i % 8 < 6) values.push_back(all[i]);
  }
  return HostTensor(kF64, {3, 2, gates}, values);
}

HostTensor RecurrentCase::BiasGradient() const {
  Values sums(static_cast<size_t>(gates), 0);
  const Values all = grad_gates.Values();
  for (size_t i = 0; i < all.size(); ++i) {
    const size_t column = i % 8;
    if (column < 4) sums[column] += all[i];
    if (column >= 6) sums[column - 2] += all[i];  // of the new gate's hidden product
  }
  return HostTensor(kF64, {gates}, sums);
}

void ExpectRecurrentGradientsAgree(serialization::Recurrent::Cell cell) {
  std::mt19937_64 random(6);
  for (const bool reverse : {false, true}) {
    SCOPED_TRACE(reverse);
    RecurrentCase recurrent(cell, reverse, random);
    ASSERT_TRUE(recurrent.RunForward().ok());
    const absl::Status status = recurrent.RunBackward();
    ASSERT_TRUE(status.ok()) << status;
    const auto loss = [&] { return recurrent.Loss(); };
    ExpectGradientIsDifferenceQuotient(loss, recurrent.projected, recurrent.ProjectedGradient());
    ExpectGradientIsDifferenceQuotient(loss, recurrent.h0, recurrent.grad_h0);
    if (recurrent.is_lstm) ExpectGradientIsDifferenceQuotient(loss, recurrent.c0, recurrent.grad_c0);
    if (recurrent.is_gru) ExpectGradientIsDifferenceQuotient(loss, recurrent.bias, recurrent.BiasGradient());
  }
}

TEST(ReferenceOpsTest, LstmGradientsAgreeWithFiniteDifferences) {
  ExpectRecurrentGradientsAgree(serialization::Recurrent::LSTM);
}

TEST(ReferenceOpsTest, GruGradientsAgreeWithFiniteDifferences) {
  ExpectRecurrentGradientsAgree(serialization::Recurrent::GRU);
}

TEST(ReferenceOpsTest, RnnTanhGradientsAgreeWithFiniteDifferences) {
  ExpectRecurrentGradientsAgree(serialization::Recurrent::RNN_TANH);
}

TEST(ReferenceOpsTest, RnnReluGradientsAgreeWithFiniteDifferences) {
  ExpectRecurrentGradientsAgree(serialization::Recurrent::RNN_RELU);
}

TEST(ReferenceOpsTest, EveryOpHasAKernel) {
  KernelRegistry registry;
  ASSERT_TRUE(RegisterReferenceKernels(registry).ok());
  for (const OpKind kind : AllOpKinds()) {
    EXPECT_TRUE(registry.Find(DeviceType::kCpu, kind, kF32).ok()) << OpKindName(kind);
  }
}

TEST(ReferenceScanTest, ReducesEachPrefixOrSuffixOfALine) {
  Op op;
  op.mutable_scan()->set_function(serialization::Scan::MAX);
  op.mutable_scan()->set_dim(1);
  HostTensor x(DType::kFloat32, {2, 4}, {1, 3, 2, 3, 4, 0, 5, 1});
  HostTensor y(DType::kFloat32, {2, 4}), index(DType::kInt64, {2, 4});
  ASSERT_TRUE(RunOp(MakeScan, op, {&x}, {&y, &index}).ok());
  EXPECT_EQ(y.Values(), (Values{1, 3, 3, 3, 4, 4, 5, 5}));
  EXPECT_EQ(index.Values(), (Values{0, 1, 1, 3, 0, 0, 2, 2}));
  op.mutable_scan()->set_function(serialization::Scan::SUM);
  op.mutable_scan()->set_reverse(true);
  ASSERT_TRUE(RunOp(MakeScan, op, {&x}, {&y}).ok());
  EXPECT_EQ(y.Values(), (Values{9, 8, 5, 3, 10, 6, 6, 1}));
}

TEST(ReferenceSortTest, PutsTheFirstElementsOfALineInOrder) {
  Op op;
  op.mutable_sort()->set_dim(1);
  HostTensor x(DType::kFloat32, {2, 4}, {1, 3, 2, 3, 4, 0, 5, 1});
  HostTensor y(DType::kFloat32, {2, 3}), index(DType::kInt64, {2, 3});
  ASSERT_TRUE(RunOp(MakeSort, op, {&x}, {&y, &index}).ok());
  EXPECT_EQ(y.Values(), (Values{1, 2, 3, 0, 1, 4}));
  EXPECT_EQ(index.Values(), (Values{0, 2, 1, 1, 3, 0}));
  op.mutable_sort()->set_descending(true);
  ASSERT_TRUE(RunOp(MakeSort, op, {&x}, {&y, &index}).ok());
  EXPECT_EQ(y.Values(), (Values{3, 3, 2, 5, 4, 1}));
  EXPECT_EQ(index.Values(), (Values{1, 3, 2, 2, 0, 3}));
}

}  // namespace
}  // namespace cotan::reference
