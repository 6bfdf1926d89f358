// SPDX-License-Identifier: Apache-2.0

#include "aot/memory/method_facts.h"

#include <algorithm>

#include "absl/container/flat_hash_map.h"

namespace cotan::aot {

using serialization::InputUpdate;
using serialization::Method;
using serialization::Op;
using serialization::StateRead;
using serialization::StateUpdate;

MethodFacts::MethodFacts(const Method& method) {
  const auto size = static_cast<size_t>(method.values_size());
  producer.assign(size, -1);
  root.resize(size);
  uses.resize(size);
  is_kept.assign(size, false);
  updated_by.assign(size, kNever);
  for (size_t value = 0; value < size; ++value) root[value] = static_cast<uint32_t>(value);
  for (int i = 0; i < method.ops_size(); ++i) {
    const Op& op = method.ops(i);
    for (const uint32_t output : op.outputs()) producer[output] = i;
    if (op.has_view()) {
      root[op.outputs(0)] = root[op.inputs(0)];
      continue;
    }
    for (const uint32_t input : op.inputs()) {
      std::vector<int>& users = uses[root[input]];
      if (users.empty() || users.back() != i) users.push_back(i);
    }
  }
  for (const uint32_t output : method.outputs()) is_kept[root[output]] = true;
  absl::flat_hash_map<uint32_t, uint32_t> value_of_state;
  for (const StateRead& read : method.state_reads()) value_of_state.emplace(read.state(), read.value());
  for (const StateUpdate& update : method.state_updates()) {
    is_kept[root[update.value()]] = true;
    const auto old = value_of_state.find(update.state());
    if (old != value_of_state.end()) updated_by[old->second] = producer[root[update.value()]];
  }
  for (const InputUpdate& update : method.input_updates()) {
    is_kept[root[update.value()]] = true;
    updated_by[method.inputs(static_cast<int>(update.input()))] = producer[root[update.value()]];
  }
}

int MethodFacts::LastUse(uint32_t root_value) const {
  return uses[root_value].empty() ? producer[root_value] : uses[root_value].back();
}

int MethodFacts::NextUse(uint32_t root_value, int after) const {
  const std::vector<int>& users = uses[root_value];
  const auto next = std::upper_bound(users.begin(), users.end(), after);
  return next == users.end() ? -1 : *next;
}

}  // namespace cotan::aot
