"""Whether this machine has a CUDA toolkit."""

CUDA_AVAILABLE = %{available}

# Folder of the toolkit, "" without one.
CUDA_ROOT = %{root}

def if_cuda(if_true, if_false = []):
    """Returns `if_true` if there is a toolkit, else `if_false`.

    For what has a CUDA half but is built without one as well. What is CUDA throughout needs no
    condition: it depends on the targets of this repository and is skipped with them.
    """
    return if_true if CUDA_AVAILABLE else if_false
