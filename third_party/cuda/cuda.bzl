# SPDX-License-Identifier: Apache-2.0
"""Compiles CUDA sources."""

load("@local_cuda//:defs.bzl", "CUDA_ROOT")

# Machine code for Ampere and Hopper, and PTX for what comes after.
_NVCC_FLAGS = [
    "-std=c++20",
    "-O2",
    "-DNDEBUG",
    "-gencode=arch=compute_80,code=sm_80",
    "-gencode=arch=compute_90,code=[sm_90,compute_90]",
    "--expt-relaxed-constexpr",
    "-Xcompiler=-fPIC,-fno-exceptions,-fno-rtti",
]

def _cuda_objects_impl(ctx):
    contexts = [dep[CcInfo].compilation_context for dep in ctx.attr.deps]
    headers = depset(transitive = [context.headers for context in contexts])
    objects = []
    for source in ctx.files.srcs:
        output = ctx.actions.declare_file("%s/%s.o" % (ctx.label.name, source.basename))
        objects.append(output)
        args = ctx.actions.args()
        args.add_all(_NVCC_FLAGS)
        args.add_all(ctx.attr.copts)
        for context in contexts:
            args.add_all(context.defines, before_each = "-D")
            args.add_all(context.quote_includes, before_each = "-I")
            args.add_all(context.includes, before_each = "-I")
            args.add_all(context.system_includes, before_each = "-isystem")
        args.add_all(["-c", "-x", "cu", source, "-o", output])
        ctx.actions.run(
            executable = CUDA_ROOT + "/bin/nvcc",
            arguments = [args],
            inputs = depset([source], transitive = [headers]),
            outputs = [output],
            mnemonic = "CudaCompile",
            progress_message = "Compiling %s with nvcc" % source.short_path,
            use_default_shell_env = True,
        )
    return [DefaultInfo(files = depset(objects))]

_cuda_objects = rule(
    implementation = _cuda_objects_impl,
    attrs = {
        "copts": attr.string_list(),
        "deps": attr.label_list(providers = [CcInfo]),
        "srcs": attr.label_list(allow_files = [".cu.cc"]),
    },
)

def cuda_library(name, srcs, hdrs = [], deps = [], copts = [], **kwargs):
    """A cc_library of CUDA sources. Without a toolkit, it and what depends on it is skipped.

    Args:
      name: of the library.
      srcs: files named *.cu.cc, compiled by nvcc. They should include little besides hdrs: host
        code, Abseil and protobuf belong in a cc_library.
      hdrs: as cc_library's.
      deps: as cc_library's.
      copts: additional flags for nvcc.
      **kwargs: passed on to cc_library.
    """
    deps = deps + ["@local_cuda//:cudart"]
    native.cc_library(
        name = name + "_headers",
        hdrs = hdrs,
        visibility = ["//visibility:private"],
        deps = deps,
    )
    _cuda_objects(
        name = name + "_objects",
        srcs = srcs,
        copts = copts,
        visibility = ["//visibility:private"],
        deps = [":" + name + "_headers"],
    )
    native.cc_library(
        name = name,
        srcs = [":" + name + "_objects"],
        hdrs = hdrs,
        deps = deps,
        **kwargs
    )
