// SPDX-License-Identifier: Apache-2.0

#include "base/quoted_text.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace cotan {

std::string JsonQuoted(absl::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20) {
      absl::StrAppend(&quoted, "\\u00", absl::Hex(byte, absl::kZeroPad2));
      continue;
    }
    if (c == '"' || c == '\\') quoted.push_back('\\');
    quoted.push_back(c);
  }
  quoted.push_back('"');
  return quoted;
}

std::string XmlEscaped(absl::string_view text) {
  return absl::StrReplaceAll(text, {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

}  // namespace cotan
