// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/recurrent/recurrent.h"

#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/reference/ops.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cpu {
namespace {

using serialization::Op;
using serialization::Recurrent;
using testing::ErrorInUnits;
using testing::GapsAreUntouched;
using testing::HostTensor;
using testing::RandomLayout;
using testing::RandomTensor;
using testing::RunOp;
using testing::TestSeed;

struct Case {
  Recurrent::Cell cell;
  bool reverse;
  int64_t steps, batch, hidden;
  DType dtype = DType::kFloat32;
  bool has_bias = true;   // of GRU
  bool has_gates = true;  // of LSTM and GRU

  bool is_lstm() const { return cell == Recurrent::LSTM; }
  bool is_gru() const { return cell == Recurrent::GRU; }
  int64_t gates() const { return (is_lstm() ? 4 : is_gru() ? 3 : 1) * hidden; }
  Op Forward() const {
    Op op;
    op.mutable_recurrent()->set_cell(cell);
    op.mutable_recurrent()->set_reverse(reverse);
    return op;
  }
  Op Backward() const {
    Op op;
    *op.mutable_recurrent_backward() = Forward().recurrent();
    return op;
  }
};

// Owns the tensors of an op.
class Operands {
 public:
  Operands(DType dtype, std::mt19937_64& random) : dtype_(dtype), random_(random) {}

  void AddInput(const DimVector& sizes, double range) {
    const StridedLayout layout = RandomLayout(sizes, random_, random_() % 2 == 0, random_() % 4 == 0);
    inputs_.push_back(RandomTensor(dtype_, layout, random_, -range, range));
  }
  void AddInput(HostTensor tensor) { inputs_.push_back(std::move(tensor)); }
  void AddOutput(const DimVector& sizes) {
    outputs_.emplace_back(dtype_, RandomLayout(sizes, random_, random_() % 2 == 0, false));
    expected_.emplace_back(dtype_, sizes);
  }

  std::vector<HostTensor*> inputs() { return Pointers(inputs_); }
  std::vector<HostTensor*> outputs() { return Pointers(outputs_); }
  std::vector<HostTensor*> expected() { return Pointers(expected_); }

 private:
  static std::vector<HostTensor*> Pointers(std::vector<HostTensor>& tensors) {
    std::vector<HostTensor*> pointers;
    for (HostTensor& tensor : tensors) pointers.push_back(&tensor);
    return pointers;
  }

