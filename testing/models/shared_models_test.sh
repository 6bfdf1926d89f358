#!/usr/bin/env bash
# The check over ../shared/models, beside the repository, if there is such a folder.
set -euo pipefail
check="$1"
data="$2"  # a file of testing/models/data

repository="$(cd "$(dirname "$(readlink -f "$data")")/../../.." && pwd)"
models="$repository/../shared/models"
if [ ! -d "$models" ]; then
  echo "skipped: there is no $models"
  exit 0
fi
"$check" --dir="$models" --scratch="$TEST_TMPDIR"
