# SPDX-License-Identifier: Apache-2.0
"""Downloads LibTorch's wheel with pip and unpacks what C++ needs of it.

Usage: download.py VERSION FOLDER

Afterwards FOLDER/torch holds LibTorch's headers and CPU libraries, and FOLDER/nvidia the CUDA
libraries that they are linked to. FOLDER appears only when complete.
"""

import fcntl
import fnmatch
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile

# The wheel of any Python holds the same LibTorch.
PIP_DOWNLOAD = (
    sys.executable, "-m", "pip", "--no-cache-dir", "--disable-pip-version-check", "download",
    "--only-binary=:all:", "--implementation=cp", "--python-version=3.11",
    f"--platform=manylinux_2_28_{platform.machine()}",
    f"--platform=manylinux_2_25_{platform.machine()}",
    f"--platform=manylinux2014_{platform.machine()}",
)

TORCH_FILES = ("torch/include/*", "torch/lib/*.so*", "torch-*.dist-info/METADATA",
               "torch-*.dist-info/*LICENSE*", "torch-*.dist-info/*NOTICE*")
# Two thirds of the wheel: the CUDA half and the Python bindings.
TORCH_LEFT_OUT = ("*/libtorch_cuda*.so", "*/libc10_cuda.so", "*/libtorch_python.so",
                  "*/libtorch_nvshmem.so", "*/libcaffe2_nvrtc.so")
CUDA_FILES = ("nvidia/*/lib/libcudart.so*", "nvidia/*/lib/libcupti.so*", "*License*")


def Unpack(wheel, files, left_out, folder):
  """Extracts the files of a wheel that match one of `files` and none of `left_out`."""
  with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
      if (any(fnmatch.fnmatchcase(name, pattern) for pattern in files) and
          not any(fnmatch.fnmatchcase(name, pattern) for pattern in left_out)):
        archive.extract(name, folder)


def CudaRequirements(metadata):
  """Returns what to ask pip for so that libtorch_cpu.so finds libcudart and libcupti.

  Older wheels require the packages of the two libraries, newer ones a package with extras.
  """
  requirements = re.findall(r"^Requires-Dist: ([\w-]+)(?:\[.*\])?==([\w.]+)", metadata, re.MULTILINE)
  result = []
  for package, version in requirements:
    if package == "cuda-toolkit":
      result.append(f"cuda-toolkit[cudart,cupti]=={version}")
    elif re.fullmatch(r"nvidia-cuda-(runtime|cupti)(-cu\d+)?", package):
      result.append(f"{package}=={version}")
  return result


def Download(version, folder):
  """Downloads and unpacks into `folder`, which should be empty."""
  wheels = folder / "wheels"
  subprocess.run((*PIP_DOWNLOAD, "--no-deps", f"--dest={wheels}", f"torch=={version}"), check=True)
  (wheel,) = wheels.glob("torch-*.whl")
  print("Unpacking.", flush=True)
  Unpack(wheel, TORCH_FILES, TORCH_LEFT_OUT, folder)
  wheel.unlink()

  (metadata,) = folder.glob("torch-*.dist-info/METADATA")
  requirements = CudaRequirements(metadata.read_text(encoding="utf-8"))
  if requirements:
    subprocess.run((*PIP_DOWNLOAD, f"--dest={wheels}", *requirements), check=True)
    for wheel in wheels.glob("nvidia*.whl"):
      Unpack(wheel, CUDA_FILES, (), folder)
  (folder / "nvidia").mkdir(exist_ok=True)
  shutil.rmtree(wheels)


def main():
  version, target = sys.argv[1], pathlib.Path(sys.argv[2])
  target.parent.mkdir(parents=True, exist_ok=True)
  with open(target.parent / f"{target.name}.lock", "w", encoding="utf-8") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    if (target / "nvidia").exists():
      return  # Another process was faster.
    with tempfile.TemporaryDirectory(dir=target.parent, prefix=f"{target.name}.") as temporary:
      new = pathlib.Path(temporary) / "new"
      new.mkdir()
      try:
        Download(version, new)
      except subprocess.CalledProcessError as error:
        sys.exit(f"pip could not download LibTorch {version} (exit status {error.returncode}). "
                 "Its message is above. Without a connection, set LIBTORCH to the folder `torch` "
                 "of an unpacked wheel.")
      shutil.rmtree(target, ignore_errors=True)
      new.rename(target)


if __name__ == "__main__":
  main()
