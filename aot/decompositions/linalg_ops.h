// SPDX-License-Identifier: Apache-2.0

// Rewrites of linear algebra ops that read data, depend on memory layout, or consist of products; see rewrites.h.
#ifndef COTAN_AOT_DECOMPOSITIONS_LINALG_OPS_H_
#define COTAN_AOT_DECOMPOSITIONS_LINALG_OPS_H_

namespace torch {
class Library;
}

namespace cotan::aot {

// Adds the rewrites of _linalg_check_errors, _linalg_det, _linalg_slogdet, _linalg_solve_ex, linalg_lstsq,
// linalg_matrix_exp and linalg_householder_product to a library for kRewriteKey.
void AddLinearAlgebraRewrites(torch::Library& library);

}  // namespace cotan::aot

#endif  // COTAN_AOT_DECOMPOSITIONS_LINALG_OPS_H_
