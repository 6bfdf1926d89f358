#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: verify_test.sh COTAN ARTIFACT...
# Artifacts that were compiled on another processor have the results that LibTorch eager recorded in them, within
# docs/numerics.md: outputs, gradients, updated states and random draws.
set -euo pipefail
cotan=$1
shift
for artifact in "$@"; do
  echo "$artifact"
  "$cotan" verify "$artifact" > "$TEST_TMPDIR/output" 2>&1 || { cat "$TEST_TMPDIR/output"; exit 1; }
  tail -n 1 "$TEST_TMPDIR/output" | grep -E '^[1-9][0-9]* passed, 0 failed$' || { cat "$TEST_TMPDIR/output"; exit 1; }
done
