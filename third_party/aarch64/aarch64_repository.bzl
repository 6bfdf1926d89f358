# SPDX-License-Identifier: Apache-2.0
"""Debian's cross compiler for aarch64, and the arm64 libraries that bazelw unpacks.

Without them the repository has the same targets, and tests that need them are skipped.
"""

_GCC = "/usr/lib/gcc-cross/aarch64-linux-gnu"

def _codename(rctx):
    for line in rctx.read("/etc/os-release").split("\n"):
        if line.startswith("VERSION_CODENAME="):
            return line[len("VERSION_CODENAME="):].strip('"')
    return "unknown"

def _aarch64_repository_impl(rctx):
    libraries = "%s/.cache/cotan/arm64-%s" % (rctx.os.environ.get("HOME", ""), _codename(rctx))
    gcc = rctx.path(_GCC)
    version = sorted([folder.basename for folder in gcc.readdir()])[-1] if gcc.exists else "none"
    lld = rctx.path("/usr/bin/ld.lld")
    available = version != "none" and rctx.path(libraries + "/complete").exists
    substitutions = {
        "%{available}": repr([] if available else ["@cotan//third_party/aarch64:installed"]),
        "%{gcc}": _GCC + "/" + version,
        "%{libraries}": libraries + "/usr/lib/aarch64-linux-gnu",
        # The folder of LLVM: in /usr/bin the compiler would also find the assembler of this machine.
        "%{lld}": str(lld.realpath.dirname) if lld.exists else "none",
        "%{version}": version,
    }
    rctx.template("BUILD.bazel", Label("//third_party/aarch64:aarch64.BUILD"), substitutions, executable = False)
    rctx.template("defs.bzl", Label("//third_party/aarch64:defs.bzl.tpl"), substitutions, executable = False)

aarch64_repository = repository_rule(
    implementation = _aarch64_repository_impl,
    doc = "The compiler of the package g++-aarch64-linux-gnu with the libraries in ~/.cache/cotan/arm64-<release>.",
    # bazelw sets COTAN_AARCH64 once it has installed them.
    environ = ["HOME", "COTAN_AARCH64"],
    local = True,
)
