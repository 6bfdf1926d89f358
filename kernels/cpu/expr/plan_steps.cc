// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/plan_steps.h"

namespace cotan::cpu::expr {

bool Reads(const Step& step, int slot) {
  switch (step.kind) {
    case Step::Kind::kCompute:  // of fewer operands, the others may be any slot: it is stored needlessly then
      return step.in[0] == slot || step.in[1] == slot || step.in[2] == slot;
    case Step::Kind::kSumProducts:
      return step.in[0] == slot || step.in[1] == slot;
    case Step::Kind::kStore:
    case Step::Kind::kStream:
    case Step::Kind::kSpread:
    case Step::Kind::kReduce:
    case Step::Kind::kFinishRows:
      return step.in[0] == slot;
    case Step::Kind::kLoad:
    case Step::Kind::kRandom:
    case Step::Kind::kIota:
      return false;
    case Step::Kind::kChain:
    case Step::Kind::kCode:
      break;
  }
  return true;
}

bool Writes(const Step& step, int slot) {
  switch (step.kind) {
    case Step::Kind::kCompute:
    case Step::Kind::kLoad:
    case Step::Kind::kSpread:
    case Step::Kind::kRandom:
    case Step::Kind::kIota:
      return step.out == slot;
    default:
      return false;
  }
}

size_t NextRead(const std::vector<Step>& steps, int slot, size_t first, size_t last) {
  for (size_t k = first; k < last; ++k) {
    if (Reads(steps[k], slot)) return k;
    if (Writes(steps[k], slot)) return last;
  }
  return last;
}

}  // namespace cotan::cpu::expr
