// SPDX-License-Identifier: Apache-2.0

// The page of `cotan inspect --html`, page.html.
#ifndef COTAN_RUNTIME_TOOLS_PAGE_TEMPLATE_H_
#define COTAN_RUNTIME_TOOLS_PAGE_TEMPLATE_H_

#include "absl/strings/string_view.h"

namespace cotan::tools {

// Returns the page with "@DATA@" in place of the data of an artifact, which it draws.
absl::string_view PageTemplate();

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_PAGE_TEMPLATE_H_
