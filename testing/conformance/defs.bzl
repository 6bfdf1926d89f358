# SPDX-License-Identifier: Apache-2.0
"""Runners of further tables."""

_WRAPPER = """// What a table that is a program of its own lacks to be one of the runner's.
#define main MainOfTable
#define build_table TableOfFile
#include "{table}"
#undef build_table
#undef main

std::vector<ConfCase> build_table() { return TableOfFile(); }
"""

def conformance_binary(name, table, **kwargs):
    """A runner of a table file that is a program of its own.

    Such a file has declarations and a main() of its own, and its build_table() is static. One that
    includes conf_case.h, or merely has no main() and a build_table() with external linkage, needs
    only a cc_binary with :runner.

    Args:
      name: the binary.
      table: the file.
      **kwargs: common attributes (visibility, tags, ...).
    """
    native.cc_library(
        name = name + "_text",
        testonly = True,
        textual_hdrs = [table],
        deps = ["//testing/conformance:conf_case"],
        **kwargs
    )
    native.genrule(
        name = name + "_wrapper",
        testonly = True,
        outs = [name + "_wrapper.cc"],
        cmd = "cat > $@ <<'END'\n" + _WRAPPER.replace("{table}", native.package_name() + "/" + table) + "END",
        **kwargs
    )
    native.cc_binary(
        name = name,
        testonly = True,
        srcs = [name + "_wrapper.cc"],
        # main() is renamed: only a function of that name may end without a return statement.
        copts = ["-O0", "-Wno-unused-function", "-Wno-return-type"],
        deps = [
            ":" + name + "_text",
            "//testing/conformance:runner",
        ],
        **kwargs
    )
