#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: gpu_report_test.sh GPU_REPORT PEERS RUN_ON_GPU KERNEL_TIMELINE
# Checks the report of made-up results, and the arguments of the scripts that run on a machine with a GPU.
set -euo pipefail
report=$1 peers=$2 run_on_gpu=$3 timeline=$4
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
{"side": "torch compile", "model": "mlp", "precision": "f32", "inputs": "resident", "median_us": 100.0, "min_us": 90.0, "first_step_ms": 12345.0}
{"side": "torch graph", "model": "mlp", "precision": "f32", "error": "RuntimeError: no graph"}
END
python3 "$report" report "$folder"
cat "$folder/report.md"
grep -q "1 passed, 1 failed, 0 not run" "$folder/report.md" || fail "wrong number of checks"
grep -q "| second check | FAIL (9) | 4 | last line |" "$folder/report.md" || fail "no line of the check"
grep -q "| f32 | mlp | resident | 50.0 | 100.0 | torch compile | 2.00 |" "$folder/report.md" || fail "no comparison"
grep -q "| torch compile | 100.0 | 90.0 |  | 12345.0 |  | 2.00 |" "$folder/report.md" || fail "no first step"
grep -q "torch graph mlp f32: RuntimeError: no graph" "$folder/report.md" || fail "no error"
python3 -c "import json, sys; assert len(json.load(open(sys.argv[1]))['bench']) == 4" "$folder/report.json"

echo '{"losses": [2.0, 1.0]}' > "$folder/a.json"
echo '{"losses": [2.0, 1.001]}' > "$folder/b.json"
python3 "$report" losses "$folder/a.json" "$folder/b.json" 0.01 || fail "refused losses within the tolerance"
python3 "$report" losses "$folder/a.json" "$folder/b.json" 0.0001 2> /dev/null && fail "accepted different losses"
python3 -c "import ast, sys; ast.parse(open(sys.argv[1]).read())" "$peers"

# Three replays warm up; then two nodes of 2 and 3 us with a gap of 0.5 us.
for replay in 0 1 2 3 4; do
  start=$((replay * 10000))
  echo "$start $((start + 2000)) 4 256 32 7 1 first kernel"
  echo "$((start + 2500)) $((start + 5500)) 8 128 16 7 2 second"
done > "$folder/steps.timeline"
echo "100 900 1 32 16 0 0 outside of graphs" >> "$folder/steps.timeline"
python3 "$timeline" "$folder/steps.timeline" > "$folder/timeline.txt"
grep -q "2 nodes, 5.5 us from the first to the last, 5.0 us inside of nodes" "$folder/timeline.txt" || fail "wrong sums"
grep -q "  3.00  0.50       8   128   16  second" "$folder/timeline.txt" || fail "wrong node"
python3 "$timeline" --top=1 "$folder/steps.timeline" | grep -q "3.0 us in   1 nodes  second" || fail "wrong kernel"

bash -n "$run_on_gpu"
bash "$run_on_gpu" --nonsense 2> /dev/null && fail "accepted an unknown argument"
exit 0
