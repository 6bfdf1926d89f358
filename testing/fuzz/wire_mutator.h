// SPDX-License-Identifier: Apache-2.0

// Mutates serialized protobuf messages with regard to their structure: the result is a serialized message again, with
// fields changed, removed, repeated, exchanged or copied from another place. As libprotobuf-mutator does for messages
// with reflection, which messages of protobuf-lite do not have.
#ifndef COTAN_TESTING_FUZZ_WIRE_MUTATOR_H_
#define COTAN_TESTING_FUZZ_WIRE_MUTATOR_H_

#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace cotan::testing {

// A field of the wire format (protobuf.dev, "Encoding").
struct WireField {
  enum class Type : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };
  uint32_t number = 0;
  Type type = Type::kVarint;
  uint64_t integer = 0;  // kVarint, kFixed64, kFixed32
  std::string bytes;     // kBytes: text, packed numbers or a message
};

// Returns the fields of a serialized message; none if these bytes are not one.
std::optional<std::vector<WireField>> ParseFields(absl::string_view message);

// Returns the serialized message of these fields.
std::string SerializeFields(const std::vector<WireField>& fields);

// Applies one to four mutations, chosen by `random`, to a serialized message, at any depth. Returns other bytes if
// these are not a message, too. The same state of `random` gives the same result.
std::string MutateMessage(absl::string_view message, std::mt19937_64& random);

// Changes, inserts or removes up to four bytes.
std::string MutateBytes(absl::string_view bytes, std::mt19937_64& random);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_FUZZ_WIRE_MUTATOR_H_
