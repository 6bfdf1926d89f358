#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Fuzzes with libFuzzer, AddressSanitizer and UndefinedBehaviorSanitizer, and prints the table of docs/security.md.
#
#   testing/fuzz/run.sh [OPTION ...] NAME [FLAG ...]           a target
#   testing/fuzz/run.sh [OPTION ...] --all SECONDS [FLAG ...]  all targets, SECONDS each
#   testing/fuzz/run.sh --table                                fuzzes nothing
#
#   --jobs=N              N processes at the same time, which exchange inputs; else 1
#   --without-sanitizers  libFuzzer only: many more executions in the same time, for what a target checks by itself
#   --built               runs the fuzzers as they are; builds nothing
#   FLAG                  libFuzzer's: -runs=10000000 (of each process), -max_total_time=SECONDS, -detect_leaks=1
#
# $COTAN_FUZZ_FOLDER, or /tmp/cotan_fuzz, keeps in NAME the inputs with new coverage, the crashes, and the output of the
# last run, and in runs.tsv a line for each run. The table has the executions of all runs in it. The exit status is 1 if
# a target was not built, or if a run found something.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=${COTAN_FUZZ_FOLDER:-/tmp/cotan_fuzz}
runs=$root/runs.tsv

fail() {
  echo "run.sh: $1; see the head of testing/fuzz/run.sh." >&2
  exit 2
}

# Prints the rows of the table: executions of all runs, those under sanitizers, the most edges of one run, and failures.
table() {
  [[ -e $runs ]] || return 0
  echo "| target | executions | under sanitizers | edges reached | found |"
  echo "|---|---|---|---|---|"
  awk -F '\t' '
    function grouped(number, text) {
      for (text = ""; length(number) > 3; number = substr(number, 1, length(number) - 3))
        text = "," substr(number, length(number) - 2) text
      return number text
    }
    {
      executions[$2] += $4
      if ($7 != "without") sanitized[$2] += $4
      if ($5 > edges[$2]) edges[$2] = $5
      found[$2] += $6
      last[$2] = $1
    }
    END {
      for (name in executions) {
        printf "| `%s` | %s, the last on %s | %s | %s | %s |\n", name, grouped(sprintf("%.0f", executions[name])),
            last[name], grouped(sprintf("%.0f", sanitized[name])), grouped(sprintf("%.0f", edges[name])),
            found[name] == 0 ? "nothing" : found[name] " failures"
      }
    }' "$runs" | sort
}

# Sets `flags` to libFuzzer's for the target $1. Longer inputs take longer and reach nothing else. Leaks are looked for
# when a process ends, not after each input that frees less than it allocates: a search stops all threads and reads the
# heap. New functions are not symbolized, which reads the debug information of the program. Of targets with many features,
# entropic schedules take a third of the time.
set_flags() {
  flags=(-print_final_stats=1 -print_funcs=0 -detect_leaks=0 -timeout=60)
  case $1 in
    artifact) flags+=(-max_len=16384) ;;
    c_interface) flags+=(-max_len=128) ;;
    planner) flags+=(-max_len=256 -entropic=0) ;;
    pt2) flags+=(-rss_limit_mb=4096 -malloc_limit_mb=1024 -entropic=0) ;;
  esac
}

set_environment() {
  # Sizes of an input that are too large are errors of the target, not of the test. Stacks of allocations are short,
  # because one is recorded for each.
  export ASAN_OPTIONS=allocator_may_return_null=1:malloc_context_size=16${ASAN_OPTIONS:+:$ASAN_OPTIONS}
  export UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1${UBSAN_OPTIONS:+:$UBSAN_OPTIONS}
  # Threads that spin while they wait take the core from other processes.
  export OMP_WAIT_POLICY=passive
  # Files of the targets are in memory where possible: a disk takes milliseconds to sync one.
  local memory=/dev/shm
  [[ -w $memory ]] || memory=${TMPDIR:-/tmp}
  TEST_TMPDIR=$(mktemp -d "$memory/cotan_fuzz.XXXXXX")
  export TEST_TMPDIR
  trap 'rm -rf "$TEST_TMPDIR"' EXIT
}

