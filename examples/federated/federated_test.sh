#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: federated_test.sh EXPECTED ACCURACY RUN ARGUMENTS...
# A federation on loopback ends with at least ACCURACY, and its log has EXPECTED.
set -euo pipefail
expected=$1 accuracy=$2
shift 2

log=$TEST_TMPDIR/log.txt
"$@" --verbose > "$log" 2>&1 || { cat "$log"; exit 1; }
cat "$log"
grep -qE "$expected" "$log" || { echo "FAILED: no line with: $expected"; exit 1; }
last=$(grep '^round ' "$log" | tail -1 | awk '{ print $NF }')
awk -v last="$last" -v least="$accuracy" 'BEGIN { exit !(last >= least) }' ||
  { echo "FAILED: accuracy $last, expected at least $accuracy"; exit 1; }
