"""Compiling models as part of a build."""

def cotan_program(name, model, model_name = "", flags = [], **kwargs):
    """Makes NAME.cotan from a model.

    LibTorch is needed while building only: what depends on NAME.cotan does not link it. The macro
    works in other workspaces, too: load it from @cotan//aot:defs.bzl (examples/consumer).

    Args:
      name: the artifact is NAME.cotan; NAME_compile is the tool that compiles it.
      model: a cc_library that defines cotan::aot::RegisteredModels().
      model_name: which of them; not needed if there is only one.
      flags: further flags of the tool, such as "--optimizer=sgd(lr=0.1)".
      **kwargs: common attributes (visibility, tags, ...) of both.
    """
    tool = name + "_compile"
    native.cc_binary(
        name = tool,
        # main() comes first: it asks for the symbol that the model defines.
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
