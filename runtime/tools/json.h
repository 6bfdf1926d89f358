// SPDX-License-Identifier: Apache-2.0

// JSON text for files that other programs read.
#ifndef COTAN_RUNTIME_TOOLS_JSON_H_
#define COTAN_RUNTIME_TOOLS_JSON_H_

#include <string>

#include "absl/strings/string_view.h"

namespace cotan::tools {

// Returns `text` as a JSON string with its quotes, in ASCII without '<', '>' and '&', so that it may stand in an HTML
// script element. Bytes that are not UTF-8 become U+FFFD.
std::string JsonString(absl::string_view text);

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_JSON_H_
