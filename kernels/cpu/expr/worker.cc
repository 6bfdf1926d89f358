// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/expr/worker.h"

#include <algorithm>
#include <cstring>

#include "kernels/cpu/expr/stream.h"

namespace cotan::cpu::expr {
namespace {

int64_t Align(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// Returns the bytes of `count` pointers or offsets in the scratch.
int64_t ArrayBytes(size_t count) { return Align(static_cast<int64_t>(count * sizeof(void*))); }

template <typename T>
void WritePositions(void* out, int64_t rows, int64_t cols, int64_t start, int64_t row_stride, int64_t col_stride) {
  auto* to = static_cast<T*>(out);
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < cols; ++c) *to++ = static_cast<T>(start + r * row_stride + c * col_stride);
  }
}

// WritePositions() for unsigned integers, which wrap around, a vector at a time. Its vectors are those that every
// processor has: GCC keeps larger ones in memory.
template <typename T>
void WriteIntegers(void* out, int64_t rows, int64_t cols, int64_t start, int64_t row_stride, int64_t col_stride) {
  typedef T Vector __attribute__((vector_size(16), aligned(sizeof(T))));
  constexpr int64_t kLanes = sizeof(Vector) / sizeof(T);
  auto* to = static_cast<T*>(out);
  Vector first{};
  for (int64_t c = 0; c < kLanes; ++c) first[c] = static_cast<T>(start + c * col_stride);
  for (int64_t r = 0; r < rows; ++r, to += cols) {
    Vector positions = first + static_cast<T>(r * row_stride);
    int64_t c = 0;
    for (; c + kLanes <= cols; c += kLanes) {
      *reinterpret_cast<Vector*>(to + c) = positions;
      positions += static_cast<T>(kLanes * col_stride);
    }
    for (int64_t lane = 0; c < cols; ++c, ++lane) to[c] = positions[lane];
  }
}

void WriteIota(const Step& step, void* out, int64_t rows, int64_t cols, int64_t start) {
  switch (step.dtype) {
    case DType::kUInt8:
    case DType::kInt8:
      return WriteIntegers<uint8_t>(out, rows, cols, start, step.row_stride, step.col_stride);
    case DType::kInt16:
      return WriteIntegers<uint16_t>(out, rows, cols, start, step.row_stride, step.col_stride);
    case DType::kInt32:
      return WriteIntegers<uint32_t>(out, rows, cols, start, step.row_stride, step.col_stride);
    case DType::kInt64:
      return WriteIntegers<uint64_t>(out, rows, cols, start, step.row_stride, step.col_stride);
    case DType::kFloat64:
      return WritePositions<double>(out, rows, cols, start, step.row_stride, step.col_stride);
    default:
      return WritePositions<float>(out, rows, cols, start, step.row_stride, step.col_stride);
  }
}

}  // namespace

int64_t Worker::ScratchBytes(const Plan& plan) {
  return ArrayBytes(plan.slots.size()) + 3 * ArrayBytes(plan.operands.size()) + plan.register_bytes;
}

Worker::Worker(const Plan& plan, const TileOps& ops, const RunMemory& memory, char* scratch)
    : plan_(plan), ops_(ops), args_(*memory.args), shared_(memory.shared) {
  slots_ = reinterpret_cast<char**>(scratch);
  scratch += ArrayBytes(plan.slots.size());
  bases_ = reinterpret_cast<char**>(scratch);
  scratch += ArrayBytes(plan.operands.size());
  unit_offsets_ = reinterpret_cast<int64_t*>(scratch);
  scratch += ArrayBytes(plan.operands.size());
  offsets_ = reinterpret_cast<int64_t*>(scratch);
  scratch += ArrayBytes(plan.operands.size());
  registers_ = scratch;
  for (size_t k = 0; k < plan_.operands.size(); ++k) {
    const PlanOperand& operand = plan_.operands[k];
    void* const* pointers = operand.kind == PlanOperand::Kind::kOutput ? args_.outputs : args_.inputs;
    bases_[k] = operand.kind == PlanOperand::Kind::kPosition ? nullptr : static_cast<char*>(pointers[operand.index]);
    unit_offsets_[k] = offsets_[k] = 0;
  }
  streams_ = plan_.streams && CanStream();
  extent_ = {plan_.tiling.row_block, plan_.tiling.col_block};
  for (size_t s = 0; s < plan_.slots.size(); ++s) slots_[s] = FixedAddress(plan_.slots[s]);
}

