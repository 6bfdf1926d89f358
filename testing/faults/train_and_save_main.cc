// SPDX-License-Identifier: Apache-2.0

// usage: train_and_save PROGRAM CHECKPOINT
// Loads a program and, if there is one, a checkpoint, trains one step on zeros and saves the checkpoint. Prints the
// first error and exits with 1. io_fault_test.py makes its system calls fail. The kernels are Cotan's own: oneDNN's
// code generator writes through a null pointer if it gets no memory.
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/layout.h"
#include "base/status_macros.h"
#include "kernels/api/registry.h"
#include "kernels/cpu/register_portable.h"
#include "runtime/session.h"
#include "serialization/schema/tensor_type.h"

namespace cotan {
namespace {

absl::Status Run(const std::string& program_path, const std::string& checkpoint) {
  KernelRegistry kernels;
  COTAN_RETURN_IF_ERROR(RegisterPortableKernels(kernels));
  COTAN_ASSIGN_OR_RETURN(const auto program, Program::Load(program_path));
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program, {.kernels = &kernels, .threads = 1}));
  if (access(checkpoint.c_str(), F_OK) == 0) COTAN_RETURN_IF_ERROR(session.LoadCheckpoint(checkpoint));
  COTAN_ASSIGN_OR_RETURN(const int index, program->FindMethod("train_step"));
  const serialization::Method& method = program->method(index);
  const DimVector symbols(static_cast<size_t>(program->artifact().symbols_size()), 2);
  std::vector<Tensor> arguments;
  for (const uint32_t input : method.inputs()) {
    const serialization::TensorType& type = method.values(static_cast<int>(input)).type();
    COTAN_ASSIGN_OR_RETURN(const StridedLayout layout, DenseLayout(type, symbols));
    COTAN_ASSIGN_OR_RETURN(Tensor tensor, Tensor::Empty(ToDType(type.dtype()), layout.sizes, HostDevice()));
    std::memset(tensor.storage()->data(), 0, tensor.storage()->bytes());
    arguments.push_back(std::move(tensor));
  }
  COTAN_RETURN_IF_ERROR(session.Run("train_step", arguments).status());
  return session.SaveCheckpoint(checkpoint);
}

}  // namespace
}  // namespace cotan

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: train_and_save PROGRAM CHECKPOINT\n");
    return 2;
  }
  const absl::Status status = cotan::Run(argv[1], argv[2]);
  if (status.ok()) return 0;
  std::fprintf(stderr, "error: %s\n", std::string(status.message()).c_str());
  return 1;
}
