#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: train_test.sh COTAN DRAW DIGITS CLIPPED COTAN-PACK DRAW_PICTURES
# `cotan train` learns, continues after SIGKILL with the same bits, and refuses what is wrong.
set -euo pipefail
cotan=$1
draw=$2
digits=$3
clipped=$4
pack=$5
draw_pictures=$6
cd "$TEST_TMPDIR"
cotan=$OLDPWD/$cotan
draw=$OLDPWD/$draw
digits=$OLDPWD/$digits
clipped=$OLDPWD/$clipped
draw_pictures=$OLDPWD/$draw_pictures
path=$PATH
PATH=$OLDPWD/$(dirname "$pack"):$PATH  # for `cotan pack` and folders of images
fail() { echo "FAILED: $*"; exit 1; }

"$draw" --out=. --train_images=1280 --held_out_images=200
"$draw" --out=. 1280 > output 2>&1 && fail "draw ignores an argument"
grep -q "unexpected argument '1280'" output || fail "$(cat output)"
data=(--data=train-images-idx3-ubyte --targets=train-labels-idx1-ubyte --mean=33.3 --deviation=78.6)
held_out=(--held_out=t10k-images-idx3-ubyte,t10k-labels-idx1-ubyte)
train() { "$cotan" train "$digits" "${data[@]}" --threads=2 "$@" > output 2>&1; }

# Training improves the held-out accuracy.
train "${held_out[@]}" --epochs=4 --lr=2e-3 --schedule='one_cycle()' --log=log.jsonl --curve=curve.svg \
  --best=best.safetensors --save=last.safetensors || fail "$(cat output)"
