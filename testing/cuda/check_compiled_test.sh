#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: check_compiled_test.sh PROGRAM GOLDEN_JSON ARTIFACT
# Checks a compiled model without LibTorch, on the CPU and on a simulated GPU, and that wrong values are found.
set -euo pipefail
program=$1 json=$2 artifact=$3
golden=${json%/*} name=$(basename "$json" .json)
fail() { echo "FAILED: $*"; exit 1; }

for device in cpu cuda_sim; do
  "$program" --golden="$golden" --device=$device "$artifact" | tee "$TEST_TMPDIR/output"
  grep -q "^$name  *ok  *worst  *[0-9.]* (" "$TEST_TMPDIR/output" || fail "no values were compared on $device"
done

changed=$TEST_TMPDIR/changed
mkdir "$changed"
cp "$golden/$name.safetensors" "$changed/"
sed 's/"grad_rtol": [^,}]*/"grad_rtol": 1e-12/' "$json" > "$changed/$name.json"
cmp -s "$json" "$changed/$name.json" && fail "the tolerance was not changed"
"$program" --golden="$changed" "$artifact" > "$TEST_TMPDIR/output" && fail "accepted wrong gradients"
grep -q "^$name  *FAILED .*gradient of" "$TEST_TMPDIR/output" || fail "$(cat "$TEST_TMPDIR/output")"
"$program" --golden="$golden" 2> /dev/null && fail "accepted no model"
"$program" --golden="$golden" missing.cotan > /dev/null && fail "accepted a missing file"
exit 0
