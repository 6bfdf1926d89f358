#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Tests the command line of the compile tool: what it lists, writes and rejects.
set -euo pipefail
compile="$1"        # with registered models
archive_tool="$2"   # //aot:compile, without
artifact="$3"       # made by cotan_program()
archive="$4"        # mlp.pt2
cotan="$5"          # the device's tool
decompositions="$6" # with a model for the CPU only

fail() { echo "FAIL: $1" >&2; exit 1; }

# The artifact of the build rule is a .cotan file, and the tool writes the same.
[ "$(head -c 6 "$artifact" | tail -c 5)" = COTAN ] || fail "cotan_program did not write a .cotan file"
"$compile" --model=binary --out="$TEST_TMPDIR/binary.cotan" --optimizer='sgd(lr=0.1)' > "$TEST_TMPDIR/summary"
cmp "$artifact" "$TEST_TMPDIR/binary.cotan" || fail "the same model gives other bytes"
grep -q '^  train_step ' "$TEST_TMPDIR/summary" || fail "the summary lacks a method"

grep -qx "cotan [0-9.]*" <("$compile" --version) || fail "--version does not print the version"
"$compile" --list > "$TEST_TMPDIR/list"
grep -q '^mlp ' "$TEST_TMPDIR/list" || fail "--list lacks a model"

# refuses TEXT ARGUMENTS...: expects exit code 1, TEXT in the error, and no output file.
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
refuses "there is no partitioner 'max_cut'; there are default and min_cut" --model=binary --partitioner=max_cut
refuses "activation_memory_budget is 1.5, but must be a number from 0 to 1" --model=binary --activation_memory_budget=1.5
refuses "activation_memory_budget is nan, but must be" --model=binary --activation_memory_budget=nan
refuses "find_blocks=all: known are on, auto and off" --model=binary --find_blocks=all
refuses "only the partitioner min_cut can save less" --model=binary --partitioner=default --activation_memory_budget=0.5
refuses "there is no optimizer 'lion'" --model=binary --optimizer=lion
refuses "the frozen pattern 'x*' matches no parameter" --model=binary --freeze='x*'

# An exported model. The tool without registered models writes the same.
[ -z "$("$archive_tool" --list)" ] || fail "//aot:compile has registered models"
"$archive_tool" --model=mlp --out="$TEST_TMPDIR/refused.cotan" 2> "$TEST_TMPDIR/error" && fail "there is a model 'mlp'"
grep -q "this tool has no registered models" "$TEST_TMPDIR/error" || fail "$(cat "$TEST_TMPDIR/error")"
"$archive_tool" --model="$archive" --out="$TEST_TMPDIR/other.cotan" --loss=output:0 --optimizer='sgd(lr=0.1)' \
  --freeze='net.1.*' > /dev/null 2> /dev/null
"$compile" --model="$archive" --out="$TEST_TMPDIR/archive.cotan" --loss=output:0 --optimizer='sgd(lr=0.1)' \
  --freeze='net.1.*' > "$TEST_TMPDIR/summary" 2> "$TEST_TMPDIR/progress"
cmp "$TEST_TMPDIR/archive.cotan" "$TEST_TMPDIR/other.cotan" || fail "the two tools give other bytes"
"$compile" --model="$archive" --out="$TEST_TMPDIR/blocks.cotan" --loss=output:0 --optimizer='sgd(lr=0.1)' \
  --freeze='net.1.*' --find_blocks=on > /dev/null 2> /dev/null
cmp "$TEST_TMPDIR/archive.cotan" "$TEST_TMPDIR/blocks.cotan" || fail "no module repeats, but the bytes differ"
grep -q '52650 parameters (2410 trained)' "$TEST_TMPDIR/summary" || fail "the summary lacks the parameters"
grep -q '^  train_step .* ops' "$TEST_TMPDIR/summary" || fail "the summary lacks train_step"
grep -q 'saved for the backward' "$TEST_TMPDIR/summary" || fail "the summary lacks what is saved"
grep -q '^compiling' "$TEST_TMPDIR/progress" || fail "no progress is shown"
"$compile" --model="$archive" --out="$TEST_TMPDIR/forward.cotan" > "$TEST_TMPDIR/summary" 2> /dev/null
grep -q '^  backward ' "$TEST_TMPDIR/summary" || fail "without a loss there are forward and backward"
"$compile" --model="$archive" --out="$TEST_TMPDIR/labels.cotan" --loss='cross_entropy(output:1,label)' \
  --optimizer=adam > "$TEST_TMPDIR/summary" 2> /dev/null
