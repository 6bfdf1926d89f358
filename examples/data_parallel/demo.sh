#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: demo.sh TRAIN [RANKS] [flags of train]
# Trains with RANKS processes (2) of this machine.
set -euo pipefail

train=$1 ranks=2
shift
if [[ ${1:-} =~ ^[0-9]+$ ]]; then
  ranks=$1
  shift
fi
options=(--enable-recovery --oversubscribe)
# Open MPI runs as root with this option only.
[[ $EUID -ne 0 ]] || options+=(--allow-run-as-root)
# Sockets of Open MPI have short names.
export TMPDIR=/tmp
# Open MPI 5 does not start without it.
export HOME=${HOME:-/tmp}
exec mpirun -np "$ranks" "${options[@]}" "$train" "$@"
