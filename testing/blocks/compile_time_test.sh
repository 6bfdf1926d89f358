#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that 48 layers that are found as blocks compile in little more processor time than 2, and that the program does
# not grow as its layers do. The limit is above the 1.5 of docs/blocks.md, since tests run side by side.
set -euo pipefail
cd "$TEST_TMPDIR"
out=$("$TEST_SRCDIR/$TEST_WORKSPACE/testing/blocks/compile_time" found)
echo "$out"
awk '/whole processes/ { ratio = $(NF - 3) } END { exit !(ratio > 0.9 && ratio < 2.5) }' <<< "$out"
awk '/^found/ { two = $7; sub(/.*48 layers:.*program */, ""); many = $1 } END { exit !(many > two && many < 4 * two) }' \
  <<< "$out"
