// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/planned_method.h"

#include <algorithm>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "base/memory_planner.h"
#include "base/status_macros.h"
#include "base/sym_int.h"
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

// Sets the symbols that are counted by a sizing method to the most that they may be.
void SetCounted(const Artifact& artifact, std::vector<int64_t>& symbols) {
  for (const Method& method : artifact.methods()) {
    const auto next = std::find_if(artifact.methods().begin(), artifact.methods().end(), [&](const Method& other) {
      return method.has_continuation() && other.name() == method.continuation().method();
    });
    for (int i = 0; i < method.continuation().inputs_size() && next != artifact.methods().end(); ++i) {
      if (method.continuation().inputs(i).count() == 0) continue;
      // VerifyArtifact(): a symbol.
      const absl::StatusOr<SymInt> size =
          SymInt::Parse(next->values(static_cast<int>(next->inputs(i))).type().sizes(0));
      const auto index = static_cast<size_t>(size.ok() ? size->symbol() : 0);
      if (size.ok()) symbols[index] = artifact.symbols(static_cast<int>(index)).max();
    }
  }
}

std::vector<int64_t> SymbolsOf(const Artifact& artifact, const Method& method) {
  std::vector<int64_t> symbols;
  for (const auto& symbol : artifact.symbols()) symbols.push_back(symbol.min());
  SetCounted(artifact, symbols);
  for (const Reference& run : artifact.references()) {
    if (run.method() == method.name()) ReadSymbols(method, run, symbols);
  }
  return symbols;
}

StepCost CostOf(const Method& method, const ScheduledStep& step) {
  const Op& op = OpOf(method, step);
  StepCost cost = {.op = step.op,
                   .dtype = step.outputs.empty() ? DType::kUndefined : step.outputs[0].geometry.dtype,
                   .name = std::string(OpKindName(op.kind_case())),
                   .source = op.source(),
                   .work = WorkOf(op, step)};
  if (step.computed != nullptr)
    absl::StrAppend(&cost.name, " + ", OpKindName(method.ops(step.computed->op).kind_case()));
  return cost;
}

}  // namespace

absl::StatusOr<PlannedMethod> PlanMethod(const Artifact& artifact, const Method& method,
                                         const KernelRegistry* kernels) {
  PlannedMethod planned = {.symbols = SymbolsOf(artifact, method)};
  ScheduleOptions options;
  if (kernels != nullptr) options.computed_operands = kernels->FindComputedOperands(DeviceType::kCpu);
  COTAN_ASSIGN_OR_RETURN(const Schedule schedule, MakeSchedule(artifact, method, planned.symbols, options));
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
