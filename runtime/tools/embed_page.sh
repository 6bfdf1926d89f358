#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints a C++ source file that defines cotan::tools::PageTemplate() as the text of the given file. Its lines become
# string literals of their own, because compilers limit the length of one.
set -eu
echo '#include "runtime/tools/page_template.h"'
echo 'absl::string_view cotan::tools::PageTemplate() {'
echo '  return'
sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/      "/' -e 's/$/\\n"/' "$1"
echo '      ;'
echo '}'