bool Worker::CanStream() const {
  for (size_t k = 0; k < plan_.operands.size(); ++k) {
    if (plan_.operands[k].kind != PlanOperand::Kind::kOutput) continue;
    if (reinterpret_cast<uintptr_t>(bases_[k]) % kLineBytes != 0) return false;
    for (size_t other = 0; other < plan_.operands.size(); ++other) {
      if (plan_.operands[other].kind == PlanOperand::Kind::kInput && bases_[other] == bases_[k]) return false;
    }
  }
  return true;
}

void Worker::Finish() {
  if (streams_) FinishStreams();
}

void Worker::RunShared() {
  Execute(plan_.shared_uniform, Extent{});
  Execute(plan_.shared_tile, Extent{plan_.tiling.row_block, plan_.tiling.col_block});
}

void Worker::EnterUnit(int64_t unit, char* unit_values) {
  Seek(plan_.tiling.unit_loops, unit, nullptr, unit_offsets_, unit_);
  std::copy_n(unit_offsets_, plan_.operands.size(), offsets_);
  chunk_.position = kNowhere;
  for (const uint16_t s : plan_.unit_slots) slots_[s] = unit_values + plan_.slots[s].offset;
  if (plan_.tiling.chunk_loops.empty()) MoveMemorySlots();
}

void Worker::RunPhase(const Phase& phase, int64_t begin, int64_t end, char* totals) {
  totals_ = totals;
  for (const int r : phase.reductions) {
    const Reduction& reduction = plan_.reductions[static_cast<size_t>(r)];
    reduction.fns.init(totals + reduction.total_offset, UnitExtent().count());
  }
  // Reduced values are spread over a whole tile, of which the current one may be a prefix (see Tiling).
  const Extent whole = {plan_.tiling.rows_in_units ? extent_.rows : plan_.tiling.row_block,
                        plan_.tiling.cols_in_units ? extent_.cols : plan_.tiling.col_block};
  // The starts differ only if a tile has whole rows (plan_loops.cc): it is whole if it has all of the block's.
  Execute(extent_.rows == plan_.tiling.row_block ? phase.whole_tile_start : phase.start, whole);
  for (int64_t chunk = begin; chunk < end; ++chunk) {
    EnterChunk(chunk);
    Execute(IsWholeTile() ? phase.whole_tile_steps : phase.steps, extent_);
  }
}

void Worker::FinishPhase(const Phase& phase, const char* totals) {
  const Extent extent = UnitExtent();
  for (const int r : phase.reductions) {
    const Reduction& reduction = plan_.reductions[static_cast<size_t>(r)];
    char* const out = slots_[reduction.out];
    reduction.fns.finish(out, totals + reduction.total_offset, extent.count());
    if (reduction.round != nullptr) reduction.round(out, out, nullptr, nullptr, extent.count());
  }
  Execute(phase.finish, extent);
}

void Worker::CombineTotals(const Phase& phase, char* totals) {
  for (int64_t split = 1; split < plan_.splits; ++split) {
    for (const int r : phase.reductions) {
      const Reduction& reduction = plan_.reductions[static_cast<size_t>(r)];
      reduction.fns.combine(totals + reduction.total_offset,
                            totals + split * plan_.total_bytes + reduction.total_offset, UnitExtent().count());
    }
  }
}

