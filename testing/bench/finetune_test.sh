#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: finetune_test.sh COTAN MEGABYTES PROGRAM...
# The programs of the benchmark of quantized weights run, and `cotan bench` prints that at most MEGABYTES (10^6 bytes) are
# resident.
set -euo pipefail
cotan=$1
limit=$2
shift 2
for program in "$@"; do
  "$cotan" bench "$program" --method=train_step --steps=1 --threads=1 > "$TEST_TMPDIR/output"
  cat "$TEST_TMPDIR/output"
  mebibytes=$(sed -n 's/^resident memory: \([0-9.]*\) MiB at most$/\1/p' "$TEST_TMPDIR/output")
  awk -v found="$mebibytes" -v limit="$limit" 'BEGIN { exit !(found > 0 && found * 1048576 <= limit * 1000000) }' ||
    { echo "FAILED: $program has ${mebibytes:-no number of} MiB resident; at most $limit MB are allowed"; exit 1; }
done
