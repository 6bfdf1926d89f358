#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: all_reduce.sh PROGRAM [RANKS...] [flags of all_reduce]
# Times all-reduces of groups of RANKS processes (2 and 4) of this machine.
set -euo pipefail

program=$1
shift
ranks=()
while [[ ${1:-} =~ ^[0-9]+$ ]]; do
  ranks+=("$1")
  shift
done
((${#ranks[@]})) || ranks=(2 4)
options=(--oversubscribe)
# Open MPI runs as root with this option only.
[[ $EUID -ne 0 ]] || options+=(--allow-run-as-root)
# Sockets of Open MPI have short names.
export TMPDIR=/tmp
# Open MPI 5 does not start without it.
export HOME=${HOME:-/tmp}
for count in "${ranks[@]}"; do
  mpirun -np "$count" "${options[@]}" "$program" "$@"
done
