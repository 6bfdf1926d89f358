#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: recorded_runs_test.sh COTAN ARTIFACTS.tar
# The tool repeats the recorded runs of the corpus, which testing/cuda/run_on_gpu.sh carries to machines with a GPU.
set -euo pipefail
cotan=$1 archive=$2
fail() { echo "FAILED: $*"; exit 1; }

mkdir "$TEST_TMPDIR/corpus"
tar -C "$TEST_TMPDIR/corpus" -xf "$archive"
num_artifacts=0
for artifact in "$TEST_TMPDIR"/corpus/*.cotan; do
  "$cotan" verify "$artifact" > "$TEST_TMPDIR/output" 2>&1 || fail "${artifact##*/}: $(cat "$TEST_TMPDIR/output")"
  grep -q '^ok ' "$TEST_TMPDIR/output" || fail "${artifact##*/}: no result was compared"
  num_artifacts=$((num_artifacts + 1))
done
echo "$num_artifacts artifacts"
((num_artifacts >= 150)) || fail "most of the 193 cases have to be recorded"
ls "$TEST_TMPDIR"/corpus | grep -qv '\.cotan$' && fail "the archive has other files"
exit 0
