// A matmul with an epilogue as the two ops it stands for.
#ifndef COTAN_KERNELS_API_MATMUL_EPILOGUE_H_
#define COTAN_KERNELS_API_MATMUL_EPILOGUE_H_

#include <vector>

#include "absl/status/statusor.h"
#include "kernels/api/kernel.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Holds what the requests borrow: outlives them, and stays where it is.
struct MatmulParts {
  serialization::Op product_op;  // a matmul without epilogue
  serialization::Op expr_op;
  std::vector<TensorSpec> expr_inputs;  // the product, row-major, then the op's inputs from 2 on

  // `request` is the one that was taken apart.
  KernelRequest Product(const KernelRequest& request) const;
  KernelRequest Epilogue(const KernelRequest& request) const;
};

// The parts of `request`, a matmul with an epilogue whose layouts have passed
// CheckOperandLayouts(). They are not checked further: CheckOp() does that.
// InvalidArgument: fewer than two inputs, an input 0 or 1 of rank below 2.
absl::StatusOr<MatmulParts> TakeApartMatmul(const KernelRequest& request);

}  // namespace cotan

#endif  // COTAN_KERNELS_API_MATMUL_EPILOGUE_H_
