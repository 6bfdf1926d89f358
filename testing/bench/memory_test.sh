#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: memory_test.sh PROGRAM
# Checks the table and the flag errors of the memory benchmark.
set -euo pipefail
program=$1
fail() { echo "FAILED: $*"; exit 1; }

table=$("$program" --models=cnn,gpt --limits=0.75,0.01 --seconds=0 --min_calls=1)
echo "$table"
[[ $(grep -c "^| cnn " <<< "$table") == 2 ]] || fail "no lines for cnn"
grep -q "^| gpt *| *0.75 .*|" <<< "$table" || fail "no line for gpt"
grep -q "^| gpt *| *0.01 | the limit of .* cannot be kept" <<< "$table" || fail "an impossible limit is not reported"
number='[0-9]+\.[0-9]'
grep -Eq "^\| captured +\| +$number \| +$number \| +$number \|" <<< "$table" || fail "no line for updates in the backward"
for way in walked captured; do
  saved=$(sed -nE "s/^\| $way .*\| +(-?$number) \|$/\1/p" <<< "$table")
  awk -v saved="$saved" 'BEGIN { exit !(saved > 20) }' || fail "$way: updates in the backward save $saved MiB"
done
"$program" --models=nonsense && fail "accepted a model that does not exist"
"$program" --limits=-1 && fail "accepted a negative limit"
exit 0
