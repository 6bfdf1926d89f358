// SPDX-License-Identifier: Apache-2.0

#include "serialization/verifier/verify_continuation.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/sym_int.h"
#include "serialization/schema/continuation.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

using serialization::Artifact;
using serialization::ContinuedInput;
using serialization::Method;
using serialization::TensorType;

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("continuation: ", parts...));
}

// Returns the type of a value that is in range.
const TensorType& TypeOf(const Method& method, uint32_t value) { return method.values(static_cast<int>(value)).type(); }

bool SameType(const TensorType& a, const TensorType& b) { return a.SerializeAsString() == b.SerializeAsString(); }

// Checks that the method has what a sizing method may have.
absl::Status CheckParts(const Artifact& artifact, const Method& method) {
  if (method.state_updates_size() + method.input_updates_size() != 0) return Invalid("the method has updates");
  const bool is_paired = !method.backward_method().empty() || method.num_saved() != 0 || method.has_linked();
  if (is_paired || method.has_metadata() || method.has_signature() || method.has_input_binding()) {
    return Invalid("the method has a backward, or metadata");
  }
  const auto has_effect = [](const serialization::Op& op) { return op.has_effect(); };
  if (std::any_of(method.ops().begin(), method.ops().end(), has_effect)) return Invalid("the method has effects");
  for (const Method& other : artifact.methods()) {
    for (const std::string* called : {&other.backward_method(), &other.differentiable_backward()}) {
      if (*called == method.name() || *called == method.continuation().method()) {
        return Invalid("method '", other.name(), "' has '", *called, "' as its backward");
      }
    }
  }
  return absl::OkStatus();
}

// Returns the method that goes on. It follows no other method, and the chain does not return to the method.
absl::StatusOr<const Method*> NextOf(const Artifact& artifact, const Method& method) {
  const std::string& name = method.continuation().method();
  const Method* next = nullptr;
  for (const Method& other : artifact.methods()) {
    if (other.name() == name) next = &other;
    if (&other != &method && other.has_continuation() && other.continuation().method() == name) {
      return Invalid("both '", method.name(), "' and '", other.name(), "' are continued by '", name, "'");
    }
  }
  if (next == nullptr) return Invalid("there is no method '", name, "'");
  if (next == &method) return Invalid("the method continues itself");
  // All names differ, so that a circle is a chain that contains the method itself.
  for (const int before : SizingMethodsOf(artifact, method)) {
    if (artifact.methods(before).name() == name)
      return Invalid("'", name, "' comes before the method that it continues");
  }
  return next;
}

// Checks a tensor that is cut to a count.
absl::Status CheckCut(const Method& method, const ContinuedInput& given, const TensorType& from, const TensorType& to,
                      int num_symbols) {
  if (given.from_inputs()) return Invalid("an input of the method is cut to a count; only outputs are");
  if (given.count() > static_cast<uint32_t>(method.outputs_size())) {
    return Invalid("count ", given.count() - 1, " of ", method.outputs_size(), " outputs");
  }
  const TensorType& count = TypeOf(method, method.outputs(static_cast<int>(given.count() - 1)));
  if (count.dtype() != serialization::DTYPE_I64 || count.sizes_size() != 0) {
    return Invalid("a count is ", TensorTypeText(count), ", expected i64[]");
  }
  if (from.sizes().empty() || to.sizes_size() != from.sizes_size() || !from.dim_order().empty() ||
      !to.dim_order().empty()) {
    return Invalid("a tensor ", TensorTypeText(from), " cannot be cut to ", TensorTypeText(to));
  }
  COTAN_ASSIGN_OR_RETURN(const SymInt size, ParseSize(to.sizes(0), num_symbols));
  if (size.kind() != SymInt::Kind::kSymbol) return Invalid("a tensor is cut to '", to.sizes(0), "', expected a symbol");
  TensorType whole = to;
  whole.set_sizes(0, from.sizes(0));
  return SameType(whole, from) ? absl::OkStatus()
                               : Invalid("a tensor ", TensorTypeText(from), " is cut to ", TensorTypeText(to));
}

absl::Status CheckInput(const Artifact& artifact, const Method& method, const Method& next, int index) {
  const ContinuedInput& given = method.continuation().inputs(index);
  const auto& values = given.from_inputs() ? method.inputs() : method.outputs();
  if (given.index() >= static_cast<uint32_t>(values.size())) {
    return Invalid("input ", index, " of '", next.name(), "' is ", given.from_inputs() ? "input " : "output ",
                   given.index(), " of ", values.size());
  }
  const TensorType& from = TypeOf(method, values.Get(static_cast<int>(given.index())));
  const TensorType& to = TypeOf(next, next.inputs(index));
  if (given.count() != 0) return CheckCut(method, given, from, to, artifact.symbols_size());
  if (SameType(from, to)) return absl::OkStatus();
  return Invalid("input ", index, " of '", next.name(), "' is ", TensorTypeText(to), ", it is given ",
                 TensorTypeText(from));
}

}  // namespace

absl::Status VerifyContinuation(const Artifact& artifact, const Method& method) {
  if (!method.has_continuation()) return absl::OkStatus();
  COTAN_RETURN_IF_ERROR(CheckParts(artifact, method));
  COTAN_ASSIGN_OR_RETURN(const Method* const next, NextOf(artifact, method));
  const serialization::Continuation& continuation = method.continuation();
  if (continuation.inputs_size() != next->inputs_size()) {
    return Invalid(continuation.inputs_size(), " inputs for '", next->name(), "', which has ", next->inputs_size());
  }
  const int num_arguments = NumArguments(artifact, method);
  if (num_arguments > next->inputs_size() || num_arguments > method.inputs_size()) {
    return Invalid("a caller gives ", num_arguments, " arguments, '", next->name(), "' has ", next->inputs_size(),
                   " inputs");
  }
  for (int i = 0; i < next->inputs_size(); ++i) {
    const serialization::ContinuedInput& given = continuation.inputs(i);
    const bool is_argument = given.from_inputs() && given.count() == 0 && given.index() == static_cast<uint32_t>(i);
    if (i < num_arguments && !is_argument) return Invalid("input ", i, " is not argument ", i);
    COTAN_RETURN_IF_ERROR(CheckInput(artifact, method, *next, i));
  }
  return absl::OkStatus();
}

}  // namespace cotan
