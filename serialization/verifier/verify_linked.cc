// SPDX-License-Identifier: Apache-2.0

#include "serialization/verifier/verify_linked.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "base/sym_int.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

using serialization::LinkedBackward;
using serialization::Method;

template <typename... Parts>
absl::Status Invalid(const Parts&... parts) {
  return absl::InvalidArgumentError(absl::StrCat("linked: ", parts...));
}

absl::Status CheckSizes(const LinkedBackward& linked, int num_symbols) {
  std::vector<bool> occurs(static_cast<size_t>(num_symbols));
  for (const std::string& text : linked.sizes()) {
    COTAN_ASSIGN_OR_RETURN(const SymInt size, ParseSize(text, num_symbols));
    if (size.is_constant()) continue;
    if (size.kind() != SymInt::Kind::kSymbol) return Invalid("size '", text, "' is neither a constant nor a symbol");
    occurs[static_cast<size_t>(size.symbol())] = true;
  }
  if (std::find(occurs.begin(), occurs.end(), false) == occurs.end()) return absl::OkStatus();
  return Invalid("a symbol does not occur in the sizes");
}

// Marks an input of the method as used.
absl::Status Take(uint32_t input, std::vector<bool>& is_taken) {
  if (input >= is_taken.size()) return Invalid("input ", input, " of ", is_taken.size());
  if (is_taken[input]) return Invalid("input ", input, " occurs twice");
  is_taken[input] = true;
  return absl::OkStatus();
}

absl::Status CheckIndexInput(const serialization::IndexInput& index, const Method& method, int num_symbols) {
  const serialization::TensorType& type =
      method.values(static_cast<int>(method.inputs(static_cast<int>(index.input())))).type();
  if (type.dtype() != serialization::DTYPE_I64 || type.sizes_size() != 1) {
    return Invalid("index input ", index.input(), " is ", TensorTypeText(type), ", expected i64[n]");
  }
  const serialization::ViewStep::AsStrided& place = index.place();
  if (place.sizes_size() != place.strides_size()) {
    return Invalid(place.sizes_size(), " sizes and ", place.strides_size(), " strides");
  }
  for (const auto* texts : {&place.sizes(), &place.strides()}) {
    for (const std::string& text : *texts) COTAN_RETURN_IF_ERROR(ParseSize(text, num_symbols).status());
  }
  COTAN_RETURN_IF_ERROR(ParseSize(place.offset(), num_symbols).status());
  return index.extent().empty() ? absl::OkStatus() : ParseSize(index.extent(), num_symbols).status();
}

}  // namespace

absl::Status VerifyLinked(const serialization::Artifact& artifact, const Method& method) {
  if (!method.has_linked()) return absl::OkStatus();
  const LinkedBackward& linked = method.linked();
  if (linked.key().empty()) return Invalid("it has no key");
  if (method.state_reads_size() != 0 || method.state_updates_size() != 0) return Invalid("the method has states");
  if (linked.num_symbols() > static_cast<uint32_t>(artifact.symbols_size())) {
    return Invalid(linked.num_symbols(), " symbols, the artifact has ", artifact.symbols_size());
  }
  const int num_symbols = static_cast<int>(linked.num_symbols());
  COTAN_RETURN_IF_ERROR(CheckSizes(linked, num_symbols));
  for (const serialization::SizeGuard& guard : linked.guards()) {
    COTAN_RETURN_IF_ERROR(ParseSize(guard.a(), num_symbols).status());
    COTAN_RETURN_IF_ERROR(ParseSize(guard.b(), num_symbols).status());
  }
  std::vector<bool> is_taken(static_cast<size_t>(method.inputs_size()));
  for (const uint32_t input : linked.inputs()) {
    if (input != 0) COTAN_RETURN_IF_ERROR(Take(input - 1, is_taken));
  }
  for (const serialization::IndexInput& index : linked.index_inputs()) {
    COTAN_RETURN_IF_ERROR(Take(index.input(), is_taken));
    COTAN_RETURN_IF_ERROR(CheckIndexInput(index, method, num_symbols));
  }
  if (std::find(is_taken.begin(), is_taken.end(), false) == is_taken.end()) return absl::OkStatus();
  return Invalid("an input of the method has no content");
}

}  // namespace cotan
