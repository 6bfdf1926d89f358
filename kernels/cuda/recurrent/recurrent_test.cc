// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/recurrent/recurrent.h"

#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "base/test_seed.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/compile_gate/compile_gate.h"
#include "kernels/cuda/testing/run_plan.h"
#include "kernels/reference/ops.h"
#include "kernels/testing/host_tensor.h"
#include "kernels/testing/random_case.h"
#include "testing/tolerance.h"

namespace cotan::cuda {
namespace {

using cotan::testing::DenseLayout;
using cotan::testing::ErrorInUnits;
using cotan::testing::HostTensor;
using cotan::testing::kMatmul;
using cotan::testing::RandomLayout;
using cotan::testing::RandomTensor;
using cotan::testing::RunOp;
using cotan::testing::TestSeed;
using serialization::Op;
using serialization::Recurrent;
using testing::RunOptions;
using testing::RunPlan;
using testing::RunResult;

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
    EXPECT_LE(ErrorInUnits(*operands.outputs()[i], operands.expected()[i]->Values()), kMatmul) << i;
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

using Plan = absl::FunctionRef<absl::StatusOr<KernelPlan>(const KernelRequest&)>;

// Plans and runs `plan`, and compares with the reference.
RunResult ExpectRun(Plan plan, const Op& op, Operands& operands, const RunOptions& options) {
  const absl::StatusOr<RunResult> result = RunPlan(plan, op, operands.inputs(), operands.outputs(), options);
  EXPECT_TRUE(result.ok()) << result.status();
  if (!result.ok()) return {};
  ExpectAgreement(operands);
  return *result;
}

// `shared_bytes`: of a block.
void ExpectLayer(const Case& c, std::mt19937_64& random, int64_t shared_bytes = 96 << 10) {
  const auto plan = [&](const KernelRequest& request) { return PlanRecurrentWithin(shared_bytes, request); };
  const auto backward_plan = [&](const KernelRequest& request) {
    return PlanRecurrentBackwardWithin(shared_bytes, request);
  };
  SCOPED_TRACE(absl::StrCat(DTypeName(c.dtype), " ", Recurrent::Cell_Name(c.cell), c.reverse ? " reverse " : " ",
                            c.steps, "x", c.batch, "x", c.hidden));
  const RunOptions options = {.guarded_outputs = random() % 2 == 0, .seed = random()};
  Operands forward = ForwardOperands(c, random);
  ASSERT_TRUE(RunOp(reference::MakeRecurrent, c.Forward(), forward.inputs(), forward.expected()).ok());
  ExpectRun(plan, c.Forward(), forward, options);
  if (!c.has_gates) return;
  Operands backward = BackwardOperands(c, forward, random);
  ASSERT_TRUE(RunOp(reference::MakeRecurrentBackward, c.Backward(), backward.inputs(), backward.expected()).ok());
  ExpectRun(backward_plan, c.Backward(), backward, options);
}

Case RandomCase(int round, std::mt19937_64& random) {
  const auto upto = [&](int64_t n) { return static_cast<int64_t>(random() % static_cast<uint64_t>(n + 1)); };
  constexpr DType kDTypes[] = {DType::kFloat32, DType::kFloat64, DType::kFloat16, DType::kBFloat16};
  Case c;
  c.cell = static_cast<Recurrent::Cell>(1 + round / 4 % 4);
  c.reverse = random() % 2 == 0;
  c.steps = upto(5);
  c.batch = upto(9);
  c.hidden = 1 + upto(round % 10 == 0 ? 70 : 20);
  c.dtype = kDTypes[round % 4];
  c.has_bias = random() % 2 == 0;
  c.has_gates = random() % 4 != 0;
  return c;
}

TEST(CudaRecurrentTest, AgreesWithTheReferenceForAllCellsDtypesAndLayouts) {
  std::mt19937_64 random(TestSeed());
  for (int round = 0; round < 64; ++round) ExpectLayer(RandomCase(round, random), random);
}

TEST(CudaRecurrentTest, LargeBatchesHaveSeveralEntriesPerBlock) {
  std::mt19937_64 random(TestSeed());
  ExpectLayer({Recurrent::RNN_TANH, false, 2, 300, 5}, random);
  ExpectLayer({Recurrent::LSTM, true, 1, 150, 33}, random);
  ExpectLayer({Recurrent::RNN_TANH, true, 1, 70, 264}, random);
  ExpectLayer({Recurrent::GRU, false, 2, 260, 10, DType::kBFloat16}, random);
}

TEST(CudaRecurrentTest, WideLayers) {
  std::mt19937_64 random(TestSeed());
  ExpectLayer({Recurrent::GRU, true, 2, 1, 200}, random);
  ExpectLayer({Recurrent::LSTM, false, 1, 5, 516}, random);
  ExpectLayer({Recurrent::RNN_RELU, false, 3, 2, 520, DType::kFloat16}, random);
}

TEST(CudaRecurrentTest, StatesThatDoNotFitSharedMemoryLieInScratch) {
  std::mt19937_64 random(TestSeed());
  for (int cell = 1; cell <= 4; ++cell) {
    for (const DType dtype : {DType::kFloat32, DType::kFloat64, DType::kFloat16}) {
      ExpectLayer({static_cast<Recurrent::Cell>(cell), cell == 2, 3, 5, 21, dtype}, random, 128);
    }
  }
}

TEST(CudaRecurrentTest, GradientsOfFirstStatesWithoutTimeSteps) {
  std::mt19937_64 random(TestSeed());
  for (int cell = 1; cell <= 4; ++cell) {
    ExpectLayer({static_cast<Recurrent::Cell>(cell), false, 0, 3, 5}, random);
    ExpectLayer({static_cast<Recurrent::Cell>(cell), false, 2, 0, 5}, random);
    ExpectLayer({static_cast<Recurrent::Cell>(cell), false, 2, 3, 0}, random);
  }
}

void ExpectSameBitsInAnyOrder(Plan plan, const Op& op, Operands& operands) {
  std::vector<std::vector<double>> first;
  for (const uint64_t seed : {0, 1, 2}) {
    ASSERT_TRUE(RunPlan(plan, op, operands.inputs(), operands.outputs(), {.seed = seed}).ok());
    std::vector<std::vector<double>> values;
    for (const HostTensor* output : operands.outputs()) values.push_back(output->Values());
    if (first.empty()) first = values;
    EXPECT_EQ(values, first);
  }
}

TEST(CudaRecurrentTest, OrderOfBlocksAndWarpsChangesNoBit) {
  std::mt19937_64 random(TestSeed());
  for (int cell = 1; cell <= 4; ++cell) {
    SCOPED_TRACE(cell);
    const Case c = {static_cast<Recurrent::Cell>(cell), false, 3, 5, 40};
    Operands forward = ForwardOperands(c, random);
    ASSERT_TRUE(RunOp(reference::MakeRecurrent, c.Forward(), forward.inputs(), forward.expected()).ok());
    ExpectSameBitsInAnyOrder(PlanRecurrent, c.Forward(), forward);
    Operands backward = BackwardOperands(c, forward, random);
    ExpectSameBitsInAnyOrder(PlanRecurrentBackward, c.Backward(), backward);
  }
}

// Saturated gates, and a gate that is NaN.
TEST(CudaRecurrentTest, SaturatedGatesAndNan) {
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
    ASSERT_TRUE(RunPlan(PlanRecurrent, op, {&x, &weight, &h0, &c0}, {&hidden, &cell}).ok());
    const std::vector<double> cells = cell.Values(), hiddens = hidden.Values();
    const double expected_cell[] = {3, 3, -1, 0}, expected_hidden[] = {std::tanh(3), std::tanh(3), -std::tanh(1), 0};
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_NEAR(cells[i], expected_cell[i], 1e-6) << i;
      EXPECT_NEAR(hiddens[i], expected_hidden[i], 1e-6) << i;
    }
    EXPECT_TRUE(std::isnan(cells[4]) && std::isnan(hiddens[4]));
  }
}

