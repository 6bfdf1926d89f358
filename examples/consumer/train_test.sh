#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: train_test.sh PROGRAM ARTIFACT
# The program learns, and does not load LibTorch.
set -euo pipefail
program=$1
artifact=$2
fail() { echo "FAILED: $*"; exit 1; }

output=$("$program" "$artifact") || fail "exit status $?"
echo "$output"
first=$(awk 'NR == 1 { print $4 }' <<< "$output")
last=$(awk 'END { print $4 }' <<< "$output")
# Two arms at random have a loss of ln 2 = 0.69.
awk -v first="$first" -v last="$last" 'BEGIN { exit !(first > 0.5 && last < 0.1) }' ||
  fail "the loss is $first at first and $last at last; expected above 0.5 and below 0.1"

libraries=$(ldd "$program")
grep -q libdnnl <<< "$libraries" || fail "ldd shows no oneDNN: $libraries"
grep -iE 'torch|c10|python' <<< "$libraries" && fail "the program loads the libraries above"
exit 0
