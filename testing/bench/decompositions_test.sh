#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the benchmark of decompositions runs and prints all of its cases.
set -euo pipefail
out=$("$TEST_SRCDIR/$TEST_WORKSPACE/testing/bench/decompositions" --seconds=0.05 --rows=40)
echo "$out"
[[ $(grep -c " us, ratio " <<<"$out") == 10 ]]
