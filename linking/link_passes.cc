// SPDX-License-Identifier: Apache-2.0

#include "linking/link_passes.h"

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace cotan {
namespace {

using serialization::Method;
using serialization::Op;

bool IsObservable(const Op& op) {
  return op.has_effect() || op.has_checked_index() || op.has_gather() || op.has_scatter_add() ||
         op.has_max_pool_backward();
}

}  // namespace

void RemoveDeadOps(Method& method) {
  std::vector<bool> used(static_cast<size_t>(method.values_size()));
  for (const uint32_t output : method.outputs()) used[output] = true;
  for (const serialization::InputUpdate& update : method.input_updates()) used[update.value()] = true;
  for (const serialization::StateUpdate& update : method.state_updates()) used[update.value()] = true;
  std::vector<bool> kept(static_cast<size_t>(method.ops_size()));
  for (int i = method.ops_size() - 1; i >= 0; --i) {
    const Op& op = method.ops(i);
    const bool is_used = std::any_of(op.outputs().begin(), op.outputs().end(), [&](uint32_t v) { return used[v]; });
    if (!is_used && !IsObservable(op)) continue;
    kept[static_cast<size_t>(i)] = true;
    for (const uint32_t input : op.inputs()) used[input] = true;
  }
  int end = 0;
  for (int i = 0; i < method.ops_size(); ++i) {
    if (kept[static_cast<size_t>(i)]) method.mutable_ops()->SwapElements(end++, i);
  }
  method.mutable_ops()->DeleteSubrange(end, method.ops_size() - end);
}

void AccumulateAsSoonAsPossible(Method& method) {
  std::vector<bool> is_update(static_cast<size_t>(method.values_size()));
  for (const serialization::InputUpdate& update : method.input_updates()) is_update[update.value()] = true;
  std::vector<int> op_of(static_cast<size_t>(method.values_size()), -1);
  std::vector<std::pair<int, int>> order;  // (position, 1 for a moved op), stable
  std::vector<int> source;
  for (int i = 0; i < method.ops_size(); ++i) {
    const Op& op = method.ops(i);
    int position = i;
    if (op.outputs_size() == 1 && is_update[op.outputs(0)]) {
      int last = -1;
      for (const uint32_t input : op.inputs()) last = std::max(last, op_of[input]);
      if (last >= 0) position = order[static_cast<size_t>(last)].first;
    }
    order.emplace_back(position, position == i ? 0 : 1);
    source.push_back(i);
    for (const uint32_t output : op.outputs()) op_of[output] = i;
  }
  std::stable_sort(source.begin(), source.end(),
                   [&](int a, int b) { return order[static_cast<size_t>(a)] < order[static_cast<size_t>(b)]; });
  google::protobuf::RepeatedPtrField<Op> sorted;
  for (const int i : source) sorted.Add()->Swap(method.mutable_ops(i));
  method.mutable_ops()->Swap(&sorted);
}

}  // namespace cotan
