#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# Prints a C++ source file that defines cotan::cuda::DeviceHeader() and DeviceLibraryDigest() for the given files. Their
# lines become string literals of their own, because compilers limit the length of one.
set -eu
cat <<'END'
#include "kernels/cuda/source/device_library.h"

namespace cotan::cuda {

absl::string_view DeviceHeader(absl::string_view name) {
END
for file in "$@"; do
  echo "  if (name == \"$(basename "$file")\") {"
  echo "    return"
  sed -e 's/\\/\\\\/g' -e 's/"/\\"/g' -e 's/^/        "/' -e 's/$/\\n"/' "$file"
  echo "        ;"
  echo "  }"
done
cat <<END
  return "";
}

absl::string_view DeviceLibraryDigest() { return "$(cat "$@" | sha256sum | cut -d' ' -f1)"; }

}  // namespace cotan::cuda
END