TEST(CudaRecurrentTest, SmallWeightsAreReadOncePerBlock) {
  std::mt19937_64 random(TestSeed());
  const Case c = {.cell = Recurrent::GRU, .reverse = false, .steps = 10, .batch = 4, .hidden = 64};
  Operands operands(c.dtype, random);
  for (const DimVector& sizes : {DimVector{10, 4, 192}, {192, 64}, {4, 64}}) {
    operands.AddInput(RandomTensor(c.dtype, DenseLayout(sizes), random, -0.1, 0.1));
  }
  operands.AddOutput(DimVector{10, 4, 64});
  ASSERT_TRUE(RunOp(reference::MakeRecurrent, c.Forward(), operands.inputs(), operands.expected()).ok());
  const RunResult result = ExpectRun(PlanRecurrent, c.Forward(), operands, {});
  const uint64_t weights = 192 * 64 * 4, sequence = (10 * 4 * 192 + 4 * 64) * 4;
  // Each of four blocks reads them.
  EXPECT_EQ(result.counters.global_load_sectors * 32, 4 * weights + sequence);
}

TEST(CudaRecurrentTest, GuardedOutputsAreKeptAfterAnError) {
  const Case c = {Recurrent::RNN_RELU, false, 2, 3, 4};
  std::mt19937_64 random(1);
  Operands operands = ForwardOperands(c, random);
  const std::vector<double> before = operands.outputs()[0]->Values();
  ASSERT_TRUE(RunPlan(PlanRecurrent, c.Forward(), operands.inputs(), operands.outputs(),
                      {.guarded_outputs = true, .failed_before = true})
                  .ok());
  EXPECT_EQ(operands.outputs()[0]->Values(), before);
}

