// SPDX-License-Identifier: Apache-2.0

#include "runtime/session/safetensors.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/quoted_text.h"
#include "base/status_macros.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

constexpr uint64_t kMaxHeader = 100'000'000;  // the format's own limit
constexpr uint64_t kPrefix = 8;
constexpr absl::string_view kMetadataKey = "__metadata__";

struct DTypeCode {
  DType dtype;
  absl::string_view code;
};

constexpr std::array kCodes = {
    DTypeCode{DType::kBool, "BOOL"},
    DTypeCode{DType::kUInt8, "U8"},
    DTypeCode{DType::kInt8, "I8"},
    DTypeCode{DType::kInt16, "I16"},
    DTypeCode{DType::kInt32, "I32"},
    DTypeCode{DType::kInt64, "I64"},
    DTypeCode{DType::kFloat16, "F16"},
    DTypeCode{DType::kBFloat16, "BF16"},
    DTypeCode{DType::kFloat32, "F32"},
    DTypeCode{DType::kFloat64, "F64"},
    DTypeCode{DType::kComplex64, "C64"},
    DTypeCode{DType::kFloat8E4m3fn, "F8_E4M3"},
    DTypeCode{DType::kFloat8E5m2, "F8_E5M2"},
};

// Returns true if `text` is UTF-8 without overlong forms or surrogates.
bool IsUtf8(absl::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i++]);
    if (lead < 0x80) continue;
    const int extra = lead >= 0xF0 ? 3 : lead >= 0xE0 ? 2 : 1;
    if (lead < 0xC2 || lead > 0xF4 || text.size() - i < static_cast<size_t>(extra)) return false;
    uint32_t code = lead & (0x3Fu >> extra);
    for (int k = 0; k < extra; ++k) {
      const auto next = static_cast<unsigned char>(text[i++]);
      if ((next & 0xC0) != 0x80) return false;
      code = (code << 6) | (next & 0x3Fu);
    }
    const uint32_t least = extra == 1 ? 0x80 : extra == 2 ? 0x800 : 0x10000;
    if (code < least || code > 0x10FFFF || (code >= 0xD800 && code < 0xE000)) return false;
  }
  return true;
}

void AppendUtf8(uint32_t code, std::string& text) {
  if (code < 0x80) {
    text.push_back(static_cast<char>(code));
    return;
  }
  const int extra = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  const uint32_t lead = extra == 1 ? 0xC0 : extra == 2 ? 0xE0 : 0xF0;
  text.push_back(static_cast<char>(lead | (code >> (6 * extra))));
  for (int k = extra - 1; k >= 0; --k) text.push_back(static_cast<char>(0x80 | ((code >> (6 * k)) & 0x3F)));
}

// Parses the JSON of a header. Supports only what the format uses: objects, strings and lists of integers.
class HeaderParser {
 public:
  HeaderParser(absl::string_view header, absl::string_view data) : text_(header), data_(data) {}

  absl::StatusOr<SafetensorsFile> Parse() {
    COTAN_RETURN_IF_ERROR(ParseObject(
        [this](std::string key) { return key == kMetadataKey ? ParseMetadata() : ParseTensor(std::move(key)); }));
    SkipSpace();
    if (position_ != text_.size()) return Error("the end");
    COTAN_RETURN_IF_ERROR(CheckCoverage());
    return std::move(file_);
  }

 private:
  absl::Status Error(absl::string_view expected) const {
    return absl::InvalidArgumentError(absl::StrCat("header, byte ", position_, ": expected ", expected));
  }

  void SkipSpace() {
    while (position_ < text_.size() && absl::StrContains(" \t\r\n", text_.substr(position_, 1))) ++position_;
  }

  // Consumes the next token if it is `token`; returns true if it did.
  bool Take(char token) {
    SkipSpace();
    if (position_ >= text_.size() || text_[position_] != token) return false;
    ++position_;
    return true;
  }

  absl::Status Expect(char token) {
    return Take(token) ? absl::OkStatus() : Error(absl::StrCat("'", std::string(1, token), "'"));
  }

  // Parses an object. Calls `member` with each key; it parses the value.
  template <typename Member>
  absl::Status ParseObject(Member member) {
    absl::flat_hash_set<std::string> keys;
    COTAN_RETURN_IF_ERROR(Expect('{'));
    if (Take('}')) return absl::OkStatus();
    do {
      COTAN_ASSIGN_OR_RETURN(std::string key, ParseString());
      if (!keys.insert(key).second) return Error(absl::StrCat("no second '", absl::CEscape(key), "'"));
      COTAN_RETURN_IF_ERROR(Expect(':'));
      COTAN_RETURN_IF_ERROR(member(std::move(key)));
    } while (Take(','));
    return Expect('}');
  }

