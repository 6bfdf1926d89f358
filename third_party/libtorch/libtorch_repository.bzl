"""LibTorch, as it lies in an unpacked PyPI wheel."""

load("//third_party/libtorch:version.bzl", "LIBTORCH_VERSION")

def _libtorch_root(rctx):
    root = rctx.os.environ.get("LIBTORCH")
    if root:
        if not rctx.path(root + "/lib/libtorch_cpu.so").exists:
            fail(("LIBTORCH=%s has no lib/libtorch_cpu.so. It must name the folder `torch` of an " +
                  "unpacked wheel, or a LibTorch distribution.") % root)
        return root
    cache = rctx.os.environ.get("XDG_CACHE_HOME") or rctx.os.environ.get("HOME", "") + "/.cache"
    root = "%s/cotan/torch-%s/torch" % (cache, LIBTORCH_VERSION)
    if not rctx.path(root + "/lib/libtorch_cpu.so").exists:
        fail(("No LibTorch: LIBTORCH is not set and %s does not exist. Run ./bazelw, which " +
              "downloads LibTorch %s there, or set LIBTORCH to the folder `torch` of an unpacked " +
              "wheel.") % (root, LIBTORCH_VERSION))
    return root

def _libtorch_repository_impl(rctx):
    root = str(rctx.path(_libtorch_root(rctx)))

    # The include folder also holds an old protobuf, another oneDNN and more. Only LibTorch's own
    # headers may be seen.
    for folder in ["ATen", "c10", "caffe2", "torch"]:
        rctx.symlink(root + "/include/" + folder, "include/" + folder)

    # libtorch_cpu.so of a CUDA wheel needs the small libraries cudart and cupti. They are beside
    # the wheel where bazelw or pip put them, or in a toolkit.
    library_paths = [root + "/lib"] + [
        path
        for path in [
            str(rctx.path(root + "/../nvidia/cu13/lib")),
            "/usr/local/cuda/lib64",
            "/usr/local/cuda/extras/CUPTI/lib64",
        ]
        if rctx.path(path).exists
    ]
    rctx.template("BUILD.bazel", Label("//third_party/libtorch:libtorch.BUILD"), {
        "%{library_folder}": root + "/lib",
        "%{runtime_path}": ":".join(library_paths),
    }, executable = False)

libtorch_repository = repository_rule(
    implementation = _libtorch_repository_impl,
    doc = """LibTorch at $LIBTORCH, else where bazelw unpacks the wheel.""",
    environ = ["LIBTORCH", "HOME", "XDG_CACHE_HOME"],
    local = True,
)
