#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs PyTorch, JAX and ExecuTorch into ~/.cache/cotan/peers (some GB, once) and measures training steps of Cotan and
# of each of them in turns: the models of //testing/bench:step, and the archives of testing/models/data.
# usage: testing/bench/peers.sh [OPTION...]   options are those of peers.py: --models=mlp,gpt --peers=eager,compile
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../.."
version=$(sed -n 's/^LIBTORCH_VERSION = "\(.*\)"$/\1/p' third_party/libtorch/version.bzl)
venv=$HOME/.cache/cotan/peers-$version
if [[ ! -e $venv/complete ]]; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet "torch==$version" numpy "jax[cpu]"
  # Its requirements may conflict with this PyTorch; then its column stays empty.
  "$venv/bin/pip" install --quiet executorch "torch==$version" || echo "peers.sh: ExecuTorch could not be installed." >&2
  touch "$venv/complete"
fi
./bazelw build --curses=no --show_progress_rate_limit=60 //aot:compile //runtime/tools:cotan //testing/bench:step
models=mlp,cnn,gpt,resnet,lstm,gru
for archive in testing/models/data/*.pt2; do
  # The functional form of a model has no loss.
  [[ $archive == *_func.pt2 ]] || models+=,$archive
done
LD_LIBRARY_PATH='' exec "$venv/bin/python" testing/bench/peers.py --models="$models" "$@"