grep -q '^  train_step ' "$TEST_TMPDIR/summary" || fail "a loss function gives no train_step"
refuses "needs both --loss" --model="$archive" --optimizer=adam
refuses "the model has 2 outputs" --model="$archive" --loss=output:2 --optimizer=adam
refuses "is not understood" --model="$archive" --loss=focal --optimizer=adam
"$compile" --model="$archive" --out="$TEST_TMPDIR/half.cotan" --precision=bf16 --max-memory=64MiB > "$TEST_TMPDIR/half"
grep -q '^  backward .*, peak ' "$TEST_TMPDIR/half" || fail "no program of bf16"
"$compile" --model=gpt --out="$TEST_TMPDIR/gpt.cotan" --max-memory=14MiB > "$TEST_TMPDIR/limited" 2> /dev/null
grep -q '^  train_step .*, peak 1[0-4].*MiB instead of .* MiB, [0-9]* ops recomputed' "$TEST_TMPDIR/limited" ||
  fail "the summary lacks the effect of --max-memory: $(cat "$TEST_TMPDIR/limited")"
"$compile" --model="$archive" --out="$TEST_TMPDIR/scaled.cotan" --loss=output:0 --optimizer=adam --precision=f16 \
  --loss_scaling --cache_dir="$TEST_TMPDIR/cache" > "$TEST_TMPDIR/first" 2> /dev/null
grep -q '^  cache: miss' "$TEST_TMPDIR/first" || fail "the first compile is not a miss"
"$compile" --model="$archive" --out="$TEST_TMPDIR/again.cotan" --loss=output:0 --optimizer=adam --precision=f16 \
  --loss_scaling --cache_dir="$TEST_TMPDIR/cache" > "$TEST_TMPDIR/second" 2> /dev/null
grep -q '^  cache: hit' "$TEST_TMPDIR/second" || fail "the second compile is not a hit"
cmp "$TEST_TMPDIR/scaled.cotan" "$TEST_TMPDIR/again.cotan" || fail "a hit has other bytes"
refuses "loss_scaling needs an optimizer" --model="$archive" --loss_scaling
refuses "there is no precision 'int8'" --model="$archive" --precision=int8
refuses "the limit of 1.0 KiB cannot be kept" --model="$archive" --max-memory=1KiB
refuses "is not a memory size" --model="$archive" --max-memory=lots
refuses "input.0:0=batch[1:64]" --model="$archive" --dynamic='batch'
refuses "no_such.pt2" --model=no_such.pt2
refuses "are for .pt2 models" --model=binary --loss=output:0

# A backward that can be differentiated, and one whose values are packed. The device checks what was recorded of both,
# and names the rest.
"$compile" --model="$archive" --out="$TEST_TMPDIR/ordered.cotan" --order=2 > "$TEST_TMPDIR/summary" 2> /dev/null
for method in forward backward backward.forward backward.backward; do
  grep -q "^  $method " "$TEST_TMPDIR/summary" || fail "--order=2 gives no method $method"
done
"$cotan" inspect "$TEST_TMPDIR/ordered.cotan" > "$TEST_TMPDIR/inspected"
grep -q '^  differentiable backward: backward.forward$' "$TEST_TMPDIR/inspected" || fail "forward has no second order"
"$cotan" verify "$TEST_TMPDIR/ordered.cotan" > "$TEST_TMPDIR/verified" || fail "$(cat "$TEST_TMPDIR/verified")"
for method in forward backward backward.forward backward.backward; do
  grep -q "^ok   $method result " "$TEST_TMPDIR/verified" || fail "verify does not check $method of order 2"
done
! grep -q '^not checked' "$TEST_TMPDIR/verified" || fail "$(cat "$TEST_TMPDIR/verified")"
"$compile" --model="$archive" --out="$TEST_TMPDIR/plain.cotan" > "$TEST_TMPDIR/summary" 2> /dev/null
! grep -q 'backward.forward' "$TEST_TMPDIR/summary" || fail "without --order the backward can be differentiated"
refuses "order is 5; it has to be 1 to 4" --model="$archive" --order=5
refuses "order is -1; it has to be 1 to 4" --model="$archive" --order=-1
"$compile" --model="$archive" --out="$TEST_TMPDIR/packed.cotan" --order=2 --saved_tensor_hooks=bf16:all \
  > /dev/null 2> /dev/null
"$cotan" verify "$TEST_TMPDIR/packed.cotan" > "$TEST_TMPDIR/verified" || fail "$(cat "$TEST_TMPDIR/verified")"
grep -q '^ok   backward.forward result ' "$TEST_TMPDIR/verified" || fail "gradients of order 2 are not checked"
for method in backward backward.backward; do
  grep -q "^not checked: $method, of which no run is recorded$" "$TEST_TMPDIR/verified" ||
    fail "verify does not say that it skips $method: $(cat "$TEST_TMPDIR/verified")"
