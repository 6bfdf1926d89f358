#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: scaling_test.sh SCALING PAGE
# The page has what the script prints.
set -euo pipefail

common=(--row_ms=4.3 --gradient_mb=3.7 --bucket_mb=1)
fast=(--latency_us=2 --message_us=0.5 --gb_per_s=11)
{
  python3 "$1" "${common[@]}" --rows_per_node=8
  python3 "$1" "${common[@]}" --rows=8000
  python3 "$1" "${common[@]}" --rows=8000 "${fast[@]}"
} > "$TEST_TMPDIR/printed"
while read -r line; do
  grep --quiet --fixed-strings -- "$line" "$2" || { echo "$2 lacks: $line"; exit 1; }
done < "$TEST_TMPDIR/printed"
