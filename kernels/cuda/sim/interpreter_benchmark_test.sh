#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: interpreter_benchmark_test.sh BENCHMARK
set -euo pipefail
"$1" | tee "$TEST_TMPDIR/output"
grep -q "M/s" "$TEST_TMPDIR/output"
