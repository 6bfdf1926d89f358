"""The CUDA toolkit of this machine, if it has one."""

def _cuda_repository_impl(rctx):
    choice = rctx.os.environ.get("COTAN_CUDA", "")
    root = choice or "/usr/local/cuda"
    available = choice != "none" and rctx.path(root + "/bin/nvcc").exists
    if choice and choice != "none" and not available:
        fail(("COTAN_CUDA=%s has no bin/nvcc. It must name a CUDA toolkit, or be `none` to build " +
              "without one.") % choice)
    rctx.file("defs.bzl", """\"\"\"Whether this machine has a CUDA toolkit.\"\"\"

CUDA_AVAILABLE = %s

CUDA_ROOT = "%s"

def if_cuda(if_true, if_false = []):
    return if_true if CUDA_AVAILABLE else if_false
""" % (available, root if available else ""), executable = False)
    rctx.file("BUILD.bazel", "", executable = False)

cuda_repository = repository_rule(
    implementation = _cuda_repository_impl,
    doc = """The toolkit at $COTAN_CUDA, else at /usr/local/cuda; `none` hides it.""",
    environ = ["COTAN_CUDA"],
    local = True,
)
