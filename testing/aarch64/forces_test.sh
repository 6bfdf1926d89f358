#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: forces_test.sh PROGRAM AARCH64_PROGRAM
# One artifact trains on both processors: force errors within a thousandth, and on aarch64 the same output with one and
# with two threads.
set -euo pipefail
fail() { echo "FAILED: $*" >&2; exit 1; }

# Trains with $1 on $3 threads; the output goes to the file $2.
train() { "$1" --steps=50 --threads="$3" > "$2" 2>&1 || fail "$(cat "$2")"; }
# Prints the force error "before" or "after" training in the file $1.
error_of() { sed -n "s/^force error $2: \([0-9.]*\)$/\1/p" "$1"; }

train "$1" "$TEST_TMPDIR/expected" 1
train "$2" "$TEST_TMPDIR/actual" 1
train "$2" "$TEST_TMPDIR/again" 2
cmp "$TEST_TMPDIR/actual" "$TEST_TMPDIR/again" || fail "one thread and two give different errors on aarch64"

for when in before after; do
  expected=$(error_of "$TEST_TMPDIR/expected" "$when")
  actual=$(error_of "$TEST_TMPDIR/actual" "$when")
  echo "force error $when training $expected, on aarch64 $actual"
  awk -v a="$expected" -v b="$actual" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 <= (0.001 * a) ^ 2) }' ||
    fail "force errors $when training differ"
done
before=$(error_of "$TEST_TMPDIR/actual" before)
after=$(error_of "$TEST_TMPDIR/actual" after)
awk -v before="$before" -v after="$after" 'BEGIN { exit !(after < 0.8 * before) }' ||
  fail "learned too little: $before and $after"
