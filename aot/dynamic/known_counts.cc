// SPDX-License-Identifier: Apache-2.0

#include "aot/dynamic/known_counts.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "aot/dynamic/size_fields.h"
#include "base/status_macros.h"
#include "base/sym_int.h"
#include "serialization/schema/continuation.h"

namespace cotan::aot {
namespace {

using serialization::Artifact;
using serialization::Method;

// Returns a symbol of `size` that is in `symbols`; -1: there is none.
int SymbolIn(const SymInt& size, const absl::flat_hash_set<int>& symbols) {
  if (size.is_constant()) return -1;
  if (size.kind() == SymInt::Kind::kSymbol) return symbols.contains(size.symbol()) ? size.symbol() : -1;
  return std::max(SymbolIn(size.lhs(), symbols), SymbolIn(size.rhs(), symbols));
}

// Removes the symbols that a sizing method counts for the method that goes on.
absl::Status RemoveCounted(const Method& sizing, const Method& next, absl::flat_hash_set<int>& symbols) {
  for (int i = 0; i < sizing.continuation().inputs_size(); ++i) {
    if (sizing.continuation().inputs(i).count() == 0) continue;
    const auto& sizes = next.values(static_cast<int>(next.inputs(i))).type().sizes();
    COTAN_ASSIGN_OR_RETURN(const SymInt size, SymInt::Parse(sizes.Get(0)));
    if (size.kind() == SymInt::Kind::kSymbol) symbols.erase(size.symbol());
  }
  return absl::OkStatus();
}

absl::Status CheckFields(const DynamicShapes& shapes, Method& method, const absl::flat_hash_set<int>& unknown) {
  for (const SizeField& field : SizeFieldsOf(method)) {
    if (field.text->empty()) continue;
    COTAN_ASSIGN_OR_RETURN(const SymInt size, SymInt::Parse(*field.text));
    const int symbol = SymbolIn(size, unknown);
    if (symbol < 0) continue;
    return absl::UnimplementedError(absl::StrCat(
        "method '", method.name(), "', ", field.where, ": it needs the number of elements '",
        shapes.symbols[static_cast<size_t>(symbol)].name,
        "', which is not counted before: compute with mask.sum() in place of that number, and draw random numbers "
        "that a mask needs before those for counted rows"));
  }
  return absl::OkStatus();
}

// Returns the method whose backward `method` is, or itself.
const Method& ForwardOf(const Artifact& artifact, const Method& method) {
  for (const Method& other : artifact.methods()) {
    if (other.backward_method() == method.name()) return other;
  }
  return method;
}

}  // namespace

absl::Status CheckCountsAreKnown(const DynamicShapes& shapes, Artifact& artifact) {
  absl::flat_hash_set<int> counted;
  for (size_t i = 0; i < shapes.symbols.size(); ++i) {
    if (shapes.symbols[i].from_data) counted.insert(static_cast<int>(i));
  }
  for (int called = 0; called < artifact.methods_size(); ++called) {
    if (!IsCallable(artifact.methods(called))) continue;
    const Method& forward = ForwardOf(artifact, artifact.methods(called));
    absl::flat_hash_set<int> unknown = counted;
    std::vector<int> chain = SizingMethodsOf(artifact, forward);
    for (size_t part = 0; part < chain.size(); ++part) {
      Method& sizing = *artifact.mutable_methods(chain[part]);
      COTAN_RETURN_IF_ERROR(CheckFields(shapes, sizing, unknown));
      const Method& next = part + 1 < chain.size() ? artifact.methods(chain[part + 1]) : forward;
      COTAN_RETURN_IF_ERROR(RemoveCounted(sizing, next, unknown));
    }
    COTAN_RETURN_IF_ERROR(CheckFields(shapes, *artifact.mutable_methods(called), unknown));
  }
  return absl::OkStatus();
}

}  // namespace cotan::aot
