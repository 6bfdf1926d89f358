// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/matmul/matmul_epilogue.h"

#include <utility>
#include <vector>

#include "base/status_macros.h"
#include "kernels/api/expr_program.h"
#include "kernels/api/matmul_epilogue.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/expr/expr_kernel.h"
#include "kernels/cpu/matmul/matmul_update.h"
#include "kernels/cpu/threading/pipeline.h"

namespace cotan::cpu {

absl::StatusOr<std::unique_ptr<Kernel>> MakeMatmulEpilogue(const KernelRequest& request, KernelFactory product) {
  return MakeMatmulEpilogueWith(request, product, MakeExpr);
}

absl::StatusOr<std::unique_ptr<Kernel>> MakeMatmulEpilogueWith(const KernelRequest& request, KernelFactory product,
                                                               KernelFactory expr) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  COTAN_ASSIGN_OR_RETURN(const MatmulParts parts, TakeApartMatmul(request));
  COTAN_ASSIGN_OR_RETURN(const ExprProgram program, ResolveExpr(parts.Epilogue(request)));
  if (std::unique_ptr<Kernel> kernel = MakeMatmulUpdate(request, program)) return kernel;
  auto pipeline = std::make_unique<Pipeline>(request.threads);
  const TensorSpec& spec = parts.expr_inputs[0];
  const Slot values = pipeline->AddScratch(static_cast<size_t>(NumElements(spec.layout.sizes)) * ByteSize(spec.dtype));
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> whole, product(parts.Product(request)));
  pipeline->Add(std::move(whole), {Slot::Input(0), Slot::Input(1)}, {values});
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Kernel> epilogue, expr(parts.Epilogue(request)));
  std::vector<Slot> inputs = {values};
  for (size_t i = 2; i < request.inputs.size(); ++i) inputs.push_back(Slot::Input(i));
  std::vector<Slot> outputs;
  for (size_t k = 0; k < request.outputs.size(); ++k) outputs.push_back(Slot::Output(k));
  pipeline->Add(std::move(epilogue), std::move(inputs), std::move(outputs));
  return pipeline;
}

}  // namespace cotan::cpu
