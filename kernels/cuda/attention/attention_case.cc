// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/attention/attention_case.h"

#include <algorithm>
#include <limits>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/attention/attention.h"
#include "kernels/reference/ops.h"
#include "kernels/testing/random_case.h"

namespace cotan::cuda {
namespace {

using cotan::testing::DenseLayout;
using cotan::testing::HostTensor;
using cotan::testing::RandomLayout;
using cotan::testing::RandomTensor;

StridedLayout LayoutOf(const AttentionCase& c, const DimVector& sizes, std::mt19937_64& random, bool is_input) {
  switch (c.layout) {
    case AttentionCase::Layout::kRowMajor:
      return DenseLayout(sizes);
    case AttentionCase::Layout::kHeadsInside:
      return sizes.size() == 4 ? DenseLayout(sizes, {0, 2, 1, 3}) : DenseLayout(sizes);
    case AttentionCase::Layout::kRandom:
      return RandomLayout(sizes, random, random() % 2 == 0, is_input && random() % 3 == 0);
  }
  return {};
}

HostTensor Input(const AttentionCase& c, const DimVector& sizes, std::mt19937_64& random) {
  return RandomTensor(c.dtype, LayoutOf(c, sizes, random, true), random);
}

DimVector BiasSizes(const AttentionCase& c, std::mt19937_64& random) {
  if (c.bias != AttentionCase::Bias::kBroadcast) return {c.batch, c.heads, c.queries, c.keys};
  switch (random() % 3) {
    case 0:
      return {c.queries, c.keys};
    case 1:
      return {c.batch, 1, 1, c.keys};
    default:
      return {1, c.heads, c.queries, 1};
  }
}

void SetAttributes(const AttentionCase& c, serialization::Attention& op) {
  op.set_is_causal(c.is_causal);
  op.set_scale(c.scale);
}

absl::StatusOr<double> Run(absl::StatusOr<KernelPlan> (&plan)(const KernelRequest&), const serialization::Op& op,
                           const std::vector<HostTensor*>& inputs, const std::vector<HostTensor*>& expected,
                           const testing::RunOptions& options, std::vector<HostTensor>* outputs,
                           testing::RunResult* run) {
  std::vector<HostTensor> actual;
  std::vector<HostTensor*> pointers;
  for (const HostTensor* tensor : expected) actual.emplace_back(tensor->dtype(), tensor->layout());
  for (HostTensor& tensor : actual) pointers.push_back(&tensor);
  COTAN_ASSIGN_OR_RETURN(const testing::RunResult result, testing::RunPlan(plan, op, inputs, pointers, options));
  if (run != nullptr) *run = result;
  double error = 0;
  for (size_t i = 0; i < actual.size(); ++i) {
    error = std::max(error, cotan::testing::ErrorInUnits(actual[i], expected[i]->Values()));
  }
  if (outputs != nullptr) *outputs = std::move(actual);
  return error;
}

}  // namespace

std::string AttentionCase::ToString() const {
  return absl::StrCat(DTypeName(dtype), " B", batch, " H", heads, " L", queries, " S", keys, " E", size, " Ev",
                      value_size, is_causal ? " causal" : "", " bias ", static_cast<int>(bias), " layout ",
                      static_cast<int>(layout));
}

AttentionOperands::AttentionOperands(const AttentionCase& c, std::mt19937_64& random)
    : q(Input(c, {c.batch, c.heads, c.queries, c.size}, random)),
      k(Input(c, {c.batch, c.heads, c.keys, c.size}, random)),
      v(Input(c, {c.batch, c.heads, c.keys, c.value_size}, random)),
      bias(Input(c, BiasSizes(c, random), random)),
      grad(Input(c, {c.batch, c.heads, c.queries, c.value_size}, random)),
      result(c.dtype, LayoutOf(c, {c.batch, c.heads, c.queries, c.value_size}, random, false)),
      logsumexp(c.dtype == DType::kFloat64 ? DType::kFloat64 : DType::kFloat32,
                LayoutOf(c, {c.batch, c.heads, c.queries}, random, false)),
      grad_q(c.dtype, LayoutOf(c, {c.batch, c.heads, c.queries, c.size}, random, false)),
      grad_k(c.dtype, LayoutOf(c, {c.batch, c.heads, c.keys, c.size}, random, false)),
      grad_v(c.dtype, LayoutOf(c, {c.batch, c.heads, c.keys, c.value_size}, random, false)),
      case_(c) {
  if (c.bias != AttentionCase::Bias::kNone && bias.numel() > 0) {
    std::vector<double> values = bias.Values();
    values[random() % values.size()] = -std::numeric_limits<double>::infinity();
    bias.SetValues(values);
  }
}

std::vector<HostTensor*> AttentionOperands::ForwardInputs() {
  std::vector<HostTensor*> inputs = {&q, &k, &v};
  if (case_.bias != AttentionCase::Bias::kNone) inputs.push_back(&bias);
  return inputs;
}

std::vector<HostTensor*> AttentionOperands::BackwardInputs() {
  std::vector<HostTensor*> inputs = {&grad, &q, &k, &v, &result, &logsumexp};
  if (case_.bias != AttentionCase::Bias::kNone) inputs.push_back(&bias);
  return inputs;
}

absl::Status AttentionOperands::MakeExpected() {
  COTAN_RETURN_IF_ERROR(
      cotan::testing::RunOp(reference::MakeAttention, ForwardOp(), ForwardInputs(), {&result, &logsumexp}));
  return cotan::testing::RunOp(reference::MakeAttentionBackward, BackwardOp(), BackwardInputs(),
                               {&grad_q, &grad_k, &grad_v});
}

serialization::Op AttentionOperands::ForwardOp() const {
  serialization::Op op;
  SetAttributes(case_, *op.mutable_attention());
  return op;
}

serialization::Op AttentionOperands::BackwardOp() const {
  serialization::Op op;
  SetAttributes(case_, *op.mutable_attention_backward());
  return op;
}

absl::StatusOr<double> RunForward(AttentionOperands& operands, const testing::RunOptions& options,
                                  std::vector<HostTensor>* outputs, testing::RunResult* run) {
  return Run(PlanFlashAttention, operands.ForwardOp(), operands.ForwardInputs(),
             {&operands.result, &operands.logsumexp}, options, outputs, run);
}

absl::StatusOr<double> RunBackward(AttentionOperands& operands, const testing::RunOptions& options,
                                   std::vector<HostTensor>* outputs, testing::RunResult* run) {
  return Run(PlanFlashAttentionBackward, operands.BackwardOp(), operands.BackwardInputs(),
             {&operands.grad_q, &operands.grad_k, &operands.grad_v}, options, outputs, run);
}

}  // namespace cotan::cuda
