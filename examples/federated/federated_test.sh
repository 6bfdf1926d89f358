#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: federated_test.sh ACCURACY EXPECTED... -- RUN ARGUMENTS...
# A federation on loopback ends with at least ACCURACY, and a line of its logs matches each EXPECTED. There {program}
# and {stale} stand for the versions of the two programs.
set -euo pipefail
accuracy=$1
shift
expected=()
while [[ $1 != -- ]]; do
  expected+=("$1")
  shift
done
shift
# RUN DEMO WHEEL PROGRAM STALE_PROGRAM ...
version() { sha256sum < "$1" | cut --characters=1-12; }
program=$(version "$4") stale=$(version "$5")
[[ $program != "$stale" ]]

log=$TEST_TMPDIR/log.txt
"$@" --verbose > "$log" 2>&1 || { cat "$log"; exit 1; }
cat "$log"
for line in "${expected[@]}"; do
  line=${line//\{program\}/$program}
  line=${line//\{stale\}/$stale}
  grep --quiet --text --extended-regexp -- "$line" "$log" || { echo "FAILED: no line with: $line"; exit 1; }
done
last=$(grep --text '^round ' "$log" | tail -1 | awk '{ print $NF }')
awk -v last="$last" -v least="$accuracy" 'BEGIN { exit !(last >= least) }' ||
  { echo "FAILED: accuracy $last, expected at least $accuracy"; exit 1; }
