// SPDX-License-Identifier: Apache-2.0

// Rewrites of discrete Fourier transforms in terms of matrix products; see rewrites.h.
#ifndef COTAN_AOT_DECOMPOSITIONS_FOURIER_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_FOURIER_OPS_H_

namespace torch {
class Library;
}

namespace cotan::aot {

// Adds the rewrites of _fft_r2c, _fft_c2r, _fft_c2c and istft to a library for kRewriteKey. The cost is quadratic
// in the size of a transformed dimension, which is limited to 4096.
void AddFourierRewrites(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_FOURIER_OPS_H_
