#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: no_link_dependency_test.sh PROGRAM...
# Checks that programs with the CUDA backend start on machines without CUDA: they are not linked with its libraries.
set -euo pipefail

for program in "$@"; do
  needed=$(readelf --dynamic --wide "$program" | grep NEEDED)
  # A program without any library would not be a check.
  grep -q 'libc\.so' <<< "$needed" || { echo "$program: no table of libraries" >&2; exit 1; }
  if grep -iE 'cuda|cublas|cudnn|nvrtc|nvidia|nccl' <<< "$needed"; then
    echo "$program is linked with CUDA" >&2
    exit 1
  fi
done
