// SPDX-License-Identifier: Apache-2.0

// Replaces the symbols of size expressions.
#ifndef COTAN_LINKING_SUBSTITUTE_H_
#define COTAN_LINKING_SUBSTITUTE_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/sym_int.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Returns `value` with symbol i replaced by symbols[i]; constants are folded. InvalidArgument: a symbol has no
// replacement.
absl::StatusOr<SymInt> Substitute(const SymInt& value, absl::Span<const SymInt> symbols);

// Replaces the symbols in the size expressions of a text, of a list of texts, of a type and of an op's attributes. An
// empty text stays empty. InvalidArgument: as above, or malformed text.
absl::Status SubstituteText(absl::Span<const SymInt> symbols, std::string& text);
absl::Status SubstituteTexts(absl::Span<const SymInt> symbols, google::protobuf::RepeatedPtrField<std::string>& texts);
absl::Status SubstituteType(absl::Span<const SymInt> symbols, serialization::TensorType& type);
absl::Status SubstituteOp(absl::Span<const SymInt> symbols, serialization::Op& op);

}  // namespace cotan

#endif  // COTAN_LINKING_SUBSTITUTE_H_
