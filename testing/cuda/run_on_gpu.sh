#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Tests and measures the CUDA backend on a machine with a GPU that has no build tools.
#
#   run_on_gpu.sh --pack=DIR [--limit=MIB]
#       On a build machine with the CUDA toolkit: builds, and makes the folder DIR, of at most MIB MiB (default 60).
#   DIR/run_on_gpu.sh --there --out=DIR2 [--stages=suite,compare,sanitizer,bench,timeline] [--minutes=N] [--libraries=DIR3]
#                             [--device=cuda_sim] [--bench=OPTIONS]
#       On the machine with the GPU: runs the stages, and writes report.md and report.json with the date, the GPU and
#       its driver, results.jsonl (a line per check), bench.jsonl (a line per measurement), log.txt (all output),
#       timeline.txt (kernels of a step of each model) and outputs.tar.gz (kernels' outputs) to DIR2. Checks run side by
#       side, as many as there are processors; measurements follow alone. After N minutes (default 9) it begins nothing
#       more. Exit status 1: a check failed; it goes on after one.
#       OPTIONS are for peers.py, as "--precisions=f32 --models=mlp,gpt": all models, precisions and modes take longer
#       than 9 minutes.
#       --device=cuda_sim rehearses all but `cotan`, the sanitizer, timelines and PyTorch's part of bench without a GPU,
#       and of the artifacts only the small ones.
#       cuBLASLt, cuDNN, NVRTC, NCCL and CUPTI are taken from the folders below DIR3; by default from the wheels beside
#       the PyTorch of `python3`.
#
# suite      the vendor's tables; tests of the device, of sessions and of faults; `cotan` verify, run and bench of the
#            six models, verify of the conformance corpus; exported models against PyTorch's values;
#            //examples/digits:train against the CPU; every kernel against the reference; losses of 10 steps of every
#            artifact against the CPU's; a group of one rank over NCCL
# compare    outputs of every kernel against those of the simulated GPU, bit by bit
# sanitizer  every kernel under compute-sanitizer's memcheck; racecheck, initcheck and synccheck without library calls
# bench      steps against PyTorch's, in turns (peers.py); PyTorch compiles the first of them beside the checks
# timeline   the kernels of a step of every artifact (kernel_timeline.cc)
set -uo pipefail

pack= there=false out= stages=suite,compare,sanitizer,bench,timeline minutes=9 limit=60 libraries= device=cuda
bench_options= peers=
for argument in "$@"; do
  case $argument in
    --pack=*) pack=${argument#*=} ;;
    --there) there=true ;;
    --out=*) out=${argument#*=} ;;
    --stages=*) stages=${argument#*=} ;;
    --minutes=*) minutes=${argument#*=} ;;
    --limit=*) limit=${argument#*=} ;;
    --bench=*) bench_options=${argument#*=} ;;
    --device=*) device=${argument#*=} ;;
    --libraries=*) libraries=${argument#*=} ;;
    *) echo "run_on_gpu.sh: unknown argument $argument; see the head of the file" >&2; exit 2 ;;
  esac
done

MODELS="mlp cnn gpt resnet lstm gru resnet128 gpt512"
REHEARSED="mlp cnn lstm gru"  # the interpreter takes minutes for the others
RECORDED="mlp_f32 cnn_f32 gpt_f32 resnet_f32 lstm_f32 gru_f32"
EXPORTED="conv_autoencoder_dyn dlrm dropout_cnn hf_bert_dyn lenet5 lstm_text_dyn mlp tv_shufflenet_v2 tv_vit unet"
EXPORTED_REHEARSED="dlrm lenet5 mlp"
# They run on the device that COTAN_TEST_DEVICE names.
DEVICE_TESTS="kernels/cuda/device/cuda_device_test testing/cuda/session_test testing/cuda/session_faults_test"
TABLE_TESTS="driver/driver_table_test cublaslt/cublaslt_table_test cudnn/cudnn_table_test nvrtc/nvrtc_table_test"

# ---------------------------------------------------------------- on the build machine

