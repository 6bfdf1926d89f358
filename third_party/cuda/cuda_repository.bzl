# SPDX-License-Identifier: Apache-2.0
"""The CUDA toolkit of this machine, if it has one.

Without a toolkit the repository has the same targets, none of which can be built: Bazel then skips
whatever depends on them. A toolkit is for x86-64 only: its targets are skipped in builds for other processors.
"""

_DEFAULT_ROOT = "/usr/local/cuda"

def _cuda_repository_impl(rctx):
    choice = rctx.os.environ.get("COTAN_CUDA", "")
    root = choice or _DEFAULT_ROOT
    available = choice != "none" and rctx.path(root + "/bin/nvcc").exists
    if choice not in ["", "none"] and not available:
        fail(("COTAN_CUDA=%s has no bin/nvcc. It must name a CUDA toolkit, or be `none` to build " +
              "without one.") % choice)
    has_cudnn = False
    if available:
        rctx.symlink(root + "/include", "include")
        rctx.symlink(root + "/lib64/libcudart_static.a", "lib/libcudart_static.a")
        has_cudnn = rctx.path(root + "/include/cudnn.h").exists
    compatible = repr(["@platforms//cpu:x86_64"])
    incompatible = repr(["@cotan//third_party/cuda:toolkit"])
    substitutions = {
        "%{available}": repr(available),
        "%{compatible_with_cudnn}": compatible if has_cudnn else incompatible,
        "%{compatible_with}": compatible if available else incompatible,
        "%{root}": repr(root if available else ""),
        "%{rpath}": repr(["-Wl,-rpath,%s/lib64" % root] if available else []),
    }
    rctx.template("defs.bzl", Label("//third_party/cuda:defs.bzl.tpl"), substitutions, executable = False)
    rctx.template("BUILD.bazel", Label("//third_party/cuda:cuda.BUILD"), substitutions, executable = False)

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    doc = """The toolkit at $COTAN_CUDA, else at /usr/local/cuda; `none` hides it.""",
    environ = ["COTAN_CUDA"],
    local = True,
)
