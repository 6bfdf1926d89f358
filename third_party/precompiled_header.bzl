# SPDX-License-Identifier: Apache-2.0
"""GCC's precompiled headers, for headers of libraries that take longer to parse than the sources that include them."""

load("@bazel_tools//tools/cpp:toolchain_utils.bzl", "find_cpp_toolchain")

def _precompile(ctx, context, header):
    """Declares the action that precompiles HEADER; returns its output."""
    toolchain = find_cpp_toolchain(ctx)
    features = cc_common.configure_features(
        ctx = ctx,
        cc_toolchain = toolchain,
        requested_features = ctx.features,
        unsupported_features = ctx.disabled_features,
    )
    compiled = ctx.actions.declare_file(ctx.attr.name + ".h.gch")
    included = ctx.actions.declare_file(ctx.attr.name + ".h.d")

    # With -MD the precompiled header holds the names of the headers in it, and the .d file of a source that uses it lists
    # them, so that Bazel compiles the source again when one of them changes.
    flags = ["-x", "c++-header", "-MD", "-MF", included.path]
    variables = cc_common.create_compile_variables(
        feature_configuration = features,
        cc_toolchain = toolchain,
        source_file = ctx.file.header.path,
        output_file = compiled.path,
        user_compile_flags = ctx.fragments.cpp.copts + ctx.fragments.cpp.cxxopts + ctx.attr.copts + flags,
        include_directories = context.includes,
        quote_include_directories = context.quote_includes,
        system_include_directories = context.system_includes,
        preprocessor_defines = context.defines,
    )
    ctx.actions.run(
        executable = cc_common.get_tool_for_action(feature_configuration = features, action_name = "c++-compile"),
        arguments = cc_common.get_memory_inefficient_command_line(
            feature_configuration = features,
            action_name = "c++-compile",
            variables = variables,
        ),
        env = cc_common.get_environment_variables(
            feature_configuration = features,
            action_name = "c++-compile",
            variables = variables,
        ),
        inputs = depset([ctx.file.header, header], transitive = [toolchain.all_files, context.headers]),
        outputs = [compiled, included],
        mnemonic = "CppPrecompile",
        progress_message = "Precompiling " + ctx.file.header.short_path,
    )
    return compiled

def _precompiled_header_impl(ctx):
    deps = [dep[CcInfo] for dep in ctx.attr.deps]
    context = cc_common.merge_cc_infos(cc_infos = deps).compilation_context

    # GCC looks for HEADER.gch in the folder in which it finds HEADER, so that both are generated.
    header = ctx.actions.declare_file(ctx.attr.name + ".h")
    ctx.actions.symlink(output = header, target_file = ctx.file.header)
    headers = [header]
    if ctx.attr.precompile:
        headers.append(_precompile(ctx, context, header))
    own = cc_common.create_compilation_context(headers = depset([ctx.file.header] + headers))
    return [
        DefaultInfo(files = depset(headers)),
        cc_common.merge_cc_infos(direct_cc_infos = [CcInfo(compilation_context = own)], cc_infos = deps),
    ]

_precompiled_header = rule(
    implementation = _precompiled_header_impl,
    doc = "As precompiled_header(), which sets `precompile`.",
    attrs = {
        "copts": attr.string_list(doc = "Flags of the targets that use it."),
        "deps": attr.label_list(providers = [CcInfo], doc = "Libraries whose headers it includes."),
        "header": attr.label(allow_single_file = [".h"], mandatory = True),
        "precompile": attr.bool(doc = "If false, there is NAME.h alone."),
        "_cc_toolchain": attr.label(default = "@bazel_tools//tools/cpp:current_cc_toolchain"),
    },
    fragments = ["cpp"],
    toolchains = ["@bazel_tools//tools/cpp:toolchain_type"],
)

def precompiled_header(name, **kwargs):
    """NAME.h and NAME.h.gch from a header.

    A target that depends on it and compiles with `-include PACKAGE/NAME.h` parses the header from NAME.h.gch if its other
    flags are equal. If they differ, GCC reads NAME.h, which has the same content.

    Args:
      name: the target, and the files it makes.
      **kwargs: copts, deps and header of the rule, testonly, visibility.
    """
    _precompiled_header(
        name = name,
        precompile = select({
            "@cotan//third_party:no_precompiled_headers": False,
            "//conditions:default": True,
        }),
        **kwargs
    )
