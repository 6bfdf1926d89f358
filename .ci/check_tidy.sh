#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs clang-tidy on the C++ sources that changed since a commit, within a limit of time. Prints what the
# checks of .clang-tidy's WarningsAsErrors find, and exits with 1 if they find anything.
#
#   .ci/check_tidy.sh [BASE] [SECONDS]     BASE: HEAD~1 unless given; SECONDS: 240 unless given
#
# Needs a built tree: it reads generated headers below bazel-bin. Files that include LibTorch take a minute
# each, so that they come last; the files that the limit did not reach are counted and printed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
base=${1:-HEAD~1}
limit=${2:-240}
git rev-parse --verify --quiet "$base" > /dev/null || { echo "clang-tidy: no commit $base to compare with; skipped"; exit 0; }
mapfile -t changed < <(git diff --name-only --diff-filter=AM "$base" -- '*.cc' ':!third_party' ':!*.cu.cc' ':!kernels/cuda')
plain=()
torch=()
for file in "${changed[@]}"; do
  case $file in
    aot/capture/* | aot/decompositions/* | aot/aotautograd/* | aot/frontend/* | aot/*.cc | testing/* | examples/*) torch+=("$file") ;;
    *) plain+=("$file") ;;
  esac
done
external=$(./bazelw info output_base 2> /dev/null)/external
flags=(-x c++ -std=c++20 -I. -isystem bazel-bin -fopenmp)
for folder in "$external"/*/include "$external"/libtorch/include/torch/csrc/api/include; do
  flags+=(-isystem "$folder")
done
status=0
left=0
unparsed=0
start=$SECONDS
for file in "${plain[@]}" "${torch[@]}"; do
  if ((SECONDS - start > limit)); then
    left=$((left + 1))
    continue
  fi
  findings=$(clang-tidy --quiet "$file" -- "${flags[@]}" 2> /dev/null) || true
  if grep -q 'clang-diagnostic-error' <<< "$findings"; then
    unparsed=$((unparsed + 1))
  elif grep -E 'warnings-as-errors' <<< "$findings"; then
    status=1
  fi
done
echo "clang-tidy: ${#changed[@]} changed sources, $left not reached within $limit s, $unparsed that Clang cannot parse"
exit $status