  absl::StatusOr<std::string> ParseString() {
    COTAN_RETURN_IF_ERROR(Expect('"'));
    std::string text;
    while (position_ < text_.size() && text_[position_] != '"') {
      const char c = text_[position_++];
      if (static_cast<unsigned char>(c) < 0x20) return Error("no control character in a string");
      if (c != '\\') {
        text.push_back(c);
        continue;
      }
      COTAN_RETURN_IF_ERROR(ParseEscape(text));
    }
    COTAN_RETURN_IF_ERROR(position_ < text_.size() ? absl::OkStatus() : Error("'\"'"));
    ++position_;
    if (!IsUtf8(text)) return Error("a string in UTF-8");
    return text;
  }

  absl::Status ParseEscape(std::string& text) {
    constexpr absl::string_view kLetters = "\"\\/bfnrt";
    constexpr absl::string_view kMeanings = "\"\\/\b\f\n\r\t";
    if (position_ >= text_.size()) return Error("an escape");
    const char letter = text_[position_++];
    const size_t index = kLetters.find(letter);
    if (index != absl::string_view::npos) {
      text.push_back(kMeanings[index]);
      return absl::OkStatus();
    }
    if (letter != 'u') return Error("an escape that JSON has");
    COTAN_ASSIGN_OR_RETURN(uint32_t code, ParseHex4());
    if (code >= 0xD800 && code < 0xDC00) {
      if (text_.substr(position_, 2) != "\\u") return Error("the second half of a surrogate pair");
      position_ += 2;
      COTAN_ASSIGN_OR_RETURN(const uint32_t low, ParseHex4());
      if (low < 0xDC00 || low >= 0xE000) return Error("the second half of a surrogate pair");
      code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
    } else if (code >= 0xDC00 && code < 0xE000) {
      return Error("the first half of a surrogate pair");
    }
    AppendUtf8(code, text);
    return absl::OkStatus();
  }

  absl::StatusOr<uint32_t> ParseHex4() {
    const absl::string_view digits = text_.substr(position_, 4);
    if (digits.size() != 4) return Error("four hexadecimal digits");
    uint32_t code = 0;
    for (char digit : digits) {
      const bool is_letter = (digit >= 'a' && digit <= 'f') || (digit >= 'A' && digit <= 'F');
      if (!is_letter && (digit < '0' || digit > '9')) return Error("four hexadecimal digits");
      code = code * 16 + static_cast<uint32_t>(is_letter ? (digit | 0x20) - 'a' + 10 : digit - '0');
    }
    position_ += 4;
    return code;
  }

  absl::StatusOr<int64_t> ParseNumber() {
    SkipSpace();
    const size_t start = position_;
    while (position_ < text_.size() && text_[position_] >= '0' && text_[position_] <= '9') ++position_;
    const absl::string_view digits = text_.substr(start, position_ - start);
    int64_t number = 0;
    const bool plain = digits.size() == 1 || (!digits.empty() && digits[0] != '0');
    if (plain && absl::SimpleAtoi(digits, &number)) return number;
    position_ = start;
    return Error("a whole number");
  }

  absl::StatusOr<std::vector<int64_t>> ParseNumbers() {
    std::vector<int64_t> numbers;
    COTAN_RETURN_IF_ERROR(Expect('['));
    if (Take(']')) return numbers;
    do {
      COTAN_ASSIGN_OR_RETURN(const int64_t number, ParseNumber());
      numbers.push_back(number);
      if (numbers.size() > kMaxRank) return Error("fewer numbers");
    } while (Take(','));
    COTAN_RETURN_IF_ERROR(Expect(']'));
    return numbers;
  }

  absl::Status ParseMetadata() {
    return ParseObject([this](std::string key) -> absl::Status {
      COTAN_ASSIGN_OR_RETURN(std::string value, ParseString());
      file_.metadata.emplace_back(std::move(key), std::move(value));
      return absl::OkStatus();
    });
  }

