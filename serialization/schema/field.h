// SPDX-License-Identifier: Apache-2.0

// Parses and checks fields of messages that come from a file, for the typed forms of metadata.proto. Each
// error names the field.
#ifndef COTAN_SERIALIZATION_SCHEMA_FIELD_H_
#define COTAN_SERIALIZATION_SCHEMA_FIELD_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/sym_int.h"
#include "google/protobuf/repeated_field.h"

namespace cotan {

// Largest count that a field may have: no real program has more, and sums of a few counts still fit int.
inline constexpr int kMaxCount = 1 << 24;

// Returns InvalidArgument "<field>: <message>".
template <typename... Parts>
absl::Status InvalidField(absl::string_view field, const Parts&... message) {
  return absl::InvalidArgumentError(absl::StrCat(field, ": ", message...));
}

// Returns Unimplemented "<field>: <number> is not a known <thing>; a newer version may have written it".
absl::Status UnknownEnumerator(absl::string_view field, int number, absl::string_view thing);

// Returns "<field>[<index>]": "input_info[3]".
inline std::string Element(absl::string_view field, size_t index) { return absl::StrCat(field, "[", index, "]"); }

// Returns `count`. InvalidArgument if it exceeds kMaxCount.
absl::StatusOr<int> ParseCount(absl::string_view field, uint64_t count);

// Returns InvalidArgument if `index` is not in [0, limit); `limit` is the number of `things` ("inputs").
absl::Status CheckIndex(absl::string_view field, int64_t index, int64_t limit, absl::string_view things);

// Returns InvalidArgument unless `indexes` ascend strictly within [0, limit).
absl::Status CheckAscending(absl::string_view field, absl::Span<const int> indexes, int64_t limit,
                            absl::string_view things);

// Converts indexes. InvalidArgument if one exceeds kMaxCount.
absl::StatusOr<std::vector<int>> ParseIndexes(absl::string_view field,
                                              const google::protobuf::RepeatedField<uint32_t>& indexes);

void AddIndexes(absl::Span<const int> indexes, google::protobuf::RepeatedField<uint32_t>* target);

// Parses size expressions. InvalidArgument if a text is not a size expression.
absl::StatusOr<SymIntVector> ParseSymInts(absl::string_view field,
                                          const google::protobuf::RepeatedPtrField<std::string>& texts);

void AddSymInts(const SymIntVector& values, google::protobuf::RepeatedPtrField<std::string>* target);

// Returns the expressions' text forms, separated by commas: "2, s0".
std::string JoinSymInts(const SymIntVector& values);

}  // namespace cotan

#endif  // COTAN_SERIALIZATION_SCHEMA_FIELD_H_
