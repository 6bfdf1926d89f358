#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# usage: peers_test.sh PEERS_SH PEERS_PY PYTHON...
# Checks the syntax of the scripts, their arguments, and the table of a run without peers. The peers are not installed in
# tests.
set -euo pipefail
peers_sh=$1 peers=$2
shift 2
fail() { echo "FAILED: $*"; exit 1; }
bash -n "$peers_sh"
for script in "$peers" "$@"; do
  python3 -c "import ast, sys; ast.parse(open(sys.argv[1]).read())" "$script"
done
python3 "$peers" --models=nonsense 2> /dev/null && fail "accepted a model that does not exist"
python3 "$peers" --peers=nonsense 2> /dev/null && fail "accepted a peer that does not exist"
# A peer that cannot be started is named, and the table has Cotan's figure.
ln -s "$PWD" "$TEST_TMPDIR/bin"
table=$(python3 "$peers" --models=mlp --peers=eager --rounds=1 --seconds=0.05 --bin="$TEST_TMPDIR/bin")
echo "$table"
grep -qE "^\| mlp \| [0-9.]+ \| (-|[0-9.]+) \|" <<< "$table" || fail "no row of mlp"
python3 -c "import torch" 2> /dev/null || grep -q "^mlp: no figure of eager: .*torch" <<< "$table" || fail "no reason"
exit 0
