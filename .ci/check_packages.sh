#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: check_packages.sh RELEASE TARBALL ARTIFACT
# Runs the commands of docs/packages.md as they are written, as root of a Debian RELEASE (bookworm or trixie) that has
# essential packages and apt only, beside TARBALL (bazel-bin/packages/cotan.tar.gz, built on that release) and ARTIFACT
# (digits.cotan). Then those of the README in the tarball. Needs root, for chroot and mounts; the empty root is kept in
# ~/.cache/cotan/empty, and the commands run in a copy.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
release=$1
tarball=$2
artifact=$3
empty=$HOME/.cache/cotan/empty/$release
case $release in
  bookworm) other=13 ;;
  trixie) other=12 ;;
  *) echo "RELEASE is $release, which is neither bookworm nor trixie" >&2; exit 2 ;;
esac

# Prints the shell blocks of the page $1. Those that call bazelw are for the machine that builds; lines that end with
# the name of the other release are omitted.
commands_of() {
  awk '/^```sh$/ { block = ""; inside = 1; next }
       /^```$/ { if (inside && block !~ /bazelw/) printf "%s", block; inside = 0 }
       inside { block = block $0 "\n" }' "$1" | grep -v "# Debian $other\$"
}

command -v mmdebstrap > /dev/null || apt-get install --yes --quiet --no-install-recommends mmdebstrap
if [[ ! -e $empty/complete ]]; then
  rm -rf --one-file-system "$empty"
  mkdir -p "$empty"
  mmdebstrap --quiet --variant=apt --components=main "$release" "$empty/root"
  touch "$empty/complete"
fi

scratch=$(mktemp -d)
trap 'rm -rf --one-file-system "$scratch"' EXIT
root=$scratch/root
cp --archive "$empty/root" "$root"
# The answer that a user types.
echo 'APT::Get::Assume-Yes "true";' > "$root/etc/apt/apt.conf.d/yes"
mkdir "$root/page" "$root/readme"
cp --dereference "$tarball" "$root/page/cotan.tar.gz"
cp --dereference "$artifact" "$root/page/digits.cotan"

# Runs the file commands.sh of the folder /$1 of the root, in that folder. The mounts end with it.
run_in_root() {
  unshare --mount --propagation=private bash -euc '
    for folder in proc sys dev; do mount --rbind "/$folder" "$1/$folder"; done
    exec chroot "$1" /usr/bin/env --ignore-environment HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin \
      DEBIAN_FRONTEND=noninteractive bash -euxc "cd \"/\$1\" && source ./commands.sh" bash "$2"
  ' bash "$root" "$1" < /dev/null
}

commands_of docs/packages.md > "$root/page/commands.sh"
run_in_root page
commands_of "$root/opt/cotan/share/doc/cotan/README.md" > "$root/readme/commands.sh"
run_in_root readme
