#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: demo_test.sh DEMO TRAIN
# Two ranks learn digits; resumed from its first epoch, the second one is the same. Four ranks learn, too. Refusals name
# what is wrong.
set -euo pipefail

flags=(--train_images=2560 --held_out_images=512)
bash "$1" "$2" 2 "${flags[@]}" --epochs=2 > "$TEST_TMPDIR/whole"
cat "$TEST_TMPDIR/whole"
for epochs in 1 2; do
  bash "$1" "$2" 2 "${flags[@]}" --epochs="$epochs" --checkpoint="$TEST_TMPDIR/digits.safetensors" \
    > "$TEST_TMPDIR/resumed"
done
cat "$TEST_TMPDIR/resumed"
result() { grep 'epoch 2' "$1" | sed 's/, [^,]*per step//'; }
[[ $(result "$TEST_TMPDIR/whole") == "$(result "$TEST_TMPDIR/resumed")" ]]
accuracy=$(sed -n 's/epoch 2.*accuracy \([0-9]*\).*/\1/p' "$TEST_TMPDIR/whole")
((accuracy >= 60))

bash "$1" "$2" 4 --train_images=1280 --held_out_images=128 --epochs=2 | tee "$TEST_TMPDIR/four"
grep --quiet '^4 ranks, batches of 128 images$' "$TEST_TMPDIR/four"
loss() { sed -n "s/^epoch $1: loss \([0-9.]*\),.*/\1/p" "$TEST_TMPDIR/four"; }
awk -v first="$(loss 1)" -v second="$(loss 2)" 'BEGIN { exit !(second > 0 && second < first) }'

demo=$1 train=$2
refuses() {
  local expected=$1
  shift
  bash "$demo" "$train" 1 "$@" > "$TEST_TMPDIR/refused" 2>&1 || true
  grep -e "$expected" "$TEST_TMPDIR/refused" || {
    cat "$TEST_TMPDIR/refused"
    exit 1
  }
}
refuses "--train_images is negative" --train_images=-1
refuses "--held_out_images has to be at least 32" --held_out_images=-1
refuses "unexpected argument 'digits'" digits
refuses "train: .*File name too long" --checkpoint="$(printf '%0300d' 0)"
