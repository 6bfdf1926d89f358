#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: gpu_report_test.sh GPU_REPORT PEERS RUN_ON_GPU
# Checks the report of made-up results, and the arguments of the scripts that run on a machine with a GPU.
set -euo pipefail
report=$1 peers=$2 run_on_gpu=$3
fail() { echo "FAILED: $*"; exit 1; }
folder=$TEST_TMPDIR/out
mkdir -p "$folder"

echo v1 > "$folder/version.txt"
printf 'one\nlast line\n' > "$folder/output.txt"
python3 "$report" machine "$folder/machine.json" "$folder/version.txt" "$folder" cuda
python3 "$report" note "$folder/results.jsonl" "first check" pass 3 "$folder/output.txt"
python3 "$report" note "$folder/results.jsonl" "second check" "FAIL (9)" 4 "$folder/output.txt"
cat > "$folder/bench.jsonl" << 'END'
{"side": "cotan", "model": "mlp", "precision": "f32", "inputs": "resident", "median_us": 50.0, "min_us": 49.0}
{"side": "torch eager", "model": "mlp", "precision": "f32", "inputs": "resident", "median_us": 200.0, "min_us": 190.0}
{"side": "torch compile", "model": "mlp", "precision": "f32", "inputs": "resident", "median_us": 100.0, "min_us": 90.0}
{"side": "torch graph", "model": "mlp", "precision": "f32", "error": "RuntimeError: no graph"}
END
python3 "$report" report "$folder"
cat "$folder/report.md"
grep -q "1 passed, 1 failed, 0 not run" "$folder/report.md" || fail "wrong number of checks"
grep -q "| second check | FAIL (9) | 4 | last line |" "$folder/report.md" || fail "no line of the check"
grep -q "| f32 | mlp | resident | 50.0 | 100.0 | torch compile | 2.00 |" "$folder/report.md" || fail "no comparison"
grep -q "torch graph mlp f32: RuntimeError: no graph" "$folder/report.md" || fail "no error"
python3 -c "import json, sys; assert len(json.load(open(sys.argv[1]))['bench']) == 4" "$folder/report.json"

echo '{"losses": [2.0, 1.0]}' > "$folder/a.json"
echo '{"losses": [2.0, 1.001]}' > "$folder/b.json"
python3 "$report" losses "$folder/a.json" "$folder/b.json" 0.01 || fail "refused losses within the tolerance"
python3 "$report" losses "$folder/a.json" "$folder/b.json" 0.0001 2> /dev/null && fail "accepted different losses"
python3 -c "import ast, sys; ast.parse(open(sys.argv[1]).read())" "$peers"
bash -n "$run_on_gpu"
bash "$run_on_gpu" --nonsense 2> /dev/null && fail "accepted an unknown argument"
exit 0