done

# Adapters of an archive: the device checks their first step, trains them, and writes them with the names of PEFT.
"$compile" --model="$archive" --out="$TEST_TMPDIR/lora.cotan" --loss=output:0 --optimizer='sgd(lr=0.1)' \
  --lora='*.1,*.3,net.5:r=4,alpha=8' > "$TEST_TMPDIR/summary" 2> /dev/null
grep -q '56594 parameters (3944 trained)' "$TEST_TMPDIR/summary" || fail "$(cat "$TEST_TMPDIR/summary")"
"$cotan" verify "$TEST_TMPDIR/lora.cotan" > "$TEST_TMPDIR/verified" || fail "$(cat "$TEST_TMPDIR/verified")"
grep -q '^ok   train_step ' "$TEST_TMPDIR/verified" || fail "verify does not check train_step with adapters"
"$cotan" run "$TEST_TMPDIR/lora.cotan" --method=train_step --steps=2 --save="$TEST_TMPDIR/tuned" > /dev/null
mkdir "$TEST_TMPDIR/new" "$TEST_TMPDIR/trained"
"$cotan" adapters "$TEST_TMPDIR/lora.cotan" --out="$TEST_TMPDIR/new" || fail "cannot write adapters"
"$cotan" adapters "$TEST_TMPDIR/lora.cotan" --checkpoint="$TEST_TMPDIR/tuned" --out="$TEST_TMPDIR/trained" ||
  fail "cannot write trained adapters"
diff <(grep -aoE 'base_model[a-zA-Z0-9_.]*' "$TEST_TMPDIR/trained/adapter_model.safetensors" | sort) \
  <(printf 'base_model.model.net.%d.lora_%s.weight\n' 1 A 1 B 3 A 3 B 5 A 5 B) || fail "these are not the names of PEFT"
cmp -s "$TEST_TMPDIR/new/adapter_model.safetensors" "$TEST_TMPDIR/trained/adapter_model.safetensors" &&
  fail "the adapters are not trained"
for field in '"r": 4,' '"lora_alpha": 8,' '"target_modules": ["net.1", "net.3", "net.5"],'; do
  grep -qF "$field" "$TEST_TMPDIR/trained/adapter_config.json" || fail "$(cat "$TEST_TMPDIR/trained/adapter_config.json")"
done
refuses "the pattern 'k_proj' matches no layer" --model="$archive" --lora='k_proj:r=4'

status=0
"$compile" --model=binary 2> "$TEST_TMPDIR/error" || status=$?
[ "$status" = 1 ] || fail "exit code $status without --out"

# Kernels for GPUs are added where the toolkit can compile them; the rest of the file stays.
refuses "known are cpu and cuda" --model=binary --target=tpu
refuses "write sm_90" --model=binary --cuda_arch=gfx90a
"$compile" --model=binary --out="$TEST_TMPDIR/checked.cotan" --optimizer='sgd(lr=0.1)' --target=cuda > /dev/null
cmp "$artifact" "$TEST_TMPDIR/checked.cotan" || fail "--target=cuda changes the artifact"
"$decompositions" --out="$TEST_TMPDIR/on_cpu.cotan" > /dev/null 2> "$TEST_TMPDIR/error" ||
  fail "the CPU refuses decompositions: $(cat "$TEST_TMPDIR/error")"
status=0
"$decompositions" --out="$TEST_TMPDIR/refused.cotan" --target=cuda > /dev/null 2> "$TEST_TMPDIR/error" || status=$?
[ "$status" = 1 ] || fail "exit code $status for a model without CUDA kernels"
for op in eigh cholesky; do
  grep -q "method 'forward', op [0-9]* from .*$op" "$TEST_TMPDIR/error" ||
    fail "--target=cuda does not name $op: $(cat "$TEST_TMPDIR/error")"
done
[ ! -e "$TEST_TMPDIR/refused.cotan" ] || fail "a file is left of a model without CUDA kernels"
if "$compile" --model=binary --out="$TEST_TMPDIR/gpu.cotan" --optimizer='sgd(lr=0.1)' --cuda_arch=sm_90 \
  > /dev/null 2> "$TEST_TMPDIR/error"; then
  (($(stat -c %s "$TEST_TMPDIR/gpu.cotan") > $(stat -c %s "$artifact"))) || fail "--cuda_arch adds no kernels"
else
  grep -q "Install NVRTC" "$TEST_TMPDIR/error" || fail "$(cat "$TEST_TMPDIR/error")"
fi
