# SPDX-License-Identifier: Apache-2.0
"""Rules that compile models as part of a build."""

def cotan_program(name, model, model_name = "", flags = [], **kwargs):
    """Makes NAME.cotan from a model.

    LibTorch is needed at build time only: targets that depend on NAME.cotan do not link it. The macro
    works in other workspaces, too: load it from @cotan//aot:defs.bzl (examples/consumer).

    Args:
      name: the artifact is NAME.cotan; NAME_compile is the tool that compiles it.
      model: a cc_library that defines cotan::aot::RegisteredModels().
      model_name: name of the model to compile; optional if there is only one.
      flags: further flags of the tool, such as "--optimizer=sgd(lr=0.1)".
      **kwargs: common attributes (visibility, tags, ...) of both targets.
    """
    tool = name + "_compile"
    native.cc_binary(
        name = tool,
        # compile_main comes first: it needs the symbol that the model library defines.
        deps = [
            Label("//aot/tools:compile_main"),
            model,
        ],
        **kwargs
    )
    if model_name:
        flags = flags + ["--model=" + model_name]
    native.genrule(
        name = name,
        outs = [name + ".cotan"],
        cmd = "$(location :%s) --out=$@ %s > /dev/null" % (
            tool,
            " ".join(["'%s'" % flag for flag in flags]),
        ),
        message = "Compiling the model of",
        tools = [":" + tool],
        **kwargs
    )