char* Worker::FixedAddress(const Slot& slot) const {
  switch (slot.kind) {
    case Slot::Kind::kConstant:
      return const_cast<char*>(plan_.constants.data()->bytes) + slot.offset;
    case Slot::Kind::kShared:
      return shared_ + slot.offset;
    case Slot::Kind::kRegister:
    case Slot::Kind::kKept:
      return registers_ + slot.offset;
    case Slot::Kind::kStreamed:
      return streams_ ? registers_ + slot.offset : bases_[slot.operand];
    case Slot::Kind::kMemory:
    case Slot::Kind::kBase:
      return bases_[slot.operand];
    case Slot::Kind::kUnit:
      break;
  }
  return nullptr;
}

// Moves to iteration `position` of the loops: sets `offsets` to `start`, or 0 if that is null, plus those of the
// iteration.
void Worker::Seek(const std::vector<Tiling::Loop>& loops, int64_t position, const int64_t* start, int64_t* offsets,
                  Cursor& cursor) {
  const size_t operands = plan_.operands.size();
  if (position == cursor.position + 1 && !loops.empty() && cursor.inner + 1 < loops.back().count) {
    const Tiling::Loop& loop = loops.back();
    for (size_t k = 0; k < operands; ++k) offsets[k] += loop.steps[k];
    ++cursor.position;
    ++cursor.inner;
    return SetExtent(loop, cursor.inner);
  }
  cursor.position = position;
  if (start == nullptr) {
    std::fill_n(offsets, operands, 0);
  } else {
    std::copy_n(start, operands, offsets);
  }
  for (size_t l = loops.size(); l-- > 0;) {
    const Tiling::Loop& loop = loops[l];
    const int64_t at = position % loop.count;
    position /= loop.count;
    for (size_t k = 0; k < operands; ++k) offsets[k] += at * loop.steps[k];
    if (l + 1 == loops.size()) cursor.inner = at;
    SetExtent(loop, at);
  }
}

// Sets the extent of the tile for iteration `at` of `loop`.
void Worker::SetExtent(const Tiling::Loop& loop, int64_t at) {
  const Tiling& tiling = plan_.tiling;
  if (loop.axis == Tiling::Axis::kRows) {
    extent_.rows = std::min(tiling.row_block, tiling.row_size - tiling.row_block * at);
  } else if (loop.axis == Tiling::Axis::kCols) {
    extent_.cols = std::min(tiling.col_block, tiling.col_size - tiling.col_block * at);
  }
}

Worker::Extent Worker::UnitExtent() const {
  switch (plan_.tiling.mode) {
    case TileMode::kElements:
      return extent_;
    case TileMode::kRows:
      return {1, extent_.rows};
    case TileMode::kColumns:
      break;
  }
  return {1, extent_.cols};
}

void Worker::EnterChunk(int64_t chunk) {
  if (plan_.tiling.chunk_loops.empty()) return;
  Seek(plan_.tiling.chunk_loops, chunk, unit_offsets_, offsets_, chunk_);
  MoveMemorySlots();
  for (const uint16_t s : plan_.kept_slots) {
    slots_[s] = registers_ + plan_.slots[s].offset + chunk * plan_.slots[s].step;
  }
}

void Worker::MoveMemorySlots() {
  for (const uint16_t s : plan_.memory_slots) slots_[s] = OperandAddress(plan_.slots[s].operand);
  if (streams_) return;
  for (const uint16_t s : plan_.streamed_slots) slots_[s] = OperandAddress(plan_.slots[s].operand);
}

void Worker::Execute(const std::vector<Step>& steps, const Extent& extent) {
  const int64_t count = extent.count();
  for (const Step& step : steps) {
    switch (step.kind) {
      case Step::Kind::kCompute:
        step.fn(slots_[step.out], slots_[step.in[0]], slots_[step.in[1]], slots_[step.in[2]], count);
        break;
      case Step::Kind::kCode:
        step.code(slots_, registers_, totals_);
        break;
      case Step::Kind::kChain:
        ops_.chain(plan_.chain_ops.data() + step.index, step.count, slots_, count);
        break;
      case Step::Kind::kLoad:
        step.copy(slots_[step.out], OperandAddress(step.operand), extent.rows, extent.cols, step.row_stride,
                  step.col_stride);
        break;
      case Step::Kind::kStore:
        step.copy(OperandAddress(step.operand), slots_[step.in[0]], extent.rows, extent.cols, step.row_stride,
                  step.col_stride);
        break;
      case Step::Kind::kSpread:
        step.copy(slots_[step.out], slots_[step.in[0]], extent.rows, extent.cols, step.row_stride, step.col_stride);
        break;
      default:
        ExecuteRare(step, extent);
        break;
    }
  }
}

