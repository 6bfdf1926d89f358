# SPDX-License-Identifier: Apache-2.0
"""Makes the wheel of a package.

Usage: make_wheel.py --out=FILE --name=cotan-runtime --summary=TEXT --requires=PACKAGE ... --header=cotan.h
  --license=FILE --readme=FILE --binary=libcotan.so.0=FILE [--data=PATH=FILE] MODULE.py ...

The wheel's version is that of the header, its platform that of the binary. VERSION in --requires stands for that
version. Equal inputs give equal bytes.
"""

import argparse
import base64
import hashlib
import pathlib
import stat
import struct
import zipfile

import header_version

_METADATA = """Metadata-Version: 2.1
Name: {name}
Version: {version}
Summary: {summary}
License: Apache-2.0
Requires-Python: >={python}
{requires}
Description-Content-Type: text/markdown

"""
_WHEEL = """Wheel-Version: 1.0
Generator: cotan
Root-Is-Purelib: false
Tag: py3-none-{platform}
"""
_PLATFORMS = {62: "linux_x86_64", 183: "linux_aarch64"}  # by e_machine


def PlatformOf(library):
  """Returns the platform tag for the bytes of an ELF file."""
  return _PLATFORMS[struct.unpack_from("<H", library, 18)[0]]


def Record(files, name):
  """Returns the text of the RECORD file `name` for {path: bytes}."""
  lines = []
  for path, content in files.items():
    digest = base64.urlsafe_b64encode(hashlib.sha256(content).digest()).rstrip(b"=").decode()
    lines.append(f"{path},sha256={digest},{len(content)}")
  return "\n".join([*lines, f"{name},,", ""])


def WriteZip(path, files):
  with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
    for name, content in files.items():
      info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
      info.compress_type = zipfile.ZIP_DEFLATED
      # pip keeps the permission to execute of regular files only.
      mode = 0o755 if ".so" in name or "/bin/" in name else 0o644
      info.external_attr = (stat.S_IFREG | mode) << 16
      archive.writestr(info, content)


def _Placed(text):
  """Returns (path in the package, file) of PATH=FILE."""
  path, file = text.split("=", 1)
  return path, pathlib.Path(file)


def main():
  parser = argparse.ArgumentParser()
  for option in ("--out", "--header", "--license", "--readme"):
    parser.add_argument(option, required=True, type=pathlib.Path)
  parser.add_argument("--name", required=True)
  parser.add_argument("--summary", required=True)
  parser.add_argument("--python", default="3.8", help="the oldest version of Python")
  parser.add_argument("--requires", action="append", default=[])
  parser.add_argument("--binary", required=True, type=_Placed)
  parser.add_argument("--data", action="append", default=[], type=_Placed)
  parser.add_argument("modules", nargs="+", type=pathlib.Path)
  options = parser.parse_args()
  version = header_version.VersionOf(options.header.read_text(encoding="utf-8"))
  package = options.name.replace("-", "_")
  files = {f"{package}/{module.name}": module.read_bytes() for module in options.modules}
  for path, file in [options.binary, *options.data]:
    files[f"{package}/{path}"] = file.read_bytes()
  info = f"{package}-{version}.dist-info"
  metadata = _METADATA.format(
      name=options.name, version=version, summary=options.summary, python=options.python,
      requires="\n".join("Requires-Dist: " + text.replace("VERSION", version) for text in options.requires))
  files[f"{info}/METADATA"] = (metadata + options.readme.read_text(encoding="utf-8")).encode()
  files[f"{info}/WHEEL"] = _WHEEL.format(platform=PlatformOf(options.binary[1].read_bytes())).encode()
  files[f"{info}/LICENSE"] = options.license.read_bytes()
  files[f"{info}/RECORD"] = Record(files, f"{info}/RECORD").encode()
  WriteZip(options.out, files)


if __name__ == "__main__":
  main()
