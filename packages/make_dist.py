# SPDX-License-Identifier: Apache-2.0
"""Makes the package of Cotan's runtime, a tarball with one folder.

Usage: make_dist.py --out=FILE --header=cotan.h PATH=FILE ...

Each FILE is stored as PATH in the folder cotan-VERSION; a PATH that ends with a slash receives a wheel under its own
name. In files that end with .in, @VERSION@ is replaced by the version of the header. lib/libcotan.so.0 is stored with
the version in its name and links to it. Equal inputs give equal bytes.
"""

import argparse
import gzip
import io
import pathlib
import re
import tarfile
import zipfile

import header_version


def WheelName(content):
  """Returns the file name that the metadata of a wheel ask for."""
  with zipfile.ZipFile(io.BytesIO(content)) as wheel:
    info = next(name for name in wheel.namelist() if name.endswith(".dist-info/WHEEL"))
    tag = re.search(r"^Tag: (.*)$", wheel.read(info).decode(), re.MULTILINE)[1]
  return f"{info.split('.dist-info')[0]}-{tag}.whl"


def Entries(version, files):
  """Yields (path, content, mode), or (path, target, None) for links; `files` are (path, file) pairs."""
  for path, file in files:
    content = file.read_bytes()
    if path.endswith("/"):
      path += WheelName(content)
    if file.name.endswith(".in"):
      content = content.replace(b"@VERSION@", version.encode())
    if path == "lib/libcotan.so.0":
      yield f"lib/libcotan.so.{version}", content, 0o755
      yield path, f"libcotan.so.{version}", None
      yield "lib/libcotan.so", "libcotan.so.0", None
    else:
      yield path, content, 0o755 if path.startswith("bin/") else 0o644


def Add(archive, path, content, mode):
  info = tarfile.TarInfo(path)
  if mode is None:
    info.type = tarfile.SYMTYPE
    info.linkname = content
    archive.addfile(info)
    return
  info.mode = mode
  info.size = len(content)
  archive.addfile(info, io.BytesIO(content))


def main():
  parser = argparse.ArgumentParser()
  parser.add_argument("--out", required=True, type=pathlib.Path)
  parser.add_argument("--header", required=True, type=pathlib.Path)
  parser.add_argument("files", nargs="+")
  options = parser.parse_args()
  version = header_version.VersionOf(options.header.read_text(encoding="utf-8"))
  files = [(path, pathlib.Path(file)) for path, file in (entry.split("=", 1) for entry in options.files)]
  entries = sorted(Entries(version, files), key=lambda entry: entry[0])
  with open(options.out, "wb") as file, gzip.GzipFile("", "wb", fileobj=file, mtime=0) as compressed:
    with tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as archive:
      for path, content, mode in entries:
        Add(archive, f"cotan-{version}/{path}", content, mode)


if __name__ == "__main__":
  main()
