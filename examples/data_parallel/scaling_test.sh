#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: scaling_test.sh SCALING PAGE
# The page has what the script prints: figures and what follows from them.
set -euo pipefail

python3 "$1" > "$TEST_TMPDIR/printed"
grep --quiet "| 1000 |" "$TEST_TMPDIR/printed"
while read -r line; do
  grep --quiet --fixed-strings -- "$line" "$2" || { echo "$2 lacks: $line"; exit 1; }
done < "$TEST_TMPDIR/printed"