pack() {
  set -e
  local root stage binaries=() tests=()
  pack=$(realpath -m "$pack")
  root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
  cd "$root"
  for test in $TABLE_TESTS; do
    tests+=("//kernels/cuda/${test%/*}:${test#*/}")
    binaries+=("kernels/cuda/$test")
  done
  for test in $DEVICE_TESTS; do
    tests+=("//${test%/*}:${test##*/}")
    binaries+=("$test")
  done
  ./bazelw build //testing/cuda:kernel_outputs //testing/cuda:bench //testing/cuda:bench_artifacts \
    //testing/cuda:libkernel_timeline.so //runtime/tools:cotan //testing/cuda:digits_train //examples/digits \
    //examples/data_parallel:digits_parallel //testing/models:check_compiled //testing/cuda:exported_artifacts \
    //testing/conformance/corpus:aotautograd_recorded "${tests[@]}"
  binaries+=(testing/cuda/kernel_outputs testing/cuda/bench testing/cuda/libkernel_timeline.so runtime/tools/cotan
    testing/cuda/digits_train testing/models/check_compiled)

  stage=$(mktemp -d)
  mkdir -p "$stage"/{bin,lib,artifacts,exported,golden,corpus,examples/data_parallel}
  for binary in "${binaries[@]}"; do strip -o "$stage/bin/${binary##*/}" "bazel-bin/$binary"; done
  cp bazel-bin/testing/cuda/bench_artifacts/*.cotan bazel-bin/examples/digits/digits.cotan "$stage/artifacts/"
  cp bazel-bin/examples/data_parallel/digits_parallel.cotan "$stage/examples/data_parallel/"
  tar -C "$stage/corpus" -xf bazel-bin/testing/conformance/corpus/aotautograd_recorded.tar
  local model
  for model in $EXPORTED; do
    cp "bazel-bin/testing/cuda/exported_models/$model.cotan" "$stage/exported/"
    cp "testing/models/data/$model".{json,safetensors} "$stage/golden/"
  done
  # Shared libraries that another system may lack; those of the C++ compiler are everywhere.
  ldd "$stage/bin/kernel_outputs" | awk '/^\tlib(dnnl|gomp|OpenCL)/ { print $1, $3 }' | while read -r name file; do
    strip --strip-unneeded -o "$stage/lib/$name" "$(readlink -f "$file")"
  done
  cp testing/cuda/{peers,gpu_report,kernel_timeline}.py testing/bench/peer_models.py "$stage/"
  git describe --always --dirty > "$stage/version.txt" 2> /dev/null || echo unknown > "$stage/version.txt"
  chmod -R u+w "$stage"
  mkdir -p "$pack"
  # The window of 64 MiB finds the weights that artifacts have in common.
  tar -C "$stage" --sort=name -c . | xz --lzma2=preset=6,dict=64MiB > "$pack/package.tar.xz"
  rm -rf "$stage"
  cp testing/cuda/run_on_gpu.sh "$pack/"
  local size; size=$(du -sm --apparent-size "$pack" | cut -f1)
  echo "$pack: $size MiB; there: bash run_on_gpu.sh --there --out=DIR"
  if ((size > limit)); then echo "run_on_gpu.sh: more than $limit MiB" >&2; exit 1; fi
}

# ---------------------------------------------------------------- on the machine with the GPU

# Prints the folders with the vendor's libraries and this package's, separated by colons.
library_path() {
  local roots=("$libraries")
  if [[ -z $libraries ]]; then
    mapfile -t roots < <(python3 -c 'import site, sysconfig
for path in {sysconfig.get_paths()["purelib"], *site.getsitepackages()}: print(path + "/nvidia")')
    roots+=(/opt/torch/.venv/lib/python*/site-packages/nvidia /usr/local/cuda/lib64)
  fi
  local folders=("$package/lib")
  for name in libcublasLt.so.13 libcudnn.so.9 libnvrtc.so.13 libnccl.so.2 libcupti.so.13; do
    local found; found=$(find -L "${roots[@]}" -name "$name" 2> /dev/null | head -1)
    if [[ -n $found ]]; then folders+=("$(dirname "$found")"); else echo "run_on_gpu.sh: found no $name" >&2; fi
  done
  printf '%s\n' "${folders[@]}" | awk '!seen[$0]++' | paste -sd:
}

seconds_left() { echo $((deadline - SECONDS)); }

# usage: check NAME COMMAND...
# Runs a command with Cotan's libraries, and appends its output to log.txt and its result to results.jsonl.
check() {
  local name=$1; shift
  local left; left=$(seconds_left)
  if ((left <= 5)); then
    echo "{\"check\": \"$name\", \"result\": \"not run: out of time\"}" >> "$out/results.jsonl"
    return
  fi
  local begin=$SECONDS status=0 output; output=$(mktemp -p "$work")
  LD_LIBRARY_PATH=$cotan_path timeout "$left" "$@" > "$output" 2>&1 || status=$?
  local result=pass
  if ((status == 124)); then result="out of time"; elif ((status != 0)); then result="FAIL ($status)"; fi
  # One write each, since checks run side by side.
  local text; text="$name: $result"
  if ((status != 0)); then text+=$'\n'$(tail -8 "$output"); fi
  echo "$text"
  { echo "=== $name: $*"; cat "$output"; } > "$output.log"
  cat "$output.log" >> "$out/log.txt"
  python3 "$package/gpu_report.py" note "$out/results.jsonl" "$name" "$result" $((SECONDS - begin)) "$output"
  rm -f "$output" "$output.log"
}