cat output
mapfile -t scores < <(sed -n 's/^step .* accuracy \(0\.[0-9]*\).*/\1/p' output)
((${#scores[@]} == 4)) || fail "${#scores[@]} evaluations"
awk -v a="${scores[0]}" -v b="${scores[3]}" 'BEGIN { exit !(b > a && b > 0.9) }' || fail "scores: ${scores[*]}"
"$cotan" run "$digits" --method=eval --checkpoint=best.safetensors > /dev/null || fail "the best states do not load"
cmp -s best.safetensors last.safetensors || echo "the best states are not the last ones"

# The log is JSON, and the curve XML.
python3 - <<'PYTHON' || fail "log or curve"
import json
import xml.etree.ElementTree
lines = [json.loads(line) for line in open("log.jsonl")]
steps = [line for line in lines if line["event"] == "step"]
assert [line["step"] for line in steps] == list(range(1, 81)), steps
assert steps[0]["lr"] < steps[24]["lr"] > steps[79]["lr"], "one_cycle"
assert steps[79]["loss"] < 0.3 * steps[0]["loss"]
evaluations = [line for line in lines if line["event"] == "evaluation"]
assert [line["step"] for line in evaluations] == [20, 40, 60, 80]
root = xml.etree.ElementTree.parse("curve.svg").getroot()
assert len(root.findall("{http://www.w3.org/2000/svg}polyline")) == 2
PYTHON

# Killed in the middle of an epoch and continued: the bits of a run that was not, with averages, early stopping and a
# log without holes or repetitions.
options=("${held_out[@]}" --epochs=6 --ema=0.98 --schedule='cosine(minimum=1e-5)' --warmup_steps=10 --seed=7
  --early_stop=5 --evaluate_every=15 --checkpoint_every=7)
train "${options[@]}" --checkpoint=whole --log=whole.jsonl --curve=whole.svg || fail "$(cat output)"
"$cotan" train "$digits" "${data[@]}" --threads=2 "${options[@]}" --checkpoint=killed --log=killed.jsonl \
  --curve=killed.svg > killed_output 2>&1 &
process=$!
until [[ -s killed.jsonl ]] && (($(wc -l < killed.jsonl) >= 45)); do
  kill -0 "$process" || fail "it ended too early: $(cat killed_output)"
  sleep 0.01
done
kill -KILL "$process"
wait "$process" && fail "a killed run reports success"
cmp -s whole killed && fail "it was killed too late"
train "${options[@]}" --checkpoint=killed --log=killed.jsonl --curve=killed.svg --resume || fail "$(cat output)"
head -n 1 output
cmp whole killed || fail "the resumed run has other bits"
cmp whole.svg killed.svg || fail "the resumed run has another curve"
without_seconds() { sed 's/,"seconds":[^}]*//' "$1"; }
cmp <(without_seconds whole.jsonl) <(without_seconds killed.jsonl) || fail "the resumed run has another log"

# Control-C saves a checkpoint, from which the run continues with the same bits.
"$cotan" train "$digits" "${data[@]}" --threads=2 "${options[@]}" --checkpoint=interrupted --log=interrupted.jsonl \
  > interrupted_output 2>&1 &
process=$!
# It catches signals before the first step.
until [[ -s interrupted.jsonl ]]; do
  kill -0 "$process" || fail "$(cat interrupted_output)"
  sleep 0.01
done
kill -INT "$process"
wait "$process" && fail "an interrupted run reports success"
grep -q "saved to interrupted, --resume continues" interrupted_output || fail "$(cat interrupted_output)"
train "${options[@]}" --checkpoint=interrupted --log=interrupted.jsonl --resume || fail "$(cat output)"
cmp whole interrupted || fail "the interrupted run has other bits"

# Averages of the parameters are evaluated and saved.
train "${held_out[@]}" --epochs=2 --save=plain || fail "$(cat output)"
grep "held-out accuracy" output > plain_scores
train "${held_out[@]}" --epochs=2 --ema=0.95 --save=averaged || fail "$(cat output)"
grep "held-out accuracy" output > averaged_scores
cmp -s plain_scores averaged_scores && fail "averages score like the parameters: $(cat plain_scores)"
cmp -s plain averaged && fail "averages are not saved"

# Early stopping.
train "${held_out[@]}" --epochs=50 --lr=1e-12 --early_stop=2 --min_delta=0.5 || fail "$(cat output)"
grep -q "^stopped early at step 60 of 1000" output || fail "$(cat output)"

# Two batches of 32 give the steps of a batch of 64 up to rounding, in all parameter groups. A limit of the gradients'
# norm changes the steps; one of their elements bounds the change of each parameter.
train_clipped() {
  "$cotan" train "$clipped" "${data[@]}" "${held_out[@]}" --threads=2 --epochs=2 --seed=3 --schedule='cosine()' "$@" \
    > output 2>&1 || fail "$(cat output)"
}
train_clipped --save=one_batch
sed -n 's/^step 40: .* accuracy \(0\.[0-9]*\).*/\1/p' output | awk '{ exit !($1 > 0.5) }' || fail "$(cat output)"
train_clipped --batch=32 --accumulate=2 --save=two_batches
train_clipped --clip_norm=0.01 --save=limited
"$cotan" run "$clipped" --method=eval --save=initial > output 2>&1 || fail "$(cat output)"
train_clipped --clip_value=1e-5 --save=limited_elements
python3 - <<'PYTHON' || fail "accumulated or limited steps"
import array
import json

def tensors(path):
  data = open(path, "rb").read()
  size = int.from_bytes(data[:8], "little")
  header = json.loads(data[8:8 + size])
  for name, entry in header.items():
    if name.endswith(("weight", "bias")) and not name.startswith(("optimizer", "gradient")):
      begin, end = entry["data_offsets"]
      yield name, array.array("f", data[8 + size + begin:8 + size + end])

def largest_difference(a, b):
  a, b = dict(tensors(a)), dict(tensors(b))
  assert len(a) == 4 and a.keys() == b.keys(), (a.keys(), b.keys())
  return max(abs(x - y) for name in a for x, y in zip(a[name], b[name]))

rounding, limited = largest_difference("one_batch", "two_batches"), largest_difference("one_batch", "limited")
print(f"accumulated steps differ by {rounding:.2e}, limited ones by {limited:.2e}")
assert rounding < 1e-4 < 1e-2 < limited

# 40 steps with a rate of 0.1 at most and momentum 0.9, which adds up to 10 times a gradient.
change, limited_change = largest_difference("initial", "one_batch"), largest_difference("initial", "limited_elements")
print(f"parameters change by {change:.2e}, with limited elements by {limited_change:.2e}")
assert 1e-6 < limited_change < 40 * 0.1 * 10 * 1e-5 < 1e-2 < change
PYTHON

# Accumulated and limited steps continue with the same bits, by a schedule that allows more epochs.
train_accumulated() {
  "$cotan" train "$clipped" "${data[@]}" "${held_out[@]}" --threads=2 --seed=3 --schedule='step(epochs=1,gamma=0.5)' \
    --batch=32 --accumulate=2 --clip_norm=0.5 --ema=0.9 "$@" > output 2>&1 || fail "$(cat output)"
}
train_accumulated --epochs=3 --checkpoint=three_epochs --log=three_epochs.jsonl
train_accumulated --epochs=1 --checkpoint=continued --log=continued.jsonl
cmp -s three_epochs continued && fail "one epoch has the states of three"
train_accumulated --epochs=3 --checkpoint=continued --log=continued.jsonl --resume
cmp three_epochs continued || fail "accumulated steps continue with other bits"
cmp <(without_seconds three_epochs.jsonl) <(without_seconds continued.jsonl) || fail "accumulated steps have another log"
awk -F'"lr":' '{ split($2, rate, ","); rates[NR] = rate[1] } END { exit !(rates[1] == 4 * rates[NR]) }' \
  <(grep '"event":"step"' three_epochs.jsonl) || fail "step: $(head -n 1 three_epochs.jsonl)"
python3 - <<'PYTHON' || fail "names of rates"
import json
data = open("three_epochs", "rb").read()
metadata = json.loads(data[8:8 + int.from_bytes(data[:8], "little")])["__metadata__"]
names = [name for name in metadata if name.startswith("cotan.training.lr")]
assert names == [f"cotan.training.lr of group {group}" for group in (1, 2, 3)], names
PYTHON

# CSV and safetensors files of the same digits give the same bits.
python3 - <<'PYTHON'
import json
images = open("train-images-idx3-ubyte", "rb").read()[16:]
labels = open("train-labels-idx1-ubyte", "rb").read()[8:]
with open("digits.csv", "w") as csv:
  csv.write("digit," + ",".join(f"p{i}" for i in range(784)) + "\n")
  for i, label in enumerate(labels):
    csv.write(f"{label}," + ",".join(str(pixel) for pixel in images[784 * i:784 * (i + 1)]) + "\n")
count = len(labels)
header = json.dumps({
    "pictures": {"dtype": "U8", "shape": [count, 1, 784], "data_offsets": [0, len(images)]},
    "digits": {"dtype": "U8", "shape": [count], "data_offsets": [len(images), len(images) + count]},
}).encode()
open("digits.safetensors", "wb").write(len(header).to_bytes(8, "little") + header + images + labels)
PYTHON
from_file() {
  "$cotan" train "$clipped" "$@" --mean=33.3 --deviation=78.6 --held_out=0.1 --epochs=2 > output 2>&1 ||
    fail "$(cat output)"
  grep "held-out accuracy" output
}
from_file "${data[@]:0:2}" --save=of_idx > scores_of_idx
from_file --data=digits.csv --targets=digit --save=of_csv > scores_of_csv
from_file --data=digits.safetensors --inputs=pictures --targets=digits --save=of_safetensors > scores_of_safetensors
for format in csv safetensors; do
  cmp of_idx "of_$format" || fail "$format gives other bits"
  cmp scores_of_idx "scores_of_$format" || fail "$format gives other scores"
done

# A folder of PNG and JPEG images, packed before and by `cotan train` itself: the same bits.
"$draw_pictures" train-images-idx3-ubyte train-labels-idx1-ubyte pictures || fail "cannot draw pictures"
"$cotan" pack pictures pictures.safetensors 1 > output || fail "cannot pack"
grep -q "^1280 images: inputs u8\[1280,1,28,28\]" output && grep -q "^class 9: digit9" output || fail "$(cat output)"
from_file --data=pictures.safetensors --targets=targets --save=of_packed > scores_of_packed
from_file --data=pictures --channels=1 --save=of_pictures > scores_of_pictures
grep -q "^class 9: digit9" output || fail "$(cat output)"
sed -n 's/^step 36: .* accuracy \(0\.[0-9]*\).*/\1/p' output | awk '{ exit !($1 > 0.5) }' || fail "$(cat output)"
cmp of_packed of_pictures || fail "a folder gives other bits than the file of it"
cmp scores_of_packed scores_of_pictures || fail "a folder gives other scores than the file of it"

# A second folder is held out. Its subfolders are the same classes.
"$draw_pictures" t10k-images-idx3-ubyte t10k-labels-idx1-ubyte held_out || fail "cannot draw pictures"
"$cotan" train "$clipped" --data=pictures --channels=1 --held_out=held_out > output 2>&1 || fail "$(cat output)"
grep -q "^1280 examples in batches of 64, 200 held out" output || fail "$(cat output)"
rm -r held_out/digit4
"$cotan" train "$clipped" --data=pictures --channels=1 --held_out=held_out > output 2>&1 && fail "took other classes"
grep -q "'held_out' has other subfolders than --data" output || fail "$(cat output)"
PATH=$path "$cotan" train "$clipped" --data=pictures > output 2>&1 && fail "trained without cotan-pack"
grep -q "needs the program cotan-pack beside cotan or in PATH" output || fail "$(cat output)"
"$cotan" train "$clipped" --data=. > output 2>&1 && fail "trained on a folder without images"
grep -q "has no images in subfolders" output || fail "$(cat output)"
"$cotan" pack . nothing.safetensors 2> output && fail "packed a folder without images"
grep -q "has no images in subfolders" output || fail "$(cat output)"

# Refusals name what is wrong.
refuses() {
  local expected=$1
  shift
  train "$@" && fail "accepted: $*"
  grep -qF -- "$expected" output || fail "'$expected' is not in: $(cat output)"
}
refuses "--early_stop needs --held_out" --early_stop=3
refuses "--resume needs --checkpoint" --resume
refuses "--epochs=0: expected an integer of at least 1" --epochs=0
refuses "--lr=0: expected a number" --lr=0
refuses "--schedule=line: there is no schedule 'line'" --schedule=line
refuses "--held_out=2: the held-out fraction is 2" --held_out=2
refuses "compile it with CompileOptions.methods.accumulate" --accumulate=2
refuses "compile it with OptimizerConfig.clip_norm" --clip_norm=1
refuses "compile it with OptimizerConfig.clip_value" --clip_value=1
refuses "batch = 65, but the program takes 1 to 64" --batch=65
refuses "'whole' is of a run with seed = 7; this one has seed = 1" "${held_out[@]}" --epochs=6 --checkpoint=whole --resume
refuses "no_such_file" --checkpoint=no_such_file --resume
refuses "unknown option --epoch" --epoch=3
head -c 5000 train-images-idx3-ubyte > cut-images-idx3-ubyte
"$cotan" train "$digits" --data=cut-images-idx3-ubyte --targets=train-labels-idx1-ubyte > output 2>&1 &&
  fail "accepted a cut file"
grep -q "cut-images-idx3-ubyte, offset 4: the header says u8\[1280,28,28\]" output || fail "$(cat output)"
"$cotan" train --help | grep -q -- "--early_stop" || fail "no help"