TEST(CudaRecurrentTest, OtherSizesAreRejected) {
  const Case c = {Recurrent::GRU, false, 2, 3, 4, DType::kFloat16};
  std::mt19937_64 random(1);
  Operands operands = ForwardOperands(c, random);
  HostTensor short_weight(DType::kFloat16, {9, 4});
  std::vector<HostTensor*> inputs = operands.inputs();
  inputs[1] = &short_weight;
  EXPECT_EQ(RunPlan(PlanRecurrent, c.Forward(), inputs, operands.outputs()).status().code(),
            absl::StatusCode::kInvalidArgument);
}

// Compiles the plan for operands of these sizes, all dense.
void ExpectResources(Plan plan, const Op& op, Operands& operands) {
  constexpr int kArchitectures[] = {90};
  std::vector<TensorSpec> inputs, outputs;
  const auto dense = [](const HostTensor* tensor) {
    return TensorSpec{tensor->spec().dtype, DenseLayout(tensor->spec().layout.sizes)};
  };
  for (const HostTensor* tensor : operands.inputs()) inputs.push_back(dense(tensor));
  for (const HostTensor* tensor : operands.outputs()) outputs.push_back(dense(tensor));
  const KernelRequest request = {.op = op, .inputs = inputs, .outputs = outputs, .symbols = {}};
  const absl::StatusOr<KernelPlan> kernels = plan(request);
  ASSERT_TRUE(kernels.ok()) << kernels.status();
  const KernelLaunch& launch = std::get<KernelLaunch>(kernels->steps.back());
  EXPECT_LE(launch.dynamic_shared_bytes, 99u * 1024u);
  const auto resources = CompileForArchitectures(launch.source, kArchitectures);
  ASSERT_TRUE(resources.ok()) << resources.status();
  EXPECT_TRUE(CheckResources(*resources, 255).ok()) << CheckResources(*resources, 255);
}

void ExpectResourcesOfLayer(const Case& c, std::mt19937_64& random) {
  SCOPED_TRACE(absl::StrCat(DTypeName(c.dtype), " ", Recurrent::Cell_Name(c.cell), " ", c.batch, "x", c.hidden));
  Operands forward = ForwardOperands(c, random);
  ExpectResources(PlanRecurrent, c.Forward(), forward);
  Operands backward = BackwardOperands(c, forward, random);
  ExpectResources(PlanRecurrentBackward, c.Backward(), backward);
}

TEST(CudaRecurrentTest, NoKernelSpillsOrIndexesLocalMemory) {
  std::mt19937_64 random(1);
  for (const Case& c : {Case{Recurrent::LSTM, false, 1, 64, 64}, Case{Recurrent::GRU, true, 1, 256, 256},
                        Case{Recurrent::LSTM, false, 1, 256, 512, DType::kBFloat16},
                        Case{Recurrent::GRU, false, 1, 256, 128, DType::kFloat64},
                        Case{Recurrent::LSTM, false, 1, 16, 1024}, Case{Recurrent::GRU, false, 64, 16, 128}}) {
    ExpectResourcesOfLayer(c, random);
  }
}

// Weights that nearly fill registers and shared memory.
TEST(CudaRecurrentTest, NoKernelWithPersistentWeightsSpills) {
  std::mt19937_64 random(1);
  for (const DType dtype : {DType::kFloat32, DType::kBFloat16, DType::kFloat64}) {
    for (const auto& [cell, hidden] :
         {std::pair(Recurrent::LSTM, 128), std::pair(Recurrent::GRU, 144), std::pair(Recurrent::RNN_TANH, 240)}) {
      for (const int64_t batch : {1, 200}) {
        ExpectResourcesOfLayer({cell, false, 2, batch, hidden / (dtype == DType::kFloat64 ? 2 : 1), dtype}, random);
      }
    }
  }
}

}  // namespace
}  // namespace cotan::cuda