  const DType dtype_;
  std::mt19937_64& random_;
  std::vector<HostTensor> inputs_, outputs_, expected_;
};

void ExpectAgreement(Operands& operands) {
  for (size_t i = 0; i < operands.outputs().size(); ++i) {
    EXPECT_LE(ErrorInUnits(*operands.outputs()[i], operands.expected()[i]->Values()), testing::kMatmul) << i;
    EXPECT_TRUE(GapsAreUntouched(*operands.outputs()[i])) << i;
  }
}

Operands ForwardOperands(const Case& c, std::mt19937_64& random) {
  Operands operands(c.dtype, random);
  operands.AddInput({c.steps, c.batch, c.gates()}, 1);
  operands.AddInput({c.gates(), c.hidden}, 1.5 / std::sqrt(static_cast<double>(c.hidden)));
  operands.AddInput({c.batch, c.hidden}, 1);
  if (c.is_lstm()) operands.AddInput({c.batch, c.hidden}, 1);
  if (c.is_gru() && c.has_bias) operands.AddInput({c.gates()}, 1);
  operands.AddOutput({c.steps, c.batch, c.hidden});
  if (c.is_lstm()) operands.AddOutput({c.steps, c.batch, c.hidden});
  if ((c.is_lstm() || c.is_gru()) && c.has_gates) operands.AddOutput({c.steps, c.batch, 4 * c.hidden});
  return operands;
}

// Returns the operands of the backward op, with the states that the reference wrote to `forward`.
Operands BackwardOperands(const Case& c, Operands& forward, std::mt19937_64& random) {
  Operands operands(c.dtype, random);
  operands.AddInput({c.steps, c.batch, c.hidden}, 1);
  operands.AddInput(*forward.expected()[0]);
  operands.AddInput(*forward.inputs()[1]);
  operands.AddInput(*forward.inputs()[2]);
  if (c.is_lstm() || c.is_gru()) operands.AddInput(*forward.expected().back());
  if (c.is_lstm()) {
    operands.AddInput(*forward.expected()[1]);
    operands.AddInput(*forward.inputs()[3]);
    operands.AddInput({c.batch, c.hidden}, 1);
  }
  operands.AddOutput({c.steps, c.batch, c.is_gru() ? 4 * c.hidden : c.gates()});
  operands.AddOutput({c.batch, c.hidden});
  if (c.is_lstm()) operands.AddOutput({c.batch, c.hidden});
  return operands;
}

void ExpectLayer(const Case& c, int threads, std::mt19937_64& random) {
  SCOPED_TRACE(absl::StrCat(DTypeName(c.dtype), " ", Recurrent::Cell_Name(c.cell), c.reverse ? " reverse " : " ",
                            c.steps, "x", c.batch, "x", c.hidden));
  Operands forward = ForwardOperands(c, random);
  ASSERT_TRUE(RunOp(reference::MakeRecurrent, c.Forward(), forward.inputs(), forward.expected()).ok());
  const absl::Status status = RunOp(MakeRecurrent, c.Forward(), forward.inputs(), forward.outputs(), threads);
  ASSERT_TRUE(status.ok()) << status;
  ExpectAgreement(forward);
  if (!c.has_gates) return;

  Operands backward = BackwardOperands(c, forward, random);
  ASSERT_TRUE(RunOp(reference::MakeRecurrentBackward, c.Backward(), backward.inputs(), backward.expected()).ok());
  const absl::Status back = RunOp(MakeRecurrentBackward, c.Backward(), backward.inputs(), backward.outputs(), threads);
  ASSERT_TRUE(back.ok()) << back;
  ExpectAgreement(backward);
}

Case RandomCase(int round, std::mt19937_64& random) {
  const auto upto = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n + 1)); };
  Case c;
  c.cell = static_cast<Recurrent::Cell>(1 + random() % 4);
  c.reverse = random() % 2 == 0;
  c.steps = upto(6);
  c.batch = upto(15);
  c.hidden = 1 + upto(round % 10 == 0 ? 80 : 20);
  c.dtype = random() % 2 == 0 ? DType::kFloat32 : DType::kFloat64;
  c.has_bias = random() % 2 == 0;
  c.has_gates = random() % 4 != 0;
  return c;
}

TEST(RecurrentTest, AgreesWithTheReferenceForAllCellsDtypesAndLayouts) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 200; ++round) ExpectLayer(RandomCase(round, random), 1, random);
}

TEST(RecurrentTest, ThreadsShareTheBatchAndChangeNoBit) {
  std::mt19937_64 random(TestSeed());
  for (int cell = 1; cell <= 4; ++cell) {
    const Case c = {static_cast<Recurrent::Cell>(cell), false, 30, 13, 96};
    Operands forward = ForwardOperands(c, random);
    ASSERT_TRUE(RunOp(MakeRecurrent, c.Forward(), forward.inputs(), forward.outputs(), 1).ok());
    ASSERT_TRUE(RunOp(MakeRecurrent, c.Forward(), forward.inputs(), forward.expected(), 2).ok());
    for (size_t i = 0; i < forward.outputs().size(); ++i) {
      EXPECT_EQ(forward.outputs()[i]->Values(), forward.expected()[i]->Values()) << cell;
    }
    Operands backward = BackwardOperands(c, forward, random);
    ASSERT_TRUE(RunOp(MakeRecurrentBackward, c.Backward(), backward.inputs(), backward.outputs(), 1).ok());
    ASSERT_TRUE(RunOp(MakeRecurrentBackward, c.Backward(), backward.inputs(), backward.expected(), 2).ok());
    for (size_t i = 0; i < backward.outputs().size(); ++i) {
      EXPECT_EQ(backward.outputs()[i]->Values(), backward.expected()[i]->Values()) << cell;
    }
  }
}