void Worker::ExecuteRare(const Step& step, const Extent& extent) {
  switch (step.kind) {
    case Step::Kind::kReduce:
      return Reduce(step, extent);
    case Step::Kind::kSumProducts:
      return SumProducts(step, extent);
    case Step::Kind::kFinishRows:
      return Reduce(step, {extent.rows, kCodeLanes});
    case Step::Kind::kStream:
      if (streams_) {
        StreamBytes(OperandAddress(step.operand), slots_[step.in[0]],
                    extent.count() * plan_.operands[static_cast<size_t>(step.operand)].item_bytes);
      }
      return;
    case Step::Kind::kRandom:
      return Draw(step, extent);
    case Step::Kind::kIota:
      return WriteIota(step, slots_[step.out], extent.rows, extent.cols, offsets_[static_cast<size_t>(step.operand)]);
    case Step::Kind::kCompute:
    case Step::Kind::kChain:
    case Step::Kind::kCode:
    case Step::Kind::kLoad:
    case Step::Kind::kStore:
    case Step::Kind::kSpread:
      return;  // in Execute()
  }
}

void Worker::Reduce(const Step& step, const Extent& extent) {
  const Reduction& reduction = plan_.reductions[static_cast<size_t>(step.index)];
  char* const total = totals_ + reduction.total_offset;
  const char* const tile = slots_[step.in[0]];
  switch (plan_.tiling.mode) {
    case TileMode::kRows:
      return reduction.fns.rows(total, tile, extent.rows, extent.cols);
    case TileMode::kColumns:
      return reduction.fns.cols(total, tile, extent.rows, extent.cols);
    case TileMode::kElements:
      return reduction.fns.cols(total, tile, 1, extent.count());
  }
}

void Worker::SumProducts(const Step& step, const Extent& extent) {
  const Reduction& reduction = plan_.reductions[static_cast<size_t>(step.index)];
  char* const total = totals_ + reduction.total_offset;
  const char* const a = slots_[step.in[0]];
  const char* const b = slots_[step.in[1]];
  switch (plan_.tiling.mode) {
    case TileMode::kRows:
      return reduction.fns.row_products(total, a, b, extent.rows, extent.cols);
    case TileMode::kColumns:
      return reduction.fns.col_products(total, a, b, extent.rows, extent.cols);
    case TileMode::kElements:
      return reduction.fns.col_products(total, a, b, 1, extent.count());
  }
}

void Worker::Draw(const Step& step, const Extent& extent) {
  const char* const state = static_cast<const char*>(args_.inputs[step.index]);
  RandomRequest request;
  uint64_t offset = 0;
  std::memcpy(&request.seed, state, sizeof(uint64_t));
  std::memcpy(&offset, state + step.state_stride * static_cast<int64_t>(sizeof(uint64_t)), sizeof(uint64_t));
  request.first_block = offset + step.slice;
  request.index = offsets_[static_cast<size_t>(step.operand)];
  request.rows = extent.rows;
  request.cols = extent.cols;
  request.row_stride = step.row_stride;
  request.col_stride = step.col_stride;
  if (request.col_stride == 1 && (request.rows == 1 || request.row_stride == request.cols)) {
    request.cols *= request.rows;
    request.rows = 1;
  }
  ops_.random(reinterpret_cast<float*>(slots_[step.out]), request);
}

}  // namespace cotan::cpu::expr
