#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: links_only_runtime_test.sh PROGRAM DEPENDENCIES
# The program neither loads nor was built from LibTorch or Python.
set -euo pipefail
program=$1
dependencies=$2  # labels of all targets it was built from, one on each line

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
if grep -E '^@libtorch//|^//aot/' "$dependencies"; then
  echo "FAILED: $program is built from the targets above"
  exit 1
fi
# The query itself works: it finds what must be there.
grep -q '^//runtime' "$dependencies"