# Fuzzes the target $1 with libFuzzer's flags that follow; appends a line to runs.tsv. Returns 1 if a process failed.
fuzz() {
  local name=$1 folder=$root/$1 kept=testing/fuzz/corpus/$1 fuzzer=bazel-bin/testing/fuzz/$1_fuzzer
  shift
  if [[ ! -x $fuzzer ]]; then
    echo "$name: $fuzzer is not built." >&2
    return 1
  fi
  mkdir -p "$folder/corpus" "$folder/crashes"
  rm -f "$folder"/output.*
  [[ -d $kept ]] || kept=
  local begin=$SECONDS earlier flags
  earlier=$(find "$folder/crashes" -type f | wc -l)
  if ! COTAN_FUZZ_SEEDS=$folder/corpus "$fuzzer" > "$folder/output.seeds" 2>&1; then
    cat "$folder/output.seeds" >&2
    return 1
  fi
  set_flags "$name"
  echo "$name: output in $folder/output.*" >&2
  local i status failed=0 pids=()
  # libFuzzer prints its statistics when it is interrupted.
  trap 'is_interrupted=1; kill -TERM "${pids[@]}" 2> /dev/null || true' INT TERM
  for ((i = 0; i < jobs; ++i)); do
    "$fuzzer" -artifact_prefix="$folder/crashes/" "${flags[@]}" "$@" "$folder/corpus" ${kept:+"$kept"} \
      > "$folder/output.$i" 2>&1 &
    pids+=($!)
  done
  for ((i = 0; i < jobs; ++i)); do
    status=0
    wait "${pids[i]}" || status=$?
    while kill -0 "${pids[i]}" 2> /dev/null; do  # a signal ended the wait
      status=0
      wait "${pids[i]}" || status=$?
    done
    ((status == 0)) || [[ -n $is_interrupted ]] && continue
    failed=1
    echo "$name: process $i ended with status $status:" >&2
    tail -n 60 "$folder/output.$i" >&2
  done
  trap - INT TERM
  local found edges executions
  found=$(($(find "$folder/crashes" -type f | wc -l) - earlier))
  # A leak at the end of a process has no input.
  ((found > 0)) && failed=1 || found=$failed
  edges=$(cat "$folder"/output.[0-9]* | grep -o 'cov: [0-9]*' | sort -k 2 -n | tail -n 1 || true)
  # A process that receives two signals prints its statistics twice.
  executions=$(awk '$1 == "stat::number_of_executed_units:" { units[FILENAME] = $2 }
    END { for (file in units) sum += units[file]; printf "%.0f\n", sum }' "$folder"/output.[0-9]*)
  printf '%s\t%s\t%d\t%s\t%s\t%s\t%s\n' "$(date -u +%F)" "$name" "$((SECONDS - begin))" "$executions" \
    "${edges#cov: }" "$found" "$sanitizers" >> "$runs"
  return "$failed"
}

jobs=1
sanitizers=with
is_built=
is_interrupted=
targets=()
while (($#)) && ((${#targets[@]} == 0)); do
  case $1 in
    --jobs=*) jobs=${1#--jobs=} ;;
    --without-sanitizers) sanitizers=without ;;
    --built) is_built=1 ;;
    --table)
      table
      exit
      ;;
    --all)
      [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || fail "--all needs a number of seconds"
      for source in testing/fuzz/*_target.cc; do targets+=("$(basename "$source" _target.cc)"); done
      set -- "$1" "-max_total_time=$2" "${@:3}"
      ;;
    *)
      [[ -e testing/fuzz/$1_target.cc ]] || fail "there is no target '$1'"
      targets=("$1")
      ;;
  esac
  shift
done
((${#targets[@]})) || fail "a target is missing"
[[ $jobs =~ ^[1-9][0-9]*$ ]] || fail "--jobs needs a number of processes"

config=fuzz
[[ $sanitizers == with ]] || config=fuzz_coverage
mkdir -p "$root"
set_environment
result=0
for target in "${targets[@]}"; do
  if [[ -z $is_built ]] && ! env --unset=TEST_TMPDIR ./bazelw build --config="$config" "//testing/fuzz:${target}_fuzzer" < /dev/null; then
    echo "$target: not built." >&2
    result=1
    continue
  fi
  fuzz "$target" "$@" || result=1
  [[ -z $is_interrupted ]] || break
done
table
exit "$result"
