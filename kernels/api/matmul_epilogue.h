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

  // Return the request of each part; `request` is the one that was split.
  KernelRequest Product(const KernelRequest& request) const;
  KernelRequest Epilogue(const KernelRequest& request) const;
};

// Splits `request`, a matmul with an epilogue whose layouts have passed CheckOperandLayouts(). Does not check
// the parts; CheckOp() does.
// InvalidArgument: there are fewer than two inputs, or input 0 or 1 has a rank below 2.
absl::StatusOr<MatmulParts> TakeApartMatmul(const KernelRequest& request);

}  // namespace cotan

#endif  // COTAN_KERNELS_API_MATMUL_EPILOGUE_H_
