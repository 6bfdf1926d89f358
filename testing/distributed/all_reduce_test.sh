#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: all_reduce_test.sh ALL_REDUCE_SH PROGRAM
# The benchmark prints a line for each size, and refuses to exchange nothing.
set -euo pipefail

bash "$1" "$2" 2 --kilobytes=0,100 --exchanges=5 --at_once=4 | tee "$TEST_TMPDIR/out"
grep -E '^2 ranks, 4 bytes: [0-9.]+ us$' "$TEST_TMPDIR/out"
grep -E '^2 ranks, 100000 bytes: [0-9.]+ us$' "$TEST_TMPDIR/out"
grep -E '^2 ranks, 4 buckets of 4 bytes at once: [0-9.]+ us each$' "$TEST_TMPDIR/out"
grep -E '^sum of 2 shards of 125000 elements: [0-9.]+ GB/s$' "$TEST_TMPDIR/out"

for flag in exchanges at_once; do
  if bash "$1" "$2" 1 --kilobytes=0 "--$flag=0" > "$TEST_TMPDIR/refused" 2>&1; then
    echo "FAILED: accepted --$flag=0"
    exit 1
  fi
  grep -e "--$flag has to be at least 1" "$TEST_TMPDIR/refused"
done