# usage: start COMMAND...
# Runs a command beside others, at most as many as there are processors.
start() {
  while (($(running | wc -l) >= processors)); do wait -n || true; done
  "$@" &
}

# Prints the processes that start() began and that still run.
running() { jobs -rp | grep -vx "${peers:-none}"; }

wait_for_checks() {
  local process
  for process in $(running); do wait "$process"; done
}

suite() {
  local test model models=$MODELS exported=$EXPORTED
  if [[ $device != cuda ]]; then models=$REHEARSED exported=$EXPORTED_REHEARSED; fi
  for test in $TABLE_TESTS; do start check "table ${test##*/}" "$package/bin/${test##*/}"; done
  for test in $DEVICE_TESTS; do
    # In the folder that holds the tests' data.
    start check "test ${test##*/}" env -C "$package" TEST_TMPDIR="$(mktemp -d -p "$work")" \
      COTAN_TEST_DEVICE="$device" "bin/${test##*/}"
  done
  if [[ $device == cuda ]]; then cotan_commands; fi  # the tool knows no simulated GPU
  for model in $exported; do
    start check "exported $model" "$package/bin/check_compiled" --golden="$package/golden" --device="$device" \
      "$package/exported/$model.cotan"
  done
  start check "digits" bash -c 'digits'
  start check "kernels against reference" "$package/bin/kernel_outputs" --device="$device"
  for model in $models; do
    start check "losses ${model}_f32" bash -c 'losses "$@"' losses "$model" f32 8e-3  # as kModelDrift
    start check "losses ${model}_bf16" bash -c 'losses "$@"' losses "$model" bf16 6e-2  # as kAutocastGradient
  done
  start check "saved values on the host" bash -c 'host_losses'
  start check "group of one rank" bash -c 'group_losses'
}

cotan_commands() {
  local model
  for model in $RECORDED; do
    local artifact=$package/artifacts/$model.cotan
    start check "cotan verify $model" "$package/bin/cotan" verify "$artifact" --device=cuda
    start check "cotan run $model" bash -c 'run_on_both "$@"' run_on_both "$model"
    start check "cotan bench $model" "$package/bin/cotan" bench "$artifact" --method=train_step --steps=20 --device=cuda
  done
  start check "cotan verify of the conformance corpus" bash -c 'verify_corpus'
}

# Repeats the recorded runs of every program of the corpus. Run by check(), as losses().
verify_corpus() {
  printf '%s\n' "$package"/corpus/*.cotan | xargs -P 4 -I{} bash -c 'verify_program "$1"' verify_program {} || return 1
  echo "$(ls "$package/corpus" | wc -l) programs give the recorded results"
}

# usage: verify_program ARTIFACT
verify_program() {
  local output
  if output=$("$package/bin/cotan" verify "$1" --device=cuda 2>&1); then return 0; fi
  echo "${1##*/}: $(grep -v '^ok ' <<< "$output")"
  return 1
}

# usage: run_on_both MODEL
# Takes steps on the GPU with the tool, and goes on from their checkpoint on the CPU. Run by check(), as losses().
run_on_both() {
  local artifact=$package/artifacts/$1.cotan checkpoint=$work/run_$1.safetensors
  "$package/bin/cotan" run "$artifact" --steps=2 --device=cuda --save="$checkpoint" || return 1
  "$package/bin/cotan" run "$artifact" --steps=1 --threads=1 --checkpoint="$checkpoint"
}

# Trains the example program for an epoch on both devices, compares the losses, and goes on with the checkpoint of the
# other one. Run by check(), as losses().
digits() {
  local images=1280 side
  if [[ $device != cuda ]]; then images=64; fi
  train_digits() {
    "$package/bin/digits_train" --artifact="$package/artifacts/digits.cotan" --train_images=$images \
      --held_out_images=64 --threads=1 "$@"
  }
  for side in "$device" cpu; do
    train_digits --epochs=1 --device="$side" --checkpoint="$work/digits_$side" > "$work/digits_$side.txt" || return 1
    sed -n 's/^epoch 1 .*loss \([0-9.]*\).*/{"losses": [\1]}/p' "$work/digits_$side.txt" > "$work/digits_$side.json"
  done
  train_digits --epochs=2 --device=cpu --checkpoint="$work/digits_$device" --resume || return 1
  train_digits --epochs=2 --device="$device" --checkpoint="$work/digits_cpu" --resume || return 1
  python3 "$package/gpu_report.py" losses "$work/digits_$device.json" "$work/digits_cpu.json" 8e-3  # as kModelDrift
}

