// SPDX-License-Identifier: Apache-2.0

// The model of lora_test as an archive.
#ifndef COTAN_TESTING_E2E_GATED_ARCHIVE_H_
#define COTAN_TESTING_E2E_GATED_ARCHIVE_H_

#include <cstdint>
#include <string>

namespace cotan::testing {

// How an archive writes a linear layer: as one op, or as a product with the transposed weight, for matrices only.
enum class LinearForm : uint8_t { kOp, kProduct };

// Writes norm(q_proj(x) * sigmoid(v_proj(x))), a linear layer `out`, and the sum with x, of f32[6, width] (`rank` 2) or
// f32[3, 5, width], and returns the path of the archive. v_proj has no bias.
std::string WriteGatedArchive(int64_t width, int64_t rank, LinearForm form);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_E2E_GATED_ARCHIVE_H_
