// SPDX-License-Identifier: Apache-2.0

// oneDNN's matrix product generates its code, about 30 ms of work, in its first run.
#ifndef COTAN_KERNELS_CPU_ONEDNN_GEMM_CODE_H_
#define COTAN_KERNELS_CPU_ONEDNN_GEMM_CODE_H_

namespace cotan::cpu::onednn {

// Has oneDNN generate the code of its f32 matrix product in the background, while the rest of a plan is made and the
// steps before the first such product run. Later calls do nothing, nor does the first one with a single processor.
// Products that run meanwhile wait for the code. Thread-safe.
void GenerateGemmCode();

}  // namespace cotan::cpu::onednn

#endif  // COTAN_KERNELS_CPU_ONEDNN_GEMM_CODE_H_
