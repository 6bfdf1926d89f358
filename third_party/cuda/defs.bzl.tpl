"""Whether this machine has a CUDA toolkit."""

CUDA_AVAILABLE = %{available}

# Folder of the toolkit, "" without one.
CUDA_ROOT = %{root}

# target_compatible_with of tests that need the toolkit's libraries (NVRTC, cuDNN) or tools, and no GPU: they are
# skipped without one, and in builds for other processors than x86-64. The backend itself is built everywhere, because
# it opens the vendor's libraries at run time.
CUDA_TOOLKIT = %{compatible_with}
CUDNN_TOOLKIT = %{compatible_with_cudnn}
