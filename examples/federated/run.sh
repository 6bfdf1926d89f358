#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: run.sh DEMO WHEEL PROGRAM STALE_PROGRAM DRAW [flags of demo.py]
# Installs Flower beside the cache of Bazel, unpacks the wheel, draws images, and runs demo.py. In flags, {stale} stands for
# another program than that of the server.
set -euo pipefail

flower=flwr==1.42.0
demo=$1 wheel=$2 program=$3 stale=$4 draw=$5
shift 5

# Kept from run to run; the lock is for runs at the same time.
installed=${COTAN_FLOWER:-~/.cache/cotan/$flower}
mkdir -p "$installed"
exec 9> "$installed/lock"
flock 9
if [[ ! -e $installed/done ]]; then
  echo "Installing $flower in $installed."
  python3 -m pip install --quiet --disable-pip-version-check --target "$installed/site" "$flower" numpy
  touch "$installed/done"
fi
flock --unlock 9

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
python3 -m zipfile --extract "$wheel" "$scratch/site"
mkdir "$scratch/data"
"$draw" --out="$scratch/data" --train_images=3072 --held_out_images=512
export PATH=$installed/site/bin:$PATH PYTHONPATH=$scratch/site:$installed/site PYTHONDONTWRITEBYTECODE=1
python3 "$demo" --program="$program" \
  --data="$scratch/data" "${@//\{stale\}/$(readlink -f "$stale")}"
