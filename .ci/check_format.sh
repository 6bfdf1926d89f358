#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Prints the C++ files that clang-format would change and the sources without an SPDX line, and exits with 1
# if there is one.
# `.ci/check_format.sh --fix` changes them.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mapfile -t files < <(git ls-files '*.h' '*.cc' '*.cu' '*.cuh' ':!third_party' ':!kernels/cuda/expr/testdata')
if [[ ${1:-} == --fix ]]; then
  exec clang-format -i "${files[@]}"
fi
status=0
while read -r file; do
  echo "$file: the line SPDX-License-Identifier: Apache-2.0 is missing"
  status=1
done < <(git grep -L 'SPDX-License-Identifier: Apache-2.0' -- '*.h' '*.cc' '*.proto' '*.bzl' '*.bazel' '*.py' '*.sh' \
  ':!third_party/bazel')
if ! clang-format --dry-run --Werror "${files[@]}" 2> /dev/null; then
  for file in "${files[@]}"; do
    clang-format --dry-run --Werror "$file" 2> /dev/null || echo "$file: not formatted; run .ci/check_format.sh --fix"
  done
  exit 1
fi
exit $status
