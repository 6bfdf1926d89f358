# SPDX-License-Identifier: Apache-2.0
"""A test built and run a second time under sanitizers."""

# As in .bazelrc's --config=asan, with which any other target can be checked. Not optimized: the
# checks of UndefinedBehaviorSanitizer would take the compiler three times as long.
_FLAGS = {
    # With checks for null, GCC 14 has no constant comparisons of functions with null, which Abseil needs;
    # AddressSanitizer reports accesses through null as well.
    "address,undefined": [
        "-fsanitize=address,undefined",
        "-fno-sanitize=vptr,null,nonnull-attribute,returns-nonnull-attribute",
        # Else Abseil's hash tables have other members than those of the system's library, which is not instrumented.
        "-DNDEBUG_SANITIZER",
    ],
    "thread": ["-fsanitize=thread"],
}

# The system's static libraries are not instrumented.
_ENVIRONMENT = {
    "ASAN_OPTIONS": "allow_user_poisoning=0:detect_container_overflow=0:detect_leaks=0",
    "TSAN_OPTIONS": "halt_on_error=1",
    "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
}

_OPTIONS = [
    "//command_line_option:copt",
    "//command_line_option:linkopt",
]

def _sanitized_impl(settings, attr):
    flags = _FLAGS[attr.sanitizers]
    return {
        "//command_line_option:copt": settings["//command_line_option:copt"] +
                                      flags + ["-fno-omit-frame-pointer", "-g1", "-O0", "-U_FORTIFY_SOURCE"],
        "//command_line_option:linkopt": settings["//command_line_option:linkopt"] + flags,
    }

_sanitized = transition(
    implementation = _sanitized_impl,
    inputs = _OPTIONS,
    outputs = _OPTIONS,
)

def _sanitized_test_impl(ctx):
    test = ctx.attr.test[0][DefaultInfo]
    executable = ctx.actions.declare_file(ctx.label.name)
    ctx.actions.symlink(output = executable, target_file = test.files_to_run.executable, is_executable = True)
    return [
        DefaultInfo(executable = executable, runfiles = ctx.runfiles([executable]).merge(test.default_runfiles)),
        testing.TestEnvironment(dict(_ENVIRONMENT, **ctx.attr.env)),
    ]

sanitized_test = rule(
    implementation = _sanitized_test_impl,
    test = True,
    attrs = {
        "env": attr.string_dict(doc = "Environment of the test, in place of that of `test`."),
        "sanitizers": attr.string(default = "address,undefined", values = _FLAGS.keys()),
        "test": attr.label(cfg = _sanitized, mandatory = True, doc = "A cc_test."),
        "_allowlist_function_transition": attr.label(
            default = "@bazel_tools//tools/allowlists/function_transition_allowlist",
        ),
    },
)
