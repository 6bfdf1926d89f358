#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: digits_test.sh PROGRAM AARCH64_PROGRAM
# One artifact trains on both processors: equal draws, losses within a thousandth, and the same from run to run.
set -euo pipefail
fail() { echo "FAILED: $*" >&2; exit 1; }

# Prints the loss of an epoch of $1, whose checkpoint is $2.
loss() {
  "$1" --train_images=640 --held_out_images=100 --threads=1 --epochs=1 --checkpoint="$2" > "$TEST_TMPDIR/output" 2>&1 ||
    fail "$(cat "$TEST_TMPDIR/output")"
  sed -n 's/^epoch 1 .*loss \([0-9.]*\).*/\1/p' "$TEST_TMPDIR/output"
}

expected=$(loss "$1" "$TEST_TMPDIR/expected")
actual=$(loss "$2" "$TEST_TMPDIR/actual")
echo "loss $expected, on aarch64 $actual"
awk -v a="$expected" -v b="$actual" 'BEGIN { exit !(a > 0 && (a - b) ^ 2 <= (0.001 * a) ^ 2) }' || fail "losses differ"
loss "$2" "$TEST_TMPDIR/again" > "$TEST_TMPDIR/loss"
cmp "$TEST_TMPDIR/actual" "$TEST_TMPDIR/again" || fail "two runs on aarch64 differ"
# A checkpoint of one processor continues on the other.
"$2" --train_images=640 --held_out_images=100 --threads=1 --epochs=2 --checkpoint="$TEST_TMPDIR/expected" --resume \
  > "$TEST_TMPDIR/output" 2>&1 || fail "$(cat "$TEST_TMPDIR/output")"