# Compares the losses of a model whose saved values wait on the host with those of the same model without it: they have
# the same bits. Run by check(), as losses().
host_losses() {
  local artifact
  for artifact in mlp_f32 mlp_f32_host; do
    "$package/bin/bench" --artifact="$package/artifacts/$artifact.cotan" --device="$device" --inputs=resident \
      --steps=1 > "$work/host_losses_$artifact.json" || return 1
  done
  python3 "$package/gpu_report.py" losses "$work/host_losses_mlp_f32_host.json" "$work/host_losses_mlp_f32.json" 0
}

# Compares the losses of a program that averages gradients, in a group of one rank, whose data NCCL sends, with those on
# the CPU. Run by check(), as losses().
group_losses() {
  local side steps=10
  if [[ $device != cuda ]]; then steps=2; fi
  for side in "$device" cpu; do
    "$package/bin/bench" --artifact="$package/examples/data_parallel/digits_parallel.cotan" --device="$side" --group \
      --inputs=resident --steps=1 --warmup=$steps > "$work/group_losses_$side.json" || return 1
  done
  python3 "$package/gpu_report.py" losses "$work/group_losses_$device.json" "$work/group_losses_cpu.json" 8e-3
}

# usage: losses MODEL PRECISION TOLERANCE
# Compares the losses of 10 steps with those on the CPU. Run by check() in a shell of its own.
losses() {
  local side
  for side in "$device" cpu; do
    "$package/bin/bench" --artifact="$package/artifacts/$1_$2.cotan" --device="$side" --inputs=resident --steps=1 \
      --max_index="$(max_index "$1")" > "$work/losses_$1_$2_$side.json" || return 1
  done
  python3 "$package/gpu_report.py" losses "$work/losses_$1_$2_$device.json" "$work/losses_$1_$2_cpu.json" "$3"
}

# Prints the number of classes of a model's inputs and labels.
max_index() {
  case $1 in
    gpt*) echo 512 ;;
    lstm | gru) echo 64 ;;
    *) echo 10 ;;
  esac
}

compare() { start compare_outputs; }

compare_outputs() {
  check "kernels on the simulated GPU" "$package/bin/kernel_outputs" --device=cuda_sim --out="$work/sim.bin" &
  check "kernels on the GPU" "$package/bin/kernel_outputs" --device="$device" --out="$work/gpu.bin"
  wait
  check "bits of GPU and simulated GPU" "$package/bin/kernel_outputs" --compare="$work/gpu.bin,$work/sim.bin"
  local outputs; outputs=$(cd "$work" && ls gpu.bin sim.bin 2> /dev/null)
  if [[ -n $outputs ]]; then tar -C "$work" -czf "$out/outputs.tar.gz" $outputs; fi
}

sanitizer() {
  if [[ $device != cuda ]]; then return; fi
  local tool; tool=$(command -v compute-sanitizer || echo /usr/local/cuda/bin/compute-sanitizer)
  if [[ ! -x $tool ]]; then
    echo '{"check": "compute-sanitizer", "result": "not run: not installed"}' >> "$out/results.jsonl"
    return
  fi
  # Reports of the vendor's libraries would not say anything about these kernels: cuDNN computes convolutions of halves,
  # and attention without a mask.
  local own=--skip=convolution/f16,convolution/bf16 op dtype
  for op in convolution_backward_input convolution_backward_weight; do own+=,$op/f16,$op/bf16; done
  for op in attention attention_backward; do
    for dtype in f16 bf16; do own+=,$op/$dtype/plain,$op/$dtype/causal; done
  done
  start check "memcheck" "$tool" --tool memcheck --error-exitcode 9 "$package/bin/kernel_outputs" --device=cuda
  start check "leaks" "$tool" --tool memcheck --leak-check full --error-exitcode 9 \
    "$package/bin/kernel_outputs" --device=cuda --only=copy/f32,expr/f32,sort/f32
  for kind in racecheck initcheck synccheck; do
    start check "$kind" "$tool" --tool $kind --error-exitcode 9 "$package/bin/kernel_outputs" --device=cuda $own
  done
  for model in mlp cnn gpt lstm; do
    start check "memcheck $model" "$tool" --tool memcheck --error-exitcode 9 "$package/bin/bench" \
      --artifact="$package/artifacts/${model}_f32.cotan" --device=cuda --steps=3 --warmup=2 --inputs=resident,host
  done
}

