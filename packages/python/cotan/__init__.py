# SPDX-License-Identifier: Apache-2.0
"""Compiles modules of PyTorch, and trains what was compiled.

  import cotan

  program = cotan.compile(net, (x,), loss=torch.nn.functional.cross_entropy, targets=(label,),
                          optimizer="adamw(lr=1e-3)", dynamic={"x": {0: ("batch", 1, 64)}, "target": {0: "batch"}},
                          out="net.cotan")
  session = cotan.Session(program)
  prediction, loss = session.run("train_step", x, label)

compile() needs PyTorch; Session needs cotan_runtime only, and PyTorch if its arguments are tensors.
"""

from cotan_runtime import CotanError, Program

from ._compile import CompileError, compile
from ._session import Session

__all__ = ["CompileError", "CotanError", "Program", "Session", "compile"]
