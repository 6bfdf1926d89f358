# SPDX-License-Identifier: Apache-2.0
"""LibTorch in an unpacked PyPI wheel."""

load("//third_party/libtorch:version.bzl", "LIBTORCH_VERSION")

def _libtorch_root(rctx, cached):
    root = rctx.os.environ.get("LIBTORCH")
    if root:
        if not rctx.path(root + "/lib/libtorch_cpu.so").exists:
            fail(("LIBTORCH=%s has no lib/libtorch_cpu.so. It must name the folder `torch` of an " +
                  "unpacked wheel, or a LibTorch distribution.") % root)
        return str(rctx.path(root))
    if not rctx.path(cached + "/torch/lib/libtorch_cpu.so").exists:
        fail(("No LibTorch: LIBTORCH is not set and %s/torch does not exist. Run ./bazelw, which " +
              "downloads LibTorch %s there, or set LIBTORCH to the folder `torch` of an unpacked " +
              "wheel.") % (cached, LIBTORCH_VERSION))
    return cached + "/torch"

def _libtorch_repository_impl(rctx):
    cached = "%s/.cache/cotan/torch-%s" % (rctx.os.environ.get("HOME", ""), LIBTORCH_VERSION)
    root = _libtorch_root(rctx, cached)

    # The include folder also holds an old protobuf, another oneDNN and more. Only LibTorch's own
    # headers may be seen.
    for folder in ["ATen", "c10", "caffe2", "torch"]:
        rctx.symlink(root + "/include/" + folder, "include/" + folder)

    # libtorch_cpu.so of a CUDA wheel needs libcudart and libcupti: beside the wheel, as pip puts
    # them, or where bazelw puts them, or in a toolkit. All places are searched, there or not, so
    # that link commands, and with them the disk cache, do not depend on the machine.
    library_paths = [
        root + "/lib",
        str(rctx.path(root + "/../nvidia/cu13/lib")),
        cached + "/nvidia/cu13/lib",
        "/usr/local/cuda/lib64",
        "/usr/local/cuda/extras/CUPTI/lib64",
    ]
    rctx.template("BUILD.bazel", Label("//third_party/libtorch:libtorch.BUILD"), {
        "%{library_folder}": root + "/lib",
        "%{runtime_path}": ":".join(library_paths),
    }, executable = False)

libtorch_repository = repository_rule(
    implementation = _libtorch_repository_impl,
    doc = """LibTorch at $LIBTORCH, else where bazelw unpacks the wheel.""",
    environ = [
        "HOME",
        "LIBTORCH",
    ],
    local = True,
)
