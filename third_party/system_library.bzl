# SPDX-License-Identifier: Apache-2.0
"""A repository made of a library that the system's package manager installed."""

def _fail_missing(rctx, what):
    fail(("%s is missing. Run ./bazelw, which installs what the build needs, or " +
          "apt-get install %s.") % (what, rctx.attr.debian_package))

def _link(rctx, source, target):
    if not rctx.path(source).exists:
        _fail_missing(rctx, source)
    rctx.symlink(source, target)

def _system_library_impl(rctx):
    # The headers get a folder of their own, since /usr/include itself cannot be searched early:
    # the C++ library relies on its place in the search order.
    for header in rctx.attr.headers:
        _link(rctx, rctx.attr.header_folder + "/" + header, "include/" + header)
    for program in rctx.attr.programs:
        _link(rctx, "/usr/bin/" + program, "bin/" + program)

    libraries = []
    if rctx.attr.static_libraries:
        arch = rctx.execute(["uname", "-m"]).stdout.strip()
        folder = rctx.path("/usr/lib/%s-linux-gnu" % arch)
        libraries = sorted([
            file.basename[:-len(".a")]
            for file in (folder.readdir() if folder.exists else [])
            if file.basename.startswith(rctx.attr.static_libraries) and file.basename.endswith(".a")
        ])
        if not libraries:
            _fail_missing(rctx, "%s/%s*.a" % (folder, rctx.attr.static_libraries))
    rctx.template("BUILD.bazel", rctx.attr.build_file, {
        "%{shared_libraries}": repr([
            "-l:%s.so" % library
            for library in libraries
            if folder.get_child(library + ".so").exists
        ]),
        "%{static_libraries}": repr(["-l:%s.a" % library for library in libraries]),
    }, executable = False)

system_library = repository_rule(
    implementation = _system_library_impl,
    doc = "Links headers and programs of installed packages into a repository.",
    local = True,
    attrs = {
        "build_file": attr.label(
            mandatory = True,
            allow_single_file = True,
            doc = "Becomes BUILD.bazel, with %{static_libraries} and %{shared_libraries} replaced by lists of link " +
                  "flags.",
        ),
        "debian_package": attr.string(
            mandatory = True,
            doc = "Named in the error when a file is missing.",
        ),
        "header_folder": attr.string(default = "/usr/include", doc = "Where the headers are."),
        "headers": attr.string_list(doc = "Files and folders of header_folder, put below include/."),
        "programs": attr.string_list(doc = "Files of /usr/bin, put below bin/."),
        "static_libraries": attr.string(doc = "Prefix of the archives to link, such as libabsl_."),
    },
)
