// SPDX-License-Identifier: Apache-2.0

// Runs cases (kernel_cases.h) on a device, and files of their outputs.
#ifndef COTAN_TESTING_CUDA_KERNEL_RUN_H_
#define COTAN_TESTING_CUDA_KERNEL_RUN_H_

#include <cstdint>
#include <iosfwd>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "kernels/api/device.h"
#include "kernels/api/registry.h"
#include "testing/cuda/kernel_cases.h"

namespace cotan::testing {

// Prepares the case's kernel on `device` and runs it twice: queued, and recorded if the device records work and the
// kernel allows it. Returns the outputs; bytes between elements are those of HostTensor's constructor.
// Internal: the two runs differ in a bit, or a byte between elements is written.
// Errors of the factory, the kernel and the device.
absl::StatusOr<std::vector<HostTensor>> RunOnDevice(const KernelRegistry& kernels, Device& device,
                                                    const KernelCase& kernel_case);

// Returns the largest ErrorInUnits() of the outputs against kernels/reference. Complex numbers, which the reference
// does not have, count as pairs of integers: they occur in copies only. Errors of the reference kernel.
absl::StatusOr<double> ErrorAgainstReference(const KernelCase& kernel_case, const std::vector<HostTensor>& outputs);

// An output in a file of outputs.
struct StoredOutput {
  std::string name;  // case and number of the output: "sort/f32/rows:1"
  DType dtype = DType::kUndefined;
  bool same_bits = true;
  double tolerance = 0;
  std::string bytes;
  friend bool operator==(const StoredOutput&, const StoredOutput&) = default;
};

std::vector<StoredOutput> ToStored(const KernelCase& kernel_case, const std::vector<HostTensor>& outputs);

void WriteOutput(const StoredOutput& output, std::ostream& out);
// Reads all outputs. NotFound: the file cannot be opened. DataLoss: it is damaged.
absl::StatusOr<std::vector<StoredOutput>> ReadOutputs(const std::string& path);

// How two outputs of one name differ.
struct OutputDifference {
  int64_t elements = 0;   // of the output
  int64_t differing = 0;  // elements whose bits differ; NaNs are equal
  // Largest distance in representable values; the distance of integers. Infinite if only one of two is a NaN.
  double max_ulp = 0;
  // Largest difference, relative to eps of the dtype and the largest value, at least 1, as ErrorInUnits().
  double units = 0;
};
// InvalidArgument: dtypes or numbers of bytes differ.
absl::StatusOr<OutputDifference> CompareOutputs(const StoredOutput& a, const StoredOutput& b);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_CUDA_KERNEL_RUN_H_
