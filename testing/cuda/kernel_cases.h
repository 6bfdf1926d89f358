// SPDX-License-Identifier: Apache-2.0

// A fixed set of ops with operands, for comparisons of devices. Every op kind occurs with every dtype that the CUDA
// backend has for it. The cases depend on nothing but this code, so that two processes have the same ones.
#ifndef COTAN_TESTING_CUDA_KERNEL_CASES_H_
#define COTAN_TESTING_CUDA_KERNEL_CASES_H_

#include <random>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "kernels/api/kernel.h"
#include "kernels/testing/host_tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan::testing {

struct KernelCase {
  // Unique: the op, the dtype and what is special, as "scan/f32/max".
  std::string name;
  serialization::Op op;
  std::vector<HostTensor> inputs = {};
  std::vector<TensorSpec> outputs = {};
  // The largest allowed ErrorInUnits() of an output against kernels/reference.
  double tolerance = 0;
  // True if results have the same bits on all devices: neither a vendor's library nor an instruction whose rounding
  // the vendor leaves open takes part.
  bool same_bits = true;
};

// Collects cases, with a random generator that is seeded for each of them.
class KernelCaseList {
 public:
  // Starts a case, to which the functions below apply. `name` seeds the generator.
  KernelCase& Add(std::string name, serialization::Op op, double tolerance, bool same_bits = true);
  // Adds an input of uniform values in [low, high).
  HostTensor& Input(DType dtype, StridedLayout layout, double low = -1, double high = 1);
  // Adds a row-major input with these values.
  void Input(DType dtype, absl::Span<const int64_t> sizes, absl::Span<const double> values);
  void Input(HostTensor tensor) { cases_.back().inputs.push_back(std::move(tensor)); }
  void Output(DType dtype, StridedLayout layout);

  KernelCase& last() { return cases_.back(); }
  std::mt19937_64& random() { return random_; }
  std::vector<KernelCase> Take() { return std::move(cases_); }

 private:
  std::vector<KernelCase> cases_;
  std::mt19937_64 random_;
};

// Returns all cases, those of an op kind together.
std::vector<KernelCase> AllKernelCases();

// Add the cases of: copies and indexing, scans and sorts; products, convolutions and pools; attention and recurrent
// layers; expressions.
void AddCopyCases(KernelCaseList& list);
void AddIndexingCases(KernelCaseList& list);
void AddScanAndSortCases(KernelCaseList& list);
void AddProductCases(KernelCaseList& list);
void AddConvolutionCases(KernelCaseList& list);
void AddPoolCases(KernelCaseList& list);
void AddAttentionCases(KernelCaseList& list);
void AddRecurrentCases(KernelCaseList& list);
void AddExprCases(KernelCaseList& list);

// Returns the bound for sums of products of the dtype: kMatmul, but a few units for 16-bit floats, which are summed in
// f32, and 0 for integers.
double ProductTolerance(DType dtype);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_CUDA_KERNEL_CASES_H_
