# SPDX-License-Identifier: Apache-2.0
"""What the training programs of the examples have in common."""

def training_program(name, main, data, visibility = None):
    """A training program and its tests.

    NAME                          the program
    NAME_links_only_runtime_test  no LibTorch, no Python in it or in what it is built from
    NAME_test                     it trains: the script NAME_test.sh of the package

    Args:
      name: of the program.
      main: a library with main() and alwayslink.
      data: what the program reads: compiled models and others.
      visibility: of the program.
    """
    native.cc_binary(
        name = name,
        data = data,
        visibility = visibility,
        deps = [main],
    )

    # All targets that the program is built from, except those of its data, which are needed only while building.
    main = "//{}{}".format(native.package_name(), main) if main.startswith(":") else main
    native.genquery(
        name = name + "_dependencies",
        expression = "deps({})".format(main),
        scope = [main],
    )
    native.sh_test(
        name = name + "_links_only_runtime_test",
        size = "small",
        srcs = ["//examples/common:links_only_runtime_test.sh"],
        args = [
            "$(location :{})".format(name),
            "$(location :{}_dependencies)".format(name),
        ],
        data = [
            ":" + name,
            ":{}_dependencies".format(name),
        ],
    )
    native.sh_test(
        name = name + "_test",
        timeout = "long",
        srcs = [name + "_test.sh"],
        args = ["$(location :{})".format(name)],
        data = [":" + name],
    )
