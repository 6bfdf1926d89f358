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

// Returns whether a GPU is expected to compute an epilogue sooner in a simple kernel of its product than after a
// library's product. `a` is the left operand. `spared_launches` is what the epilogue costs by itself, in launches: 1 if
// it takes a launch of its own, less if it only reads the product again. Depends on dtypes and sizes alone.
//
// The estimate, for a Hopper GPU: a launch takes some 2.5 us within a graph. Meanwhile a simple kernel multiplies some
// 25 million pairs, and a library some 50 million of f32 or f64, and many more of f16 and bf16 by tensor cores. A sum
// of 1,024 steps takes a few tiles of a block some 5 us, twice the time of a library that divides it among blocks.
// Libraries do not take integers.
bool IsSmallProduct(const TensorSpec& a, const TensorSpec& product, double spared_launches);

}  // namespace cotan

#endif  // COTAN_KERNELS_API_MATMUL_EPILOGUE_H_
