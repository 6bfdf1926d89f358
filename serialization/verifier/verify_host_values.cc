// SPDX-License-Identifier: Apache-2.0

#include "serialization/verifier/verify_host_values.h"

#include <algorithm>
#include <cstdint>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "serialization/schema/op_kind.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::Method;
using serialization::Op;

constexpr absl::string_view kRule =
    "; such a value is only copied to and from the device, and saved for the backward method";

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat(parts...));
}

bool IsOnHost(const Method& method, uint32_t value) { return method.values(static_cast<int>(value)).on_host(); }

absl::Status CheckOp(const Method& method, int index) {
  const Op& op = method.ops(index);
  const auto is_on_host = [&](uint32_t value) { return IsOnHost(method, value); };
  const auto reads = std::count_if(op.inputs().begin(), op.inputs().end(), is_on_host);
  const auto writes = std::count_if(op.outputs().begin(), op.outputs().end(), is_on_host);
  if (reads + writes == 0) return absl::OkStatus();
  const bool is_copy = op.has_copy() && op.inputs_size() == 1 && op.outputs_size() == 1;
  if (is_copy && reads + writes == 1) return absl::OkStatus();
  return Invalid("op ", index, " (", OpKindName(op.kind_case()), ") ", writes > 0 ? "writes" : "reads",
                 " a value on the host", is_copy ? ", and reads another one" : "", kRule);
}

// Returns the number of inputs that are saved values of the method's forward, which may not have been checked.
int NumTaken(const Artifact& artifact, const Method& method) {
  for (const Method& forward : artifact.methods()) {
    if (forward.backward_method() != method.name()) continue;
    return static_cast<int>(std::min(forward.num_saved(), static_cast<uint32_t>(method.inputs_size())));
  }
  return 0;
}

absl::Status CheckInputs(const Artifact& artifact, const Method& method) {
  for (int i = NumTaken(artifact, method); i < method.inputs_size(); ++i) {
    if (IsOnHost(method, method.inputs(i))) return Invalid("input ", i, " is on the host", kRule);
  }
  for (const serialization::StateRead& read : method.state_reads()) {
    if (IsOnHost(method, read.value())) return Invalid("the value of state ", read.state(), " is on the host", kRule);
  }
  return absl::OkStatus();
}

absl::Status CheckResults(const Method& method) {
  const int num_results = method.outputs_size() - static_cast<int>(method.num_saved());
  absl::flat_hash_set<uint32_t> saved;
  for (int i = 0; i < method.outputs_size(); ++i) {
    const uint32_t value = method.outputs(i);
    if (!IsOnHost(method, value)) continue;
    if (i < num_results) return Invalid("result ", i, " is on the host", kRule);
    if (!saved.insert(value).second) return Invalid("value ", value, " on the host is saved twice");
    const auto& inputs = method.inputs();
    if (std::find(inputs.begin(), inputs.end(), value) == inputs.end()) continue;
    return Invalid("saved value ", i - num_results, " is an input on the host", kRule);
  }
  for (const serialization::StateUpdate& update : method.state_updates()) {
    if (!IsOnHost(method, update.value())) continue;
    return Invalid("the new content of state ", update.state(), " is on the host", kRule);
  }
  for (const serialization::InputUpdate& update : method.input_updates()) {
    const uint32_t target = method.inputs(static_cast<int>(update.input()));
    if (!IsOnHost(method, update.value()) && !IsOnHost(method, target)) continue;
    return Invalid("input ", update.input(), " or its new content is on the host", kRule);
  }
  return absl::OkStatus();
}

// Checks that what a forward saves on the host is taken from there.
absl::Status CheckPair(const Artifact& artifact, const Method& forward) {
  if (forward.backward_method().empty()) return absl::OkStatus();
  for (const Method& backward : artifact.methods()) {
    if (backward.name() != forward.backward_method()) continue;
    const auto num_saved = static_cast<int>(forward.num_saved());
    for (int i = 0; i < num_saved; ++i) {
      const bool is_saved = IsOnHost(forward, forward.outputs(forward.outputs_size() - num_saved + i));
      if (is_saved == IsOnHost(backward, backward.inputs(i))) continue;
      return Invalid("saved value ", i, " is on the ", is_saved ? "host, '" : "device, '", backward.name(),
                     "' takes it on the other");
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status VerifyHostValues(const Artifact& artifact, const Method& method) {
  const auto is_on_host = [](const serialization::Value& value) { return value.on_host(); };
  if (method.has_linked() && std::any_of(method.values().begin(), method.values().end(), is_on_host)) {
    return Invalid("a linked method has a value on the host");
  }
  for (int i = 0; i < method.ops_size(); ++i) COTAN_RETURN_IF_ERROR(CheckOp(method, i));
  COTAN_RETURN_IF_ERROR(CheckInputs(artifact, method));
  COTAN_RETURN_IF_ERROR(CheckResults(method));
  return CheckPair(artifact, method);
}

}  // namespace cotan
