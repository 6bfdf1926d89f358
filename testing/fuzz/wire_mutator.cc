// SPDX-License-Identifier: Apache-2.0

#include "testing/fuzz/wire_mutator.h"

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <limits>
#include <utility>

namespace cotan::testing {
namespace {

using Fields = std::vector<WireField>;
using Type = WireField::Type;

// Reads from a view of bytes; a read beyond the end returns false.
class Reader {
 public:
  explicit Reader(absl::string_view bytes) : bytes_(bytes) {}

  bool done() const { return bytes_.empty(); }

  bool Varint(uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !bytes_.empty(); shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes_[0]);
      bytes_.remove_prefix(1);
      value |= static_cast<uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }

  bool Fixed(size_t size, uint64_t& value) {
    if (bytes_.size() < size) return false;
    value = 0;
    for (size_t i = 0; i < size; ++i) value |= static_cast<uint64_t>(static_cast<uint8_t>(bytes_[i])) << (8 * i);
    bytes_.remove_prefix(size);
    return true;
  }

  bool Bytes(std::string& value) {
    uint64_t size = 0;
    if (!Varint(size) || size > bytes_.size()) return false;
    value.assign(bytes_.data(), size);
    bytes_.remove_prefix(size);
    return true;
  }

 private:
  absl::string_view bytes_;
};

bool Read(Reader& reader, WireField& field) {
  uint64_t tag = 0;
  if (!reader.Varint(tag) || tag >> 3 == 0 || tag >> 32 != 0) return false;
  field.number = static_cast<uint32_t>(tag >> 3);
  field.type = static_cast<Type>(tag & 7);
  switch (field.type) {
    case Type::kVarint:
      return reader.Varint(field.integer);
    case Type::kFixed64:
      return reader.Fixed(8, field.integer);
    case Type::kFixed32:
      return reader.Fixed(4, field.integer);
    case Type::kBytes:
      return reader.Bytes(field.bytes);
  }
  return false;
}

void AppendVarint(uint64_t value, std::string& to) {
  for (; value >= 0x80; value >>= 7) to += static_cast<char>(value | 0x80);
  to += static_cast<char>(value);
}

void AppendFixed(uint64_t value, size_t size, std::string& to) {
  for (size_t i = 0; i < size; ++i) to += static_cast<char>(value >> (8 * i));
}

// Returns a number in [0, size).
size_t Below(size_t size, std::mt19937_64& random) { return random() % size; }

// Returns a number that a hostile file might have: a neighbour, a limit, a small or any number.
uint64_t MutateInteger(uint64_t value, std::mt19937_64& random) {
  constexpr uint64_t kLimits[] = {0,
                                  1,
                                  0x7f,
                                  0xffff,
                                  0x7fffffff,
                                  0xffffffff,
                                  uint64_t{1} << 62,
                                  std::numeric_limits<int64_t>::max(),
                                  uint64_t{1} << 63,
                                  std::numeric_limits<uint64_t>::max()};
  switch (Below(6, random)) {
    case 0:
      return value + 1;
    case 1:
      return value - 1;
    case 2:
      return value ^ (uint64_t{1} << Below(64, random));
    case 3:
      return kLimits[Below(std::size(kLimits), random)];
    case 4:
      return Below(32, random);
    default:
      return random() >> Below(64, random);
  }
}

// Adds the payloads of all fields with this number at any depth.
void FindPayloads(const Fields& fields, uint32_t number, int depth, std::vector<std::string>& found) {
  for (const WireField& field : fields) {
    if (field.type != Type::kBytes) continue;
    if (field.number == number) found.push_back(field.bytes);
    if (depth == 0) continue;
    if (const auto inner = ParseFields(field.bytes); inner.has_value()) FindPayloads(*inner, number, depth - 1, found);
  }
}

void MutateValue(WireField& field, const Fields& whole, std::mt19937_64& random) {
  if (field.type != Type::kBytes) {
    field.integer = MutateInteger(field.integer, random);
    return;
  }
  if (Below(2, random) == 0) {
    field.bytes = MutateBytes(field.bytes, random);
    return;
  }
  std::vector<std::string> others;
  FindPayloads(whole, field.number, /*depth=*/6, others);
  if (!others.empty()) field.bytes = others[Below(others.size(), random)];
}

// Applies one mutation to these fields or inside of one. `whole`: the fields of the outermost message.
void MutateFields(Fields& fields, const Fields& whole, std::mt19937_64& random) {
  if (fields.empty()) return;
  const size_t i = Below(fields.size(), random);
  WireField& field = fields[i];
  if (field.type == Type::kBytes && Below(8, random) != 0) {
    if (auto inner = ParseFields(field.bytes); inner.has_value() && !inner->empty()) {
      MutateFields(*inner, whole, random);
      field.bytes = SerializeFields(*inner);
      return;
    }
  }
  switch (Below(6, random)) {
    case 0:
      fields.erase(fields.begin() + static_cast<std::ptrdiff_t>(i));
      break;
    case 1:
      fields.insert(fields.begin() + static_cast<std::ptrdiff_t>(i), WireField(field));
      break;
    case 2:
      std::swap(field, fields[Below(fields.size(), random)]);
      break;
    default:
      MutateValue(field, whole, random);
  }
}

}  // namespace

std::optional<Fields> ParseFields(absl::string_view message) {
  Reader reader(message);
  Fields fields;
  while (!reader.done()) {
    fields.emplace_back();
    if (!Read(reader, fields.back())) return std::nullopt;
  }
  return fields;
}

std::string SerializeFields(const Fields& fields) {
  std::string message;
  for (const WireField& field : fields) {
    AppendVarint(uint64_t{field.number} << 3 | static_cast<uint64_t>(field.type), message);
    switch (field.type) {
      case Type::kVarint:
        AppendVarint(field.integer, message);
        break;
      case Type::kFixed64:
        AppendFixed(field.integer, 8, message);
        break;
      case Type::kFixed32:
        AppendFixed(field.integer, 4, message);
        break;
      case Type::kBytes:
        AppendVarint(field.bytes.size(), message);
        message += field.bytes;
        break;
    }
  }
  return message;
}

std::string MutateMessage(absl::string_view message, std::mt19937_64& random) {
  std::optional<Fields> fields = ParseFields(message);
  if (!fields.has_value()) return MutateBytes(message, random);
  for (size_t mutations = 1 + Below(4, random); mutations > 0; --mutations) {
    const Fields whole = *fields;
    MutateFields(*fields, whole, random);
  }
  return SerializeFields(*fields);
}

std::string MutateBytes(absl::string_view bytes, std::mt19937_64& random) {
  std::string mutated(bytes);
  for (size_t mutations = 1 + Below(4, random); mutations > 0; --mutations) {
    const size_t place = Below(mutated.size() + 1, random);
    const char byte = static_cast<char>(MutateInteger(Below(256, random), random));
    const size_t kind = Below(8, random);
    if (kind == 0 || mutated.empty()) {
      mutated.insert(mutated.begin() + static_cast<std::ptrdiff_t>(place), byte);
    } else if (kind == 1) {
      mutated.erase(place, 1 + Below(8, random));
    } else {
      mutated[place % mutated.size()] = byte;
    }
  }
  return mutated;
}

}  // namespace cotan::testing
