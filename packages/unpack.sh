# SPDX-License-Identifier: Apache-2.0
# Read by the tests of this folder: sets `fail`, `need` and `unpack`.

fail() { echo "FAILED: $*"; exit 1; }

# Fails unless the program $1 of the Debian package $2 is there.
need() {
  command -v "$1" > /dev/null || fail "$1 is missing. Run ./bazelw, which installs it, or: apt-get install $2"
}

# Unpacks the tarball $1 and sets `prefix` to the folder that it contains, whose name has a space.
unpack() {
  mkdir "$TEST_TMPDIR/unpacked here"
  tar --extract --gzip --file "$1" --directory "$TEST_TMPDIR/unpacked here"
  prefix=$(echo "$TEST_TMPDIR/unpacked here"/cotan-*)
  [[ -d $prefix ]] || fail "the tarball does not contain one folder: $prefix"
}
