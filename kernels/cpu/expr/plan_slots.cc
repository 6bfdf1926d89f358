// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/plan_slots.h"

#include <cstring>

#include "kernels/cpu/expr/plan_analysis.h"

namespace cotan::cpu::expr {

int PlanSlots::Add(Slot slot) {
  const auto index = static_cast<uint16_t>(plan_.slots.size());
  plan_.slots.push_back(slot);
  if (slot.kind == Slot::Kind::kUnit) plan_.unit_slots.push_back(index);
  if (slot.kind == Slot::Kind::kMemory) plan_.memory_slots.push_back(index);
  if (slot.kind == Slot::Kind::kStreamed) plan_.streamed_slots.push_back(index);
  if (slot.kind == Slot::Kind::kKept) plan_.kept_slots.push_back(index);
  return index;
}

int PlanSlots::AddShared(int64_t bytes) {
  const int slot = Add({Slot::Kind::kShared, 0, plan_.shared_bytes, 0});
  plan_.shared_bytes += AlignPlanBytes(bytes);
  return slot;
}

int PlanSlots::AddUnit(DType dtype) {
  const int slot = Add({Slot::Kind::kUnit, 0, plan_.unit_bytes, 0});
  plan_.unit_bytes += AlignPlanBytes(unit_items_ * RegisterItemBytes(dtype));
  return slot;
}

int PlanSlots::AddRegister(DType dtype) {
  const int slot = Add({Slot::Kind::kRegister, 0, plan_.register_bytes, 0});
  plan_.register_bytes += AlignPlanBytes(tile_items_ * RegisterItemBytes(dtype));
  return slot;
}

int PlanSlots::AddKept(DType dtype, int64_t chunks) {
  const int64_t step = AlignPlanBytes(tile_items_ * RegisterItemBytes(dtype));
  const int slot = Add({Slot::Kind::kKept, 0, plan_.register_bytes, step});
  plan_.register_bytes += step * chunks;
  return slot;
}

int PlanSlots::TakeRegister(DType dtype) {
  std::vector<int>& free = free_registers_[static_cast<size_t>(RegisterItemBytes(dtype))];
  if (free.empty()) return AddRegister(dtype);
  const int slot = free.back();
  free.pop_back();
  return slot;
}

void PlanSlots::GiveRegister(int slot, DType dtype) {
  free_registers_[static_cast<size_t>(RegisterItemBytes(dtype))].push_back(slot);
}

int PlanSlots::AddConstant(const ExprNode& node, int64_t items) {
  const int64_t item_bytes = RegisterItemBytes(node.dtype);
  const auto offset = static_cast<int64_t>(plan_.constants.size() * sizeof(Plan::Block));
  plan_.constants.resize(plan_.constants.size() +
                         static_cast<size_t>(AlignPlanBytes(items * item_bytes)) / sizeof(Plan::Block));
  char* to = plan_.constants.data()->bytes + offset;
  char value[8];
  WriteConstant(node, value);
  for (int64_t i = 0; i < items; ++i) std::memcpy(to + i * item_bytes, value, static_cast<size_t>(item_bytes));
  return Add({Slot::Kind::kConstant, 0, offset, 0});
}

void PlanSlots::WriteConstant(const ExprNode& node, char* to) {
  const auto write = [to](auto value) { std::memcpy(to, &value, sizeof(value)); };
  switch (RegisterDType(node.dtype)) {
    case DType::kBool:
      return write(static_cast<uint8_t>(node.int_value != 0));
    case DType::kUInt8:
    case DType::kInt8:
      return write(static_cast<uint8_t>(node.int_value));
    case DType::kInt16:
      return write(static_cast<int16_t>(node.int_value));
    case DType::kInt32:
      return write(static_cast<int32_t>(node.int_value));
    case DType::kInt64:
      return write(node.int_value);
    case DType::kFloat64:
      return write(node.float_value);
    default: {
      auto value = static_cast<float>(node.float_value);
      if (const TileFn round = ops_.find_round(node.dtype)) round(&value, &value, nullptr, nullptr, 1);
      return write(value);
    }
  }
}

}  // namespace cotan::cpu::expr
