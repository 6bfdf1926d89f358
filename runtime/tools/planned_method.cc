// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/planned_method.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/memory_planner.h"
#include "base/status_macros.h"
#include "planning/lifetimes.h"
#include "planning/schedule.h"
#include "serialization/schema/op_kind.h"

namespace cotan::tools {
namespace {

using serialization::Artifact;
using serialization::Method;
using serialization::Op;
using serialization::Reference;

// Sets the symbols that are the size of an input in the recorded run.
void ReadSymbols(const Method& method, const Reference& run, std::vector<int64_t>& symbols) {
  for (int i = 0; i < std::min(method.inputs_size(), run.inputs_size()); ++i) {
    const auto& sizes = method.values(static_cast<int>(method.inputs(i))).type().sizes();
    const auto& recorded = run.inputs(i).type().sizes();
    for (int d = 0; d < std::min(sizes.size(), recorded.size()); ++d) {
      for (size_t s = 0; s < symbols.size(); ++s) {
        int64_t value = 0;
        if (sizes[d] == absl::StrCat("s", s) && absl::SimpleAtoi(recorded[d], &value)) symbols[s] = value;
      }
    }
  }
}

std::vector<int64_t> SymbolsOf(const Artifact& artifact, const Method& method) {
  std::vector<int64_t> symbols;
  for (const auto& symbol : artifact.symbols()) symbols.push_back(symbol.min());
  for (const Reference& run : artifact.references()) {
    if (run.method() == method.name()) ReadSymbols(method, run, symbols);
  }
  return symbols;
}

int64_t ElementsOf(const Operand& operand) { return NumElements(operand.geometry.layout.sizes); }

int64_t BytesOf(const Operand& operand) {
  return ElementsOf(operand) * static_cast<int64_t>(ByteSize(operand.geometry.dtype));
}

// Returns the size of a dimension, 1 if there is none.
int64_t SizeOf(const Operand& operand, size_t from_end) {
  const auto& sizes = operand.geometry.layout.sizes;
  return from_end < sizes.size() ? sizes[sizes.size() - 1 - from_end] : 1;
}

// Returns the operations of a convolution: each element of `positions` meets one filter of `weight`.
int64_t ConvolutionFlops(const Operand& positions, int64_t weight_elements, int64_t filters) {
  return 2 * ElementsOf(positions) * (weight_elements / std::max<int64_t>(filters, 1));
}

// Returns the floating-point operations of products; 0 for all other ops.
int64_t FlopsOf(const Op& op, const ScheduledStep& step) {
  const auto first_size = [](const Operand& operand) {
    return operand.geometry.layout.sizes.empty() ? int64_t{1} : operand.geometry.layout.sizes[0];
  };
  switch (op.kind_case()) {
    case Op::kMatmul:
      return 2 * ElementsOf(step.inputs[0]) * SizeOf(step.inputs[1], 0);
    case Op::kConvolution: {
      const Operand& positions = op.convolution().transposed() ? step.inputs[0] : step.outputs[0];
      return ConvolutionFlops(positions, ElementsOf(step.inputs[1]), first_size(step.inputs[1]));
    }
    case Op::kConvolutionBackwardInput:
      return ConvolutionFlops(step.inputs[0], ElementsOf(step.inputs[1]), first_size(step.inputs[1]));
    case Op::kConvolutionBackwardWeight:
      return ConvolutionFlops(step.inputs[0], ElementsOf(step.outputs[0]), first_size(step.outputs[0]));
    case Op::kAttention:
      return 4 * ElementsOf(step.inputs[0]) * SizeOf(step.inputs[1], 1);
    case Op::kAttentionBackward:
      return 10 * ElementsOf(step.inputs[1]) * SizeOf(step.inputs[2], 1);
    default:
      return 0;
  }
}

StepCost CostOf(const Method& method, const ScheduledStep& step) {
  const Op& op = OpOf(method, step);
  StepCost cost = {.op = step.op, .name = std::string(OpKindName(op.kind_case())), .source = op.source()};
  for (const Operand& input : step.inputs) cost.bytes += BytesOf(input);
  for (const Operand& output : step.outputs) cost.bytes += BytesOf(output);
  cost.flops = FlopsOf(op, step);
  return cost;
}

}  // namespace

absl::StatusOr<PlannedMethod> PlanMethod(const Artifact& artifact, const Method& method) {
  PlannedMethod planned = {.symbols = SymbolsOf(artifact, method)};
  COTAN_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(artifact, method, planned.symbols));
  for (const ScheduledStep& step : schedule.steps) planned.steps.push_back(CostOf(method, step));
  const std::vector<BufferLifetime> lifetimes = ArenaLifetimes(schedule, {});
  COTAN_ASSIGN_OR_RETURN(const ArenaLayout arena, PlanArena(lifetimes));
  planned.arena_bytes = arena.bytes;
  planned.peak_bytes = PeakBytes(lifetimes);
  planned.live_bytes.resize(planned.steps.size());
  for (size_t i = 0; i < lifetimes.size(); ++i) {
    const BufferLifetime& life = lifetimes[i];
    if (life.bytes == 0) continue;
    planned.buffers.push_back(
        {.offset = arena.offsets[i], .bytes = life.bytes, .first = life.first, .last = life.last});
    for (int step = life.first; step <= life.last; ++step) planned.live_bytes[static_cast<size_t>(step)] += life.bytes;
  }
  return planned;
}

}  // namespace cotan::tools
