// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/convolution/sum.h"

#include <algorithm>

#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/threading/parallel.h"
#include "kernels/cpu/threading/tuning.h"

namespace cotan::cpu {
namespace {

COTAN_SIMD_VERSIONS void Add(const float* __restrict from, int64_t count, float* __restrict to) {
  for (int64_t i = 0; i < count; ++i) to[i] += from[i];
}

class Sum final : public Kernel {
 public:
  Sum(size_t terms, int64_t count, int threads) : terms_(terms), count_(count), threads_(threads) {}

  absl::Status Run(const KernelArgs& args) override {
    auto* const sum = static_cast<float*>(args.outputs[0]);
    ParallelFor(threads_, count_, kElementsPerChunk, [&](int64_t begin, int64_t end) {
      std::copy_n(static_cast<const float*>(args.inputs[0]) + begin, end - begin, sum + begin);
      for (size_t i = 1; i < terms_; ++i) {
        Add(static_cast<const float*>(args.inputs[i]) + begin, end - begin, sum + begin);
      }
    });
    return absl::OkStatus();
  }

 private:
  const size_t terms_;
  const int64_t count_;
  const int threads_;
};

}  // namespace

void AddTo(const float* from, int64_t count, float* to) { Add(from, count, to); }

std::unique_ptr<Kernel> MakeSum(size_t terms, int64_t count, int threads) {
  return std::make_unique<Sum>(terms, count, threads);
}

}  // namespace cotan::cpu