# Starts the measurements of steps; they wait for the end of the checks, beside which PyTorch compiles.
start_bench() {
  if [[ $device != cuda || ,$stages, != *,bench,* ]]; then return; fi
  # PyTorch finds its own libraries; Cotan's path is for its benchmark only.
  timeout "$(seconds_left)" python3 "$package/peers.py" --cotan_bench="$package/bin/bench" \
    --artifacts="$package/artifacts" --cotan_library_path="$cotan_path" --budget=$(($(seconds_left) - 15)) \
    --wait_for="$work/checked" $bench_options > "$out/bench.jsonl" 2>> "$out/log.txt" &
  peers=$!
}

bench() {
  if [[ $device != cuda ]]; then
    for model in mlp gru; do
      LD_LIBRARY_PATH=$cotan_path "$package/bin/bench" --artifact="$package/artifacts/${model}_f32.cotan" \
        --device="$device" --steps=2 --warmup=2 >> "$out/bench.jsonl" 2>> "$out/log.txt" || failed=1
    done
    return
  fi
  touch "$work/checked"
  wait "$peers" || { echo "bench: see log.txt"; failed=1; }
}

timeline() {
  if [[ $device != cuda ]]; then return; fi
  local files=() model precision
  for precision in f32 bf16; do
    for model in $MODELS; do
      if (($(seconds_left) <= 10)); then break; fi
      COTAN_TIMELINE=$work/${model}_$precision.timeline CUDA_INJECTION64_PATH=$package/bin/libkernel_timeline.so \
        LD_LIBRARY_PATH=$cotan_path "$package/bin/bench" --artifact="$package/artifacts/${model}_$precision.cotan" \
        --device=cuda --inputs=resident --steps=20 --warmup=3 --max_index="$(max_index "$model")" \
        >> "$out/log.txt" 2>&1 || failed=1
      files+=("${model}_$precision.timeline")
    done
  done
  if ((${#files[@]} > 0)); then
    (cd "$work" && python3 "$package/kernel_timeline.py" "${files[@]}") > "$out/timeline.txt" || failed=1
  fi
}

there() {
  local here; here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
  mkdir -p "$out"
  out=$(cd "$out" && pwd)
  rm -f "$out"/{results.jsonl,bench.jsonl,log.txt,timeline.txt,outputs.tar.gz,report.md,report.json}
  package=$(mktemp -d) work=$(mktemp -d) failed=0 deadline=$((minutes * 60))
  # Python unpacks without xz.
  python3 -c 'import sys, tarfile; tarfile.open(sys.argv[1]).extractall(sys.argv[2])' \
    "$here/package.tar.xz" "$package" || exit 1
  cotan_path=$(library_path)
  processors=$(nproc)  # which obeys OMP_NUM_THREADS
  # Checks side by side would otherwise have more threads than there are processors, many times over.
  export OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive TORCHINDUCTOR_COMPILE_THREADS=1
  export package work device
  export -f losses max_index digits host_losses group_losses run_on_both verify_corpus verify_program
  python3 "$package/gpu_report.py" machine "$out/machine.json" "$package/version.txt" "$cotan_path" "$device"
  for stage in ${stages//,/ }; do
    case $stage in
      suite | compare | sanitizer | bench | timeline) ;;
      *) echo "run_on_gpu.sh: unknown stage $stage" >&2; exit 2 ;;
    esac
  done
  start_bench
  for stage in suite compare sanitizer; do if [[ ,$stages, == *,$stage,* ]]; then $stage; fi; done
  wait_for_checks
  for stage in bench timeline; do if [[ ,$stages, == *,$stage,* ]]; then $stage; fi; done
  if grep -q '"result": "\(FAIL\|out of time\)' "$out/results.jsonl" 2> /dev/null; then failed=1; fi
  python3 "$package/gpu_report.py" report "$out"
  rm -rf "$work" "$package"
  exit $failed
}

if $there; then
  if [[ -z $out ]]; then echo "run_on_gpu.sh: --out is missing" >&2; exit 2; fi
  there
elif [[ -n $pack ]]; then
  pack
else
  sed -n '3,35s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
  exit 2
fi
