// SPDX-License-Identifier: Apache-2.0

#include "serialization/schema/field.h"

#include <utility>

#include "absl/strings/str_join.h"
#include "base/status_macros.h"

namespace cotan {

absl::Status UnknownEnumerator(absl::string_view field, int number, absl::string_view thing) {
  return absl::UnimplementedError(
      absl::StrCat(field, ": ", number, " is not a known ", thing, "; a newer version may have written it"));
}

absl::StatusOr<int> ParseCount(absl::string_view field, uint64_t count) {
  if (count > kMaxCount) {
    return InvalidField(field, count, " exceeds the limit of ", kMaxCount);
  }
  return static_cast<int>(count);
}

absl::Status CheckIndex(absl::string_view field, int64_t index, int64_t limit, absl::string_view things) {
  if (index >= 0 && index < limit) return absl::OkStatus();
  return InvalidField(field, index, " is out of range: there are ", limit, " ", things);
}

absl::Status CheckAscending(absl::string_view field, absl::Span<const int> indexes, int64_t limit,
                            absl::string_view things) {
  for (size_t i = 0; i < indexes.size(); ++i) {
    COTAN_RETURN_IF_ERROR(CheckIndex(Element(field, i), indexes[i], limit, things));
    if (i > 0 && indexes[i] <= indexes[i - 1]) {
      return InvalidField(Element(field, i), indexes[i], " follows ", indexes[i - 1], ", but the indexes must ascend");
    }
  }
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int>> ParseIndexes(absl::string_view field,
                                              const google::protobuf::RepeatedField<uint32_t>& indexes) {
  std::vector<int> result;
  result.reserve(indexes.size());
  for (int i = 0; i < indexes.size(); ++i) {
    COTAN_ASSIGN_OR_RETURN(int index, ParseCount(Element(field, i), indexes.Get(i)));
    result.push_back(index);
  }
  return result;
}

void AddIndexes(absl::Span<const int> indexes, google::protobuf::RepeatedField<uint32_t>* target) {
  for (int index : indexes) target->Add(static_cast<uint32_t>(index));
}

absl::StatusOr<SymIntVector> ParseSymInts(absl::string_view field,
                                          const google::protobuf::RepeatedPtrField<std::string>& texts) {
  SymIntVector result;
  for (int i = 0; i < texts.size(); ++i) {
    absl::StatusOr<SymInt> value = SymInt::Parse(texts.Get(i));
    if (!value.ok()) return InvalidField(Element(field, i), value.status().message());
    result.push_back(*std::move(value));
  }
  return result;
}

void AddSymInts(const SymIntVector& values, google::protobuf::RepeatedPtrField<std::string>* target) {
  for (const SymInt& value : values) *target->Add() = value.ToString();
}

std::string JoinSymInts(const SymIntVector& values) {
  return absl::StrJoin(values, ", ", [](std::string* out, const SymInt& value) { out->append(value.ToString()); });
}

}  // namespace cotan
