#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: check_debian13.sh SECONDS [TARGET...]
# Builds and tests the runtime half in a root of Debian 13, and trains the digits example there from the artifact that
# this machine compiled. Runs bazelw in the root as a new user would. Tests that do not finish in SECONDS do not count.
# With TARGETs those are tested instead; they may need LibTorch. Needs root, for chroot and mounts; both the root and
# its cache are kept in ~/.cache/cotan/debian13.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
seconds=$1
shift
home=$HOME/.cache/cotan/debian13
root=$home/root
libtorch_version=$(sed -n 's/^LIBTORCH_VERSION = "\(.*\)"$/\1/p' third_party/libtorch/version.bzl)

# The packages that bazelw would install, so that they are part of the root.
packages() { sed -n 's/^  need \([a-z0-9+-]*\) \/.*/\1/p' bazelw | paste --serial --delimiters=,; }

make_root() {
  [[ -e $home/complete ]] && return
  rm -rf --one-file-system "$root"
  mkdir -p "$home"
  mmdebstrap --quiet --variant=apt --components=main --include="ca-certificates,git,python3,$(packages)" trixie "$root" \
    http://deb.debian.org/debian
  mkdir -p "$root/cotan" "$root/libtorch" "$root/artifacts"
  touch "$home/complete"
}

# Runs the command in the root, with this workspace in /cotan. The mounts end with it.
in_root() {
  unshare --mount --propagation=private bash -euc '
    root=$1 torch=$2
    shift 2
    for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder"; done
    mount --bind . "$root/cotan"
    [[ ! -d $torch ]] || mount --bind "$torch" "$root/libtorch"
    exec chroot "$root" /usr/bin/env --ignore-environment HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
      LIBTORCH=/libtorch COTAN_CUDA=none bash -euc "cd /cotan && exec \"\$@\"" bash "$@"
  ' bash "$root" "$HOME/.cache/cotan/torch-$libtorch_version/torch" "$@"
}

bazel() {
  local command=$1
  shift
  # --symlink_prefix: bazel-bin and the others belong to the system outside.
  in_root ./bazelw --host_jvm_args=-Xmx1g "$command" --symlink_prefix=/ --curses=no --show_progress_rate_limit=60 "$@" \
    < /dev/null
}
trap 'in_root ./bazelw shutdown > /dev/null 2>&1' EXIT

command -v mmdebstrap > /dev/null || apt-get install --yes --quiet --no-install-recommends mmdebstrap
make_root
if (($#)); then
  bazel test --keep_going "$@"
  exit
fi

# The digits example: its program from Debian 13, its artifact from here.
./bazelw build --curses=no //examples/digits < /dev/null
cp --force --dereference bazel-bin/examples/digits/digits.cotan "$root/artifacts/digits.cotan"
bazel run //testing/debian13:train -- --artifact=/artifacts/digits.cotan --epochs=1 --train_images=640 --threads=1 |
  tee "$home/output.txt"
grep --quiet '^epoch 1 .*loss' "$home/output.txt"

tests=(//base/... //serialization/... //planning/... //linking/... //kernels/... //runtime/...)
status=0
seconds=$((seconds - SECONDS))
timeout --signal=INT --kill-after=30 $((seconds > 1 ? seconds : 1)) "${BASH_SOURCE[0]}" 0 --build_tests_only "${tests[@]}" \
  > "$home/output.txt" 2>&1 || status=$?
grep -E "^Executed|FAILED|TIMEOUT|^ERROR" "$home/output.txt" || true
((status == 0)) && exit
# Stopped: what did not finish does not count.
((status == 124)) && ! grep -qE "FAILED|TIMEOUT" "$home/output.txt"
