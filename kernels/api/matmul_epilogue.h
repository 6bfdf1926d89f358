// SPDX-License-Identifier: Apache-2.0

// Splits a matmul with an epilogue into a matmul and an expression.
#ifndef COTAN_KERNELS_API_MATMUL_EPILOGUE_H_
#define COTAN_KERNELS_API_MATMUL_EPILOGUE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// The two ops. Owns what the requests borrow: it outlives them and is not moved meanwhile.
struct MatmulParts {
  serialization::Op product_op;  // a matmul without epilogue
  serialization::Op expr_op;
  std::vector<TensorSpec> expr_inputs;  // the product, row-major, then the op's inputs from 2 on

  // Return the request of each part; `request` is the one that was split. The outputs of the epilogue are those of the
  // op, and guarded as they are; the product is written to memory of the op, which never is.
  KernelRequest Product(const KernelRequest& request) const;
  KernelRequest Epilogue(const KernelRequest& request) const;
};

// Splits `request`, a matmul with an epilogue whose layouts have passed CheckOperandLayouts(). Does not check
// the parts; CheckOp() does.
// InvalidArgument: there are fewer than two inputs, or input 0 or 1 has a rank below 2.
absl::StatusOr<MatmulParts> TakeApartMatmul(const KernelRequest& request);

// Returns whether a GPU is expected to compute a product sooner in a simple kernel than in a library that needs
// `spared_launches` more, which may be a fraction. A product multiplies `pairs` pairs of elements, `steps` for each
// sum.
//
// The bounds are figures of an H200: a simple kernel takes products of f32 of up to 70 million pairs in less time than
// cuBLASLt, and others, which have tensor cores, of up to 7 million. A launch within a graph takes some 1.2 us.
// Meanwhile a simple kernel multiplies some 16 million pairs, and a sum advances by some 512 steps. Sums of more than
// 2,048 steps leave most of a GPU idle unless they are divided among blocks. Libraries do not take integers.
bool IsSmallProduct(DType dtype, double pairs, double steps, double spared_launches);

// As above, for a product whose left operand is `a`. `spared_launches` is what its epilogue costs by itself: 1 if it
// takes a launch of its own, less if it only reads the product again.
bool IsSmallProduct(const TensorSpec& a, const TensorSpec& product, double spared_launches);

}  // namespace cotan

#endif  // COTAN_KERNELS_API_MATMUL_EPILOGUE_H_
