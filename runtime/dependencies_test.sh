#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# usage: dependencies_test.sh LIBRARIES
# //runtime is built from the packages below and from no others. Training, groups of ranks, tools, the C interface,
# kernels, the CUDA backend, the compile half and LibTorch are in the programs that ask for them only.
set -euo pipefail
libraries=$1  # labels of the libraries that //runtime depends on, one on each line

# Of //kernels only the interface. //wrappers consists of templates.
expected=(
  //base
  //kernels/api
  //linking
  //planning
  //runtime
  //runtime/autograd
  //runtime/execution
  //runtime/function
  //runtime/function/core
  //runtime/function/stages
  //runtime/session
  //runtime/tensor
  //serialization/calls
  //serialization/container
  //serialization/metadata
  //serialization/schema
  //serialization/verifier
  //wrappers
  @com_google_absl//
  @com_google_protobuf//
)

packages=$(sed 's/:.*//' "$libraries" | LC_ALL=C sort -u)
if ! diff <(printf '%s\n' "${expected[@]}" | LC_ALL=C sort) <(echo "$packages"); then
  echo "FAILED: //runtime is built from the packages marked '>', or no longer from those marked '<'."
  echo "What not every program needs belongs into a library of its own that depends on //runtime."
  exit 1
fi
