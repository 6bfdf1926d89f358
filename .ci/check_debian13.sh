#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: check_debian13.sh SECONDS [TARGET...]
# Runs bazelw in a root of Debian 13, as a new user would, in this order:
#   the digits example: its program from Debian 13 trains on the artifact that this machine compiled
#   packages: //:dist, the tests of //packages, and the commands of docs/packages.md in a second, empty root
#   tests of the runtime half, with the C interface and what of the digits example needs no artifact
# What does not finish in SECONDS (0: no limit) is named and does not count as failed. With TARGETs (and options of
# Bazel) those are tested instead; they may need LibTorch. Needs root, for chroot and mounts; both the root and its cache
# are kept in ~/.cache/cotan/debian13.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
if [[ ${COTAN_MOUNT_NAMESPACE:-} != private ]]; then
  # The artifact from outside.
  (($# > 1)) || ./bazelw build --curses=no //examples/digits < /dev/null
  # One namespace for all mounts, which end with it: Bazel's client stops a server whose folder is in another one.
  COTAN_MOUNT_NAMESPACE=private exec unshare --mount --propagation=private .ci/check_debian13.sh "$@"
fi
limit=$1
shift
home=$HOME/.cache/cotan/debian13
root=$home/root
libtorch_version=$(sed -n 's/^LIBTORCH_VERSION = "\(.*\)"$/\1/p' third_party/libtorch/version.bzl)
runtime_half=(//base/... //serialization/... //planning/... //linking/... //kernels/... //runtime/... //capi/...)
runtime_half+=(//examples/digits:digit_images_test //examples/digits:idx_test //examples/digits:train_options_test)
step="the root"

# Prints the argument of `timeout`: how many seconds are left, at least one, or 0 for no limit.
seconds_left() {
  local left=$((limit - SECONDS))
  echo $((limit == 0 ? 0 : left > 1 ? left : 1))
}

# Whether $1 is the exit status of a command that `timeout` stopped.
was_stopped() { ((limit > 0 && SECONDS >= limit && ($1 == 124 || $1 == 137))); }

# The packages that bazelw would install, so that they are part of the root. It adds what it needs later.
packages() { sed -n 's/^  need \([a-z0-9.+-]*\) \/.*/\1/p' bazelw | paste --serial --delimiters=,; }

make_root() {
  [[ -e $home/complete ]] && return
  rm -rf --one-file-system "$root"
  mkdir -p "$home"
  mmdebstrap --quiet --variant=apt --components=main --include="ca-certificates,git,python3,$(packages)" trixie "$root"
  mkdir -p "$root/cotan" "$root/libtorch" "$root/artifacts"
  touch "$home/complete"
}

# Copies this machine's certificates, which may have the one of a proxy, into the root. A mount would keep dpkg from
# replacing the file.
copy_certificates() {
  local certificates=/etc/ssl/certs/ca-certificates.crt
  [[ ! -e $certificates ]] || cp "$certificates" "$root$certificates"
}

# Mounts in the root: this workspace in /cotan, LibTorch, and the folder shared beside the workspace in /shared.
mount_folders() {
  local folder torch=$HOME/.cache/cotan/torch-$libtorch_version
  mkdir -p "$root/shared"
  for folder in proc sys dev; do mount --rbind "/$folder" "$root/$folder"; done
  mount --bind . "$root/cotan"
  [[ ! -d $torch ]] || mount --bind "$torch" "$root/libtorch"
  [[ ! -d ../shared ]] || mount --bind ../shared "$root/shared"
}

# Runs the command in the root for $1 seconds.
in_root_for() {
  timeout --signal=INT --kill-after=30 "$1" chroot "$root" /usr/bin/env --ignore-environment HOME=/root \
    PATH=/usr/sbin:/usr/bin:/sbin:/bin LIBTORCH=/libtorch/torch COTAN_CUDA=none \
    bash -euc 'cd /cotan && exec "$@"' bash "${@:2}" < /dev/null
}
in_root() { in_root_for "$(seconds_left)" "$@"; }

bazel() {
  local command=$1
  shift
  # --symlink_prefix: bazel-bin and the others belong to the system outside.
  in_root ./bazelw --host_jvm_args=-Xmx1g "$command" --symlink_prefix=/ --curses=no --show_progress_rate_limit=60 "$@"
}

train_digits() {
  cp --force --dereference bazel-bin/examples/digits/digits.cotan "$root/artifacts/digits.cotan"
  bazel run //testing/debian13:train -- --artifact=/artifacts/digits.cotan --epochs=1 --train_images=640 --threads=1 |
    tee "$home/output.txt"
  grep --quiet '^epoch 1 .*loss' "$home/output.txt"
}

# Bazel would compile the artifact of the tests in the root; their scripts are called with the one from outside instead.
test_packages() {
  local built tarball test
  bazel build //:dist //capi:effect_program
  built=$(bazel info bazel-bin)
  tarball=$built/packages/cotan.tar.gz
  for test in contents pkg_config cmake python; do
    echo "//packages:${test}_test"
    in_root bash -euc 'TEST_TMPDIR=$(mktemp -d); export TEST_TMPDIR; trap "rm -rf \"$TEST_TMPDIR\"" EXIT; "$@"' bash \
      "packages/${test}_test.sh" packages/unpack.sh "$tarball" /artifacts/digits.cotan packages/python/cotan_runtime_test.py \
      "$built/capi/effect_program"
  done
  timeout "$(seconds_left)" .ci/check_packages.sh trixie "$root$tarball" "$root/artifacts/digits.cotan"
}

test_runtime_half() {
  local status=0
  bazel test --keep_going --build_tests_only "${runtime_half[@]}" > "$home/output.txt" 2>&1 || status=$?
  .ci/check_test_log.sh "$status" "$home/output.txt"
  return "$status"
}

finish() {
  local status=$?
  in_root_for 60 ./bazelw shutdown > /dev/null 2>&1 || true
  was_stopped "$status" || exit "$status"
  echo "Not run to the end in $limit seconds: $step on Debian 13, and what comes after it."
  exit 0
}
trap finish EXIT

command -v mmdebstrap > /dev/null || apt-get install --yes --quiet --no-install-recommends mmdebstrap
make_root
copy_certificates
mount_folders
if (($#)); then
  step="tests"
  bazel test --keep_going "$@"
  exit
fi
step="the digits example"
train_digits
step="packages"
test_packages
step="tests of the runtime half"
test_runtime_half
