// SPDX-License-Identifier: Apache-2.0

// Allocates the slots of a plan: places for its values in the scratch and among the constants.
#ifndef COTAN_KERNELS_CPU_EXPR_PLAN_SLOTS_H_
#define COTAN_KERNELS_CPU_EXPR_PLAN_SLOTS_H_

#include <array>
#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "kernels/api/expr_program.h"
#include "kernels/cpu/expr/plan.h"
#include "kernels/cpu/expr/tile_ops.h"

namespace cotan::cpu::expr {

// Rounds a number of bytes up to a multiple of 64, as all offsets and sizes in a plan are.
inline int64_t AlignPlanBytes(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Adds slots to a plan and counts their bytes in it. Functions return the slot's index in Plan::slots.
class PlanSlots {
 public:
  // `unit_items` and `tile_items` are the elements of a unit's reduced values and of a tile. `ops` and `plan`
  // outlive the object.
  PlanSlots(int64_t unit_items, int64_t tile_items, const TileOps& ops, Plan& plan)
      : unit_items_(unit_items), tile_items_(tile_items), ops_(ops), plan_(plan) {}

  int Add(Slot slot);
  // Adds `bytes` of the run's shared scratch.
  int AddShared(int64_t bytes);
  // Adds the reduced values of a unit.
  int AddUnit(DType dtype);
  // Adds a tile.
  int AddRegister(DType dtype);
  // Adds one tile for each of `chunks` chunks.
  int AddKept(DType dtype, int64_t chunks);
  // Adds `items` copies of the node's constant.
  int AddConstant(const ExprNode& node, int64_t items);

  // Returns a register that was given back, or a new one.
  int TakeRegister(DType dtype);
  // Makes a register available to TakeRegister().
  void GiveRegister(int slot, DType dtype);

 private:
  void WriteConstant(const ExprNode& node, char* to);

  const int64_t unit_items_;
  const int64_t tile_items_;
  const TileOps& ops_;
  Plan& plan_;
  std::array<std::vector<int>, 9> free_registers_;  // by bytes per item
};

}  // namespace cotan::cpu::expr

#endif  // COTAN_KERNELS_CPU_EXPR_PLAN_SLOTS_H_
