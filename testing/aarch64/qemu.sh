#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: qemu.sh COMMAND...
# Runs a program for aarch64, or a script, with the libraries of `bazelw --config=aarch64`.
set -euo pipefail
codename=$(. /etc/os-release && echo "${VERSION_CODENAME:-unknown}")
libraries="${COTAN_HOME:-$(getent passwd "$(id -u)" | cut -d: -f6)}/.cache/cotan/arm64-$codename/usr/lib/aarch64-linux-gnu"
program=$1
shift
if [[ $(head -c 2 "$program") == '#!' ]]; then exec "$program" "$@"; fi
exec /usr/bin/qemu-aarch64 -L /usr/aarch64-linux-gnu -E "LD_LIBRARY_PATH=$libraries" "$program" "$@"
