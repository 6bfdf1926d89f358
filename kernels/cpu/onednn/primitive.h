// SPDX-License-Identifier: Apache-2.0

// A thin wrapper of oneDNN's C interface: owning handles, errors as absl::Status with the text of the failed
// call, and a primitive as a Kernel. The C interface is used because it works without exceptions. Descriptors of
// memory and of primitives, whose interface differs between oneDNN 2 and 3, are in descriptors.h.
//
// oneDNN makes a few small heap allocations (the argument table) in every execution. Its large temporaries
// are in the kernel's scratch: primitives run in user-scratchpad mode.
#ifndef COTAN_KERNELS_CPU_ONEDNN_PRIMITIVE_H_
#define COTAN_KERNELS_CPU_ONEDNN_PRIMITIVE_H_

#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "base/dtype.h"
#include "dnnl.h"
#include "kernels/api/kernel.h"
#include "kernels/cpu/onednn/descriptors.h"
#include "kernels/cpu/onednn/handles.h"

namespace cotan::cpu::onednn {

// Returns true if this processor multiplies matrices of `dtype` natively: f32 always, bf16 with AMX, or with
// AVX512_BF16 where that is not slower than f32.
bool HasFast(DType dtype);

// Returns true if oneDNN multiplies matrices of bf16 by AMX.
bool HasAmx();

// An operand of a primitive: its number in oneDNN (DNNL_ARG_SRC, ...) and its layout.
struct Argument {
  int argument;
  MemoryLayout memory;
};

// Returns a kernel that executes one primitive. The kernel's inputs and outputs are the primitive's operands
// in the order given. OpenMP's default thread count must be the same at creation and in every run: see
// ScopedThreads.
absl::StatusOr<std::unique_ptr<Kernel>> MakePrimitive(const_dnnl_primitive_desc_t desc, std::vector<Argument> inputs,
                                                      std::vector<Argument> outputs);

// The same for a primitive on several threads, with a second one, which runs on the calling thread while
// cpu::RunsAlone(). `describe` makes the descriptor of the second one, with the same operands, where OpenMP's default
// thread count is one; it is not used if oneDNN chooses another implementation for it. Its code is generated when it
// first runs.
absl::StatusOr<std::unique_ptr<Kernel>> MakeTeamPrimitive(const_dnnl_primitive_desc_t desc,
                                                          absl::FunctionRef<absl::StatusOr<OwnedDesc>()> describe,
                                                          std::vector<Argument> inputs, std::vector<Argument> outputs);

// Returns a kernel that copies input 0 of layout `from` to output 0 of layout `to` on at most `threads` threads, which
// is OpenMP's default thread count in every run.
absl::StatusOr<std::unique_ptr<Kernel>> MakeReorder(const MemoryLayout& from, const MemoryLayout& to, int threads);

}  // namespace cotan::cpu::onednn

#endif  // COTAN_KERNELS_CPU_ONEDNN_PRIMITIVE_H_
