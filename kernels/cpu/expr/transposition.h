// SPDX-License-Identifier: Apache-2.0

// Copies of operands that the loops of an expression would read or write across their dense dimension, so that each
// cache line would be visited many times.
#ifndef COTAN_KERNELS_CPU_EXPR_TRANSPOSITION_H_
#define COTAN_KERNELS_CPU_EXPR_TRANSPOSITION_H_

#include <memory>
#include <vector>

#include "kernels/api/kernel.h"
#include "kernels/cpu/expr/plan.h"

namespace cotan::cpu::expr {

// The large operands of one op that are transposed in the order of its loops.
class Transposition {
 public:
  // Finds the operands of `request`; `plan` is compiled for it.
  Transposition(const KernelRequest& request, const Plan& plan);

  // Returns true if there is one.
  bool IsNeeded() const { return is_needed_; }

  // Returns the request with these operands dense in the order of the loops. Valid while this and `request` are.
  KernelRequest InOrder(const KernelRequest& request) const;

  // Returns the kernel of `request`, which copies operands before and after `kernel`, the one of InOrder(request).
  std::unique_ptr<Kernel> Around(std::unique_ptr<Kernel> kernel, const KernelRequest& request) const;

 private:
  std::vector<TensorSpec> inputs_, outputs_;  // as the loops meet them
  bool is_needed_ = false;
};

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_TRANSPOSITION_H_
