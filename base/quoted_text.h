// SPDX-License-Identifier: Apache-2.0

// Text quoted for the files that Cotan writes for other programs. The functions escape only what the format demands.
#ifndef COTAN_BASE_QUOTED_TEXT_H_
#define COTAN_BASE_QUOTED_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace cotan {

// Returns `text`, which is UTF-8, as a JSON string with its quotes.
std::string JsonQuoted(absl::string_view text);

// Returns `text`, which is UTF-8, for the content or an attribute of an XML element (such as those of SVG).
std::string XmlEscaped(absl::string_view text);

}  // namespace cotan

#endif  // COTAN_BASE_QUOTED_TEXT_H_