TEST(RecurrentTest, GradientsMayOverwriteTheGates) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 50; ++round) {
    Case c = RandomCase(round, random);
    c.cell = round % 2 == 0 ? Recurrent::LSTM : Recurrent::GRU;
    c.has_gates = true;
    Operands forward = ForwardOperands(c, random);
    ASSERT_TRUE(RunOp(reference::MakeRecurrent, c.Forward(), forward.inputs(), forward.expected()).ok());
    Operands backward = BackwardOperands(c, forward, random);
    ASSERT_TRUE(RunOp(MakeRecurrentBackward, c.Backward(), backward.inputs(), backward.expected()).ok());
    std::vector<HostTensor*> outputs = backward.outputs();
    outputs[0] = backward.inputs()[4];
    ASSERT_TRUE(RunOp(MakeRecurrentBackward, c.Backward(), backward.inputs(), outputs, 2).ok());
    for (size_t i = 0; i < outputs.size(); ++i) {
      EXPECT_EQ(outputs[i]->Values(), backward.expected()[i]->Values()) << Recurrent::Cell_Name(c.cell) << " " << i;
    }
  }
}

// Saturated gates, and a gate that is NaN.
TEST(RecurrentTest, SaturatedGatesAndNan) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : {DType::kFloat32, DType::kFloat64}) {
    Op op;
    op.mutable_recurrent()->set_cell(Recurrent::LSTM);
    // Input, forget, cell, output gate of one feature in five batch entries.
    HostTensor x(dtype, {1, 5, 4},
                 {1e4, 1e4, 1e4, 1e4, -1e4, 1e4, 0, 1e4, inf, -inf, -inf, inf, -1e4, -1e4, 1, -1e4,  //
                  nan, 0,   0,   0});
    HostTensor weight(dtype, {4, 1}, {0, 0, 0, 0}), h0(dtype, {5, 1}, {0, 0, 0, 0, 0}),
        c0(dtype, {5, 1}, {2, 3, 4, 5, 6});
    HostTensor hidden(dtype, {1, 5, 1}), cell(dtype, {1, 5, 1});
    ASSERT_TRUE(RunOp(MakeRecurrent, op, {&x, &weight, &h0, &c0}, {&hidden, &cell}).ok());
    const std::vector<double> cells = cell.Values(), hiddens = hidden.Values();
    const double expected_cell[] = {3, 3, -1, 0}, expected_hidden[] = {std::tanh(3), std::tanh(3), -std::tanh(1), 0};
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(cells[i], expected_cell[i], 1e-6) << i;
      EXPECT_NEAR(hiddens[i], expected_hidden[i], 1e-6) << i;
    }
    EXPECT_TRUE(std::isnan(cells[4]) && std::isnan(hiddens[4]));
  }
}

TEST(RecurrentTest, SmallValuesKeepTheirDigits) {
  Op op;
  op.mutable_recurrent()->set_cell(Recurrent::RNN_TANH);
  HostTensor x(DType::kFloat32, {1, 1, 3}, {1e-20, -3e-4, 0.7});
  HostTensor weight(DType::kFloat32, {3, 3}, std::vector<double>(9, 0)), h0(DType::kFloat32, {1, 3}, {0, 0, 0});
  HostTensor hidden(DType::kFloat32, {1, 1, 3});
  ASSERT_TRUE(RunOp(MakeRecurrent, op, {&x, &weight, &h0}, {&hidden}).ok());
  for (size_t i = 0; i < 3; ++i) {
    const double expected = std::tanh(x.Values()[i]);
    EXPECT_NEAR(hidden.Values()[i] / expected, 1, 5e-7) << i;
  }
}

TEST(RecurrentTest, RejectsOtherDtypesAndSizes) {
  const Case c = {Recurrent::GRU, false, 2, 3, 4, DType::kFloat16};
  std::mt19937_64 random(1);
  Operands operands = ForwardOperands(c, random);
  EXPECT_EQ(RunOp(MakeRecurrent, c.Forward(), operands.inputs(), operands.outputs()).code(),
            absl::StatusCode::kUnimplemented);
  HostTensor short_weight(DType::kFloat16, {9, 4});
  std::vector<HostTensor*> inputs = operands.inputs();
  inputs[1] = &short_weight;
  EXPECT_EQ(RunOp(MakeRecurrent, c.Forward(), inputs, operands.outputs()).code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace cotan::cpu
