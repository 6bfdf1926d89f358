// SPDX-License-Identifier: Apache-2.0

#include "planning/fallible_steps.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "planning/index_ops.h"
#include "planning/index_range.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {

using serialization::CheckedIndex;
using serialization::Collective;
using serialization::Op;

FallibleSteps::FallibleSteps(const serialization::Method& method, absl::Span<const int64_t> symbols)
    : method_(method), symbols_(symbols) {
  for (const Op& op : method.ops()) {
    const bool has_indices = op.has_max_pool() || op.linear_algebra().function() == serialization::LinearAlgebra::LU;
    if (has_indices && op.outputs_size() > 1) computed_indices_.insert(op.outputs(1));
  }
}

bool FallibleSteps::MayFail(const ScheduledStep& step) {
  const Op& op = method_.ops(step.op);
  if (op.has_effect()) return true;
  if (op.has_collective()) return CollectiveMayFail(op.collective());
  const int input = IndexInput(op);
  if (input < 0) return false;
  if (op.has_max_pool_backward() || op.has_linear_algebra()) return !computed_indices_.contains(op.inputs(input));
  if (op.has_checked_index()) {
    NoteChecked(op.checked_index(), step.outputs[0].buffer);
    return true;
  }
  const int64_t size = IndexedSize(op, step);
  const auto checked = checked_.find(step.inputs[static_cast<size_t>(input)].buffer);
  if (checked != checked_.end() && checked->second <= size) return false;
  if (IsKnownInRange(op.inputs(input), size)) return false;
  return passed_.emplace(op.inputs(input), size).second;
}

// A collective fails because of another rank. A WAIT waits for all that were started: the next one finds its result.
bool FallibleSteps::CollectiveMayFail(const Collective& op) {
  if (op.function() == Collective::SHARD) return false;
  if (op.function() == Collective::WAIT) return std::exchange(exchanges_, false);
  exchanges_ = exchanges_ || op.starts();
  return true;
}

bool FallibleSteps::IsKnownInRange(uint32_t index, int64_t size) {
  if (makers_.empty()) FindMakers();
  auto maker = makers_.find(index);
  while (maker != makers_.end() && maker->second->has_view()) {
    index = maker->second->inputs(0);
    maker = makers_.find(index);
  }
  if (maker == makers_.end()) return false;
  const auto& outputs = maker->second->outputs();
  const auto output = static_cast<int>(std::find(outputs.begin(), outputs.end(), index) - outputs.begin());
  const IndexRange range = RangeOfOutput(*maker->second, output, symbols_);
  return range.min >= 0 && range.max < size;
}

void FallibleSteps::FindMakers() {
  for (const Op& op : method_.ops()) {
    if (!op.has_expr() && !op.has_view()) continue;
    for (const uint32_t output : op.outputs()) makers_.emplace(output, &op);
  }
}

void FallibleSteps::NoteChecked(const CheckedIndex& op, int buffer) {
  const absl::StatusOr<int64_t> size = EvaluateSize(op.size(), symbols_);
  if (size.ok() && !op.has_ignored()) checked_.emplace(buffer, *size);
}

}  // namespace cotan