  absl::Status ParseTensor(std::string name) {
    std::string code;
    std::vector<int64_t> shape;
    std::vector<int64_t> offsets;
    SafetensorsEntry entry;
    bool has_shape = false;
    COTAN_RETURN_IF_ERROR(ParseObject([&](const std::string& key) -> absl::Status {
      if (key == "dtype") {
        COTAN_ASSIGN_OR_RETURN(code, ParseString());
      } else if (key == "shape") {
        has_shape = true;
        COTAN_ASSIGN_OR_RETURN(shape, ParseNumbers());
      } else if (key == "data_offsets") {
        COTAN_ASSIGN_OR_RETURN(offsets, ParseNumbers());
      } else {
        return Error("'dtype', 'shape' or 'data_offsets'");
      }
      return absl::OkStatus();
    }));
    const std::string where = absl::StrCat("tensor '", absl::CEscape(name), "'");
    const auto known = std::find_if(kCodes.begin(), kCodes.end(), [&](const DTypeCode& c) { return c.code == code; });
    if (known == kCodes.end())
      return absl::UnimplementedError(absl::StrCat(where, ": dtype '", absl::CEscape(code), "'"));
    const int64_t count = BoundedElements(shape);
    const bool in_range = has_shape && offsets.size() == 2 && offsets[0] <= offsets[1] &&
                          offsets[1] <= static_cast<int64_t>(data_.size()) && count >= 0 &&
                          offsets[1] - offsets[0] == count * static_cast<int64_t>(ByteSize(known->dtype));
    if (!in_range) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": ", code, " [", absl::StrJoin(shape, ","), "] at bytes [",
                                                     absl::StrJoin(offsets, ", "), ") of ", data_.size()));
    }
    entry.name = std::move(name);
    entry.dtype = known->dtype;
    entry.sizes.assign(shape.begin(), shape.end());
    entry.bytes = data_.substr(static_cast<size_t>(offsets[0]), static_cast<size_t>(offsets[1] - offsets[0]));
    file_.tensors.push_back(std::move(entry));
    return absl::OkStatus();
  }

  // Sorts the tensors by offset and checks that they fill the data without gap or overlap.
  absl::Status CheckCoverage() {
    std::stable_sort(file_.tensors.begin(), file_.tensors.end(), [](const auto& a, const auto& b) {
      return a.bytes.data() != b.bytes.data() ? a.bytes.data() < b.bytes.data() : a.bytes.size() < b.bytes.size();
    });
    size_t end = 0;
    for (const SafetensorsEntry& entry : file_.tensors) {
      if (static_cast<size_t>(entry.bytes.data() - data_.data()) != end) {
        return absl::InvalidArgumentError(
            absl::StrCat("tensor '", absl::CEscape(entry.name), "' does not begin at byte ", end, " of the data"));
      }
      end += entry.bytes.size();
    }
    if (end == data_.size()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat("the tensors end at byte ", end, " of ", data_.size()));
  }

  const absl::string_view text_;
  const absl::string_view data_;
  size_t position_ = 0;
  SafetensorsFile file_;
};

}  // namespace

absl::StatusOr<SafetensorsFile> ParseSafetensors(absl::string_view bytes) {
  if (bytes.size() < kPrefix) return absl::DataLossError(absl::StrCat("truncated: it has ", bytes.size(), " bytes"));
  uint64_t header_size;
  std::memcpy(&header_size, bytes.data(), sizeof(header_size));
  if (header_size > kMaxHeader) {
    return absl::InvalidArgumentError(absl::StrCat("not a safetensors file: a header of ", header_size,
                                                   " bytes, at most ", kMaxHeader, " are possible"));
  }
  if (header_size > bytes.size() - kPrefix) {
    return absl::DataLossError(
        absl::StrCat("truncated: a header of ", header_size, " bytes in a file of ", bytes.size(), " bytes"));
  }
  return HeaderParser(bytes.substr(kPrefix, header_size), bytes.substr(kPrefix + header_size)).Parse();
}

absl::StatusOr<std::string> SafetensorsHeader(const SafetensorsFile& file) {
  std::vector<std::string> members;
  if (!file.metadata.empty()) {
    const auto append_pair = [](std::string* out, const std::pair<std::string, std::string>& pair) {
      absl::StrAppend(out, JsonQuoted(pair.first), ":", JsonQuoted(pair.second));
    };
    members.push_back(
        absl::StrCat(JsonQuoted(kMetadataKey), ":{", absl::StrJoin(file.metadata, ",", append_pair), "}"));
  }
  size_t end = 0;
  for (const SafetensorsEntry& entry : file.tensors) {
    const auto known =
        std::find_if(kCodes.begin(), kCodes.end(), [&](const DTypeCode& c) { return c.dtype == entry.dtype; });
    if (known == kCodes.end()) {
      return absl::UnimplementedError(
          absl::StrCat("tensor '", entry.name, "': safetensors files have no ", DTypeName(entry.dtype)));
    }
    const int64_t count = BoundedElements(entry.sizes);
    if (count < 0 || static_cast<size_t>(count) * ByteSize(entry.dtype) != entry.bytes.size() || !IsUtf8(entry.name)) {
      return absl::InvalidArgumentError(absl::StrCat("tensor '", absl::CEscape(entry.name), "' of ", entry.bytes.size(),
                                                     " bytes is not ", known->code, " [",
                                                     absl::StrJoin(entry.sizes, ","), "], or its name is not UTF-8"));
    }
    members.push_back(absl::StrCat(JsonQuoted(entry.name), ":{\"dtype\":\"", known->code, "\",\"shape\":[",
                                   absl::StrJoin(entry.sizes, ","), "],\"data_offsets\":[", end, ",",
                                   end + entry.bytes.size(), "]}"));
    end += entry.bytes.size();
  }
  std::string header = absl::StrCat("{", absl::StrJoin(members, ","), "}");
  header.resize((header.size() + kPrefix - 1) / kPrefix * kPrefix, ' ');
  const uint64_t size = header.size();
  std::string bytes(kPrefix, '\0');
  std::memcpy(bytes.data(), &size, sizeof(size));
  return bytes + header;
}

}  // namespace cotan
