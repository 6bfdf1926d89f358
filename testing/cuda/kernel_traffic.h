// SPDX-License-Identifier: Apache-2.0

// Measures the memory traffic of each kernel of a program on a simulated GPU.
#ifndef COTAN_TESTING_CUDA_KERNEL_TRAFFIC_H_
#define COTAN_TESTING_CUDA_KERNEL_TRAFFIC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "kernels/api/registry.h"
#include "kernels/cuda/testing/sim_device.h"
#include "serialization/schema/op_kind.h"

namespace cotan::testing {

// One run of the kernel of an op, or of a group of ops.
struct KernelTraffic {
  std::string name;   // of the op, as in errors
  OpKind kind = {};   // of the (first) op
  std::string entry;  // of the launches: "expr_rows"; different ones are separated by blanks
  int64_t launches = 0;
  // Sectors of 32 bytes that hold the elements of all operands, those of expanded dimensions once. An operand that
  // occurs as input several times counts once, an output that is also an input twice. If there are several launches,
  // the inputs of each op of a group count, and the scratch twice: one launch writes it, and the next one reads it.
  int64_t operand_sectors = 0;
  int64_t moved_sectors = 0;     // loads and stores, each sector once in a launch
  int64_t accessed_sectors = 0;  // loads and stores of all warps
};

// The CUDA kernels, of which each run adds an element to `traffic`. They wait for the device before and after, so that
// the device must not record work. At most one object exists at a time; `gpu` and `traffic` outlive all of its kernels.
class TracedKernels {
 public:
  TracedKernels(cuda::testing::SimDevice* gpu, std::vector<KernelTraffic>* traffic);
  ~TracedKernels();
  TracedKernels(const TracedKernels&) = delete;
  TracedKernels& operator=(const TracedKernels&) = delete;

  const KernelRegistry& registry() const { return registry_; }

 private:
  KernelRegistry registry_;
};

}  // namespace cotan::testing

#endif  // COTAN_TESTING_CUDA_KERNEL_TRAFFIC_H_
