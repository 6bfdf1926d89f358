// SPDX-License-Identifier: Apache-2.0

// The rates of this machine that bound the time of a step.
#ifndef COTAN_RUNTIME_TOOLS_MACHINE_RATES_H_
#define COTAN_RUNTIME_TOOLS_MACHINE_RATES_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "base/dtype.h"
#include "kernels/api/registry.h"
#include "planning/op_work.h"

namespace cotan::tools {

class MachineRates {
 public:
  // Measures copies, and large products and convolutions of each of `dtypes`, with the kernels of the host in
  // `kernels`; takes a few tenths of a second. a kernel that is not registered is omitted. Errors of kernels.
  static absl::StatusOr<MachineRates> Measure(const KernelRegistry& kernels, int threads,
                                              absl::Span<const DType> dtypes);

  // Returns the nanoseconds that a step takes at least: its operations at the best rate that a product or convolution
  // of `dtype` reached, plus its bytes at the rate of a copy that moves as many. Operations of dtypes without a rate
  // count nothing.
  double BoundNs(const OpWork& work, DType dtype) const;

  // Returns "f32 104.2 GFLOP/s; copies 61.0 GB/s of 64 KiB, ...".
  std::string ToString() const;

 private:
  struct CopyRate {
    int64_t bytes = 0;  // read and written by one copy
    double bytes_per_ns = 0;
  };

  std::vector<CopyRate> copies_;          // ascending by bytes
  std::map<DType, double> flops_per_ns_;  // the best of products and convolutions
};

}  // namespace cotan::tools

#endif  // COTAN_RUNTIME_TOOLS_MACHINE_RATES_H_
