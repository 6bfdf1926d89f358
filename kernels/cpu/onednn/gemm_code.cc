// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/onednn/gemm_code.h"

#include <pthread.h>

#include "base/tasks.h"
#include "dnnl.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu::onednn {
namespace {

// Multiplies small matrices. Its status is ignored: if it fails, so do later products, which report it.
void* Multiply(void* /*unused*/) {
  constexpr dnnl_dim_t kSize = 8;
  const float a[kSize * kSize] = {}, b[kSize * kSize] = {};
  float c[kSize * kSize];
  const ScopedThreads scoped(1);
  dnnl_sgemm('N', 'N', kSize, kSize, kSize, 1, a, kSize, b, kSize, 0, c, kSize);
  return nullptr;
}

// A thread that generates the code. Destroyed before oneDNN's own objects, which exist before it.
class Generator {
 public:
  Generator() : started_(UsableProcessors() > 1 && ::pthread_create(&thread_, nullptr, &Multiply, nullptr) == 0) {}
  ~Generator() {
    if (started_) ::pthread_join(thread_, nullptr);
  }
  Generator(const Generator&) = delete;
  Generator& operator=(const Generator&) = delete;

 private:
  pthread_t thread_ = {};
  const bool started_;
};

}  // namespace

void GenerateGemmCode() { static const Generator generator; }

}  // namespace cotan::cpu::onednn
