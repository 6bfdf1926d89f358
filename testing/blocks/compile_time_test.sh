#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: compile_time_test.sh COMPILE_TIME COMPILE
# Checks that 48 layers of one distinct block, declared or with a key, compile in at most 1.5 times the processor time of
# 2, as whole processes of the library and of the compile tool, and that the program does not grow as its layers do. With
# reference runs, which call LibTorch's ops for each layer, and for layers that are found, each of which is traced, the
# limit is 1.8: the ratios are 1.4 to 1.7 and 1.3 to 1.6, depending on the processor. The clock varies, so a measurement
# has three tries.
set -euo pipefail
program=$PWD/$1 tool=$PWD/$2
cd "$TEST_TMPDIR"

# Whether the ratio in the line with the words $1 is, or is at most $2.
is_ratio_within_limits() {
  awk -v words="$1" -v most="${2:-1.5}" \
    'index($0, words) { ratio = $(NF - 3) } END { exit !(ratio > 0.9 && ratio <= most) }'
}

# Whether the tool is.
is_tool_within_limits() {
  local out
  out=$("$program" tool "$tool")
  echo "$out"
  is_ratio_within_limits "tool " <<< "$out" && is_ratio_within_limits "verified " 1.8 <<< "$out"
}

# Whether the mode $1 is within the limits.
is_within_limits() {
  local out most=1.5
  [[ $1 != found ]] || most=1.8
  out=$("$program" "$1")
  echo "$out"
  is_ratio_within_limits "whole processes" "$most" <<< "$out" &&
    awk '/48 layers/ { two = $7; sub(/.*48 layers:.*program */, ""); many = $1 } END { exit !(many > two && many < 4 * two) }' \
      <<< "$out"
}

for mode in declared keyed found; do
  is_within_limits "$mode" || is_within_limits "$mode" || is_within_limits "$mode" ||
    { echo "FAILED: $mode" && exit 1; }
done
is_tool_within_limits || is_tool_within_limits || is_tool_within_limits || { echo "FAILED: tool" && exit 1; }
