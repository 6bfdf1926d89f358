#!/usr/bin/env bash
# The compile tool's command line: what it lists, writes and refuses.
set -euo pipefail
compile="$1"
artifact="$2"  # made by cotan_program()

fail() { echo "FAIL: $1" >&2; exit 1; }

# The artifact of the build rule is a .cotan file, and the tool writes the same.
[ "$(head -c 6 "$artifact" | tail -c 5)" = COTAN ] || fail "cotan_program made no .cotan file"
"$compile" --model=binary --out="$TEST_TMPDIR/binary.cotan" --optimizer='sgd(lr=0.1)' > "$TEST_TMPDIR/summary"
cmp "$artifact" "$TEST_TMPDIR/binary.cotan" || fail "the same model gives other bytes"
grep -q '^  train_step ' "$TEST_TMPDIR/summary" || fail "the summary lacks a method"

"$compile" --list > "$TEST_TMPDIR/list"
grep -q '^mlp ' "$TEST_TMPDIR/list" || fail "--list lacks a model"

# refuses TEXT ARGUMENTS...: exits with 1, says TEXT, leaves no file.
refuses() {
  local text="$1"; shift
  local status=0
  "$compile" "$@" --out="$TEST_TMPDIR/refused.cotan" 2> "$TEST_TMPDIR/error" > /dev/null || status=$?
  [ "$status" = 1 ] || fail "exit code $status for $*"
  grep -qF "$text" "$TEST_TMPDIR/error" || fail "'$text' is not in: $(cat "$TEST_TMPDIR/error")"
  [ ! -e "$TEST_TMPDIR/refused.cotan" ] || fail "a file is left of $*"
}
refuses "there is no model 'nothing'" --model=nothing
refuses "give --model=NAME"
refuses "there is no optimizer 'lion'" --model=binary --optimizer=lion
refuses "the frozen pattern 'x*' matches no parameter" --model=binary --freeze='x*'

status=0
"$compile" --model=binary 2> "$TEST_TMPDIR/error" || status=$?
[ "$status" = 1 ] || fail "exit code $status without --out"
