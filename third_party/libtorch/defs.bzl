# SPDX-License-Identifier: Apache-2.0
"""C++ rules for sources that include LibTorch."""

# GCC would collect garbage each time 128 MB more are in use, which reads, and so loads, all of the precompiled header.
_HEAP = "--param=ggc-min-heapsize=1000000"

def _with_pch(kwargs, pch):
    """Adds the precompiled header PCH of //third_party/libtorch/pch to the attributes of a C++ rule."""
    label = Label("//third_party/libtorch/pch:" + pch)
    header = "%s/%s.h" % (label.package, pch)
    kwargs["copts"] = kwargs.get("copts", []) + select({
        "@cotan//third_party:no_precompiled_headers": [],
        # With -fpch-deps Bazel sees the headers in the precompiled one, and compiles a source again when one changes.
        "//conditions:default": ["-include", header, "-fpch-deps", _HEAP],
    })
    kwargs["deps"] = kwargs.get("deps", []) + [str(label)]
    return kwargs

def torch_cc_library(name, pch = "aten", **kwargs):
    """A cc_library whose sources include LibTorch.

    Args:
      name: as of cc_library.
      pch: the precompiled header; "aten_test" for sources below testing/.
      **kwargs: as of cc_library.
    """
    native.cc_library(name = name, **_with_pch(kwargs, pch))

def torch_cc_binary(name, pch = "aten", **kwargs):
    """A cc_binary whose sources include LibTorch. Arguments: as of torch_cc_library()."""
    native.cc_binary(name = name, **_with_pch(kwargs, pch))

def torch_cc_test(name, pch = "aten_test", **kwargs):
    """A cc_test whose sources include LibTorch; pch is "torch_test" if they include torch/torch.h.

    LibTorch's default generator has the same seed at the start of each test (base/test_seed.h).
    """
    kwargs["deps"] = kwargs.get("deps", []) + [str(Label("//third_party/libtorch/test_seed"))]
    native.cc_test(name = name, **_with_pch(kwargs, pch))
