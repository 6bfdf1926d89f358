// SPDX-License-Identifier: Apache-2.0

#include "runtime/tools/json.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_format.h"

namespace cotan::tools {
namespace {

constexpr uint32_t kReplacement = 0xFFFD;

// Removes the first character of the non-empty `text` and returns its code point.
uint32_t NextCodePoint(absl::string_view& text) {
  const auto lead = static_cast<uint8_t>(text[0]);
  const size_t length = lead < 0x80 ? 1 : lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
  uint32_t code = length == 1 ? lead : lead & (0x7Fu >> length);
  bool valid = lead < 0x80 || (lead >= 0xC2 && lead < 0xF5 && text.size() >= length);
  for (size_t i = 1; valid && i < length; ++i) {
    const auto next = static_cast<uint8_t>(text[i]);
    valid = (next & 0xC0) == 0x80;
    code = code << 6 | (next & 0x3Fu);
  }
  valid = valid && code >= kLeast[length] && code <= 0x10FFFF && (code < 0xD800 || code > 0xDFFF);
  text.remove_prefix(valid ? length : 1);
  return valid ? code : kReplacement;
}

}  // namespace

std::string JsonString(absl::string_view text) {
  std::string json = "\"";
  while (!text.empty()) {
    const uint32_t code = NextCodePoint(text);
    const bool plain = code >= 0x20 && code < 0x7F &&
                       absl::string_view("\"\\<>&").find(static_cast<char>(code)) == absl::string_view::npos;
    if (plain) {
      json += static_cast<char>(code);
    } else if (code < 0x10000) {
      absl::StrAppendFormat(&json, "\\u%04x", code);
    } else {
      absl::StrAppendFormat(&json, "\\u%04x\\u%04x", 0xD800 + ((code - 0x10000) >> 10),
                            0xDC00 + ((code - 0x10000) & 0x3FF));
    }
  }
  return json + "\"";
}

}  // namespace cotan::tools
