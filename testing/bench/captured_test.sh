#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Checks that the benchmark of captured backwards runs and prints all of its cases.
set -euo pipefail
out=$("$TEST_SRCDIR/$TEST_WORKSPACE/testing/bench/captured" --seconds=0.05)
echo "$out"
[[ $(grep -c " us, ratio " <<<"$out") == 6 ]]
