#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: links_only_runtime_test.sh PROGRAM DEPENDENCIES [FORBIDDEN REQUIRED]
# The program neither loads nor was built from LibTorch or Python. FORBIDDEN and REQUIRED are patterns of labels that it
# is not and is built from; without them, it is not built from the compiler, but from the runtime.
set -euo pipefail
program=$1
dependencies=$2  # labels of all targets it was built from, one on each line
forbidden=${3:-^@libtorch//|^//aot/}
required=${4:-^//runtime}

libraries=$(readelf --dynamic "$program" | grep NEEDED)
echo "$libraries"
if grep -iE 'lib(torch|c10|caffe|python)' <<< "$libraries"; then
  echo "FAILED: $program needs the libraries above"
  exit 1
fi
if ldd "$program" | grep -iE 'lib(torch|c10|caffe|python)'; then
  echo "FAILED: what $program loads needs the libraries above"
  exit 1
fi
if grep -E "$forbidden" "$dependencies"; then
  echo "FAILED: $program is built from the targets above"
  exit 1
fi
# The query itself works: it finds what must be there.
grep -qE "$required" "$dependencies"
