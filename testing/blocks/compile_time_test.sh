#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that 48 layers of one distinct block, declared, with a key or found, compile in at most 1.5 times the processor time of 2, as whole processes,
# and that the program does not grow as its layers do. Tests run side by side, so a measurement has three tries.
set -euo pipefail
cd "$TEST_TMPDIR"

# Whether the mode $1 is within the limits.
is_within_limits() {
  local out
  out=$("$TEST_SRCDIR/$TEST_WORKSPACE/testing/blocks/compile_time" "$1")
  echo "$out"
  awk '/whole processes/ { ratio = $(NF - 3) } END { exit !(ratio > 0.9 && ratio <= 1.5) }' <<< "$out" &&
    awk '/48 layers/ { two = $7; sub(/.*48 layers:.*program */, ""); many = $1 } END { exit !(many > two && many < 4 * two) }' \
      <<< "$out"
}

for mode in declared keyed found; do
  is_within_limits "$mode" || is_within_limits "$mode" || is_within_limits "$mode" ||
    { echo "FAILED: $mode" && exit 1; }
done
