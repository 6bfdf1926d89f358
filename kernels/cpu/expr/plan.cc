#include "kernels/cpu/expr/plan.h"

#include <algorithm>
#include <cstring>
#include <utility>


namespace cotan::cpu::expr {
namespace {

using namespace serialization;  // NOLINT: the enumerators of ScalarFn are many

// Bytes of values that a unit may keep from phase to phase: they stay in the
// second-level cache.
constexpr int64_t kKeepBudget = 256 * 1024;

int64_t Align(int64_t bytes) { return (bytes + 63) / 64 * 64; }

// How often a value changes.
enum class Home : uint8_t {
  kUniform,  // one value for the whole domain
  kHoisted,  // the same tile everywhere
  kUnit,     // a reduced value
  kTile,
};

// Rough cost of a function, in additions of floats.
double FnCost(ScalarFn fn, DType dtype) {
  const double slow = dtype == DType::kFloat32 ? 1 : 4;
  switch (fn) {
    case FN_DIV:
    case FN_SQRT:
    case FN_RSQRT:
    case FN_RECIPROCAL:
      return 3;
    case FN_EXP:
    case FN_EXPM1:
    case FN_LOG:
    case FN_LOG1P:
    case FN_TANH:
    case FN_LOGISTIC:
    case FN_ERF:
    case FN_SIN:
    case FN_COS:
      return 12 * slow;
    case FN_RANDOM_UNIFORM:
      return 16;
    case FN_FLOOR_DIV:
    case FN_TRUNC_DIV:
    case FN_REMAINDER:
    case FN_FMOD:
      return 20;
    default:
      break;
  }
  if (fn == FN_POW || fn == FN_ATAN2 || fn == FN_HYPOT) return 60;
  if (fn >= FN_EXP2 && fn <= FN_DIGAMMA) return 60;
  return 1;
}

// Functions whose result needs no rounding to f16 or bf16 when the operands are
// of that precision.
bool IsExactInHalf(ScalarFn fn) {
  switch (fn) {
    case FN_NEG:
    case FN_ABS:
    case FN_SIGN:
    case FN_RELU:
    case FN_CEIL:
    case FN_FLOOR:
    case FN_ROUND:
    case FN_TRUNC:
    case FN_MAXIMUM:
    case FN_MINIMUM:
    case FN_FMAX:
    case FN_FMIN:
    case FN_COPYSIGN:
    case FN_SELECT:
    case FN_REDUCE_MAX:
    case FN_REDUCE_MIN:
      return true;
    default:
      return false;
  }
}

bool IsHalf(DType dtype) { return dtype == DType::kFloat16 || dtype == DType::kBFloat16; }

int64_t RegisterItemBytes(DType dtype) { return static_cast<int64_t>(ByteSize(RegisterDType(dtype))); }

// What the compiler knows about a node.
struct NodeInfo {
  int same_as = -1;  // an earlier node with the same value; this one is then not computed
  bool needed = false;
  Home home = Home::kTile;
  // Full values of tiles: the first phase in which they can be computed.
  // Reduced values: the phase after which they are known, -1: before all.
  int phase = -1;
  int operand = -1;  // of leaves that walk the domain
  int slot = -1;     // main slot, once it has one
  int splat = -1;    // slot with a tile full of a uniform value
  bool kept = false;
  bool keep_decided = false;
  int first_phase = -1;  // in which the value is computed
};

class Compiler {
 public:
  Compiler(const ExprProgram& program, const KernelRequest& request, const TileOps& ops)
      : nodes_(program.nodes), program_(program), request_(request), ops_(ops), info_(program.nodes.size()) {}

  absl::StatusOr<Plan> Compile() {
    Simplify();
    MarkNeeded();
    CollectOperands();
    MakeLoops();
    Classify();
    ChooseSplits();
    EmitShared();
    EmitUnitSteps(-1, plan_.unit_start);
    SelectPhases();
    for (int p = 0; p < num_phases_; ++p) EmitPhase(p);
    if (!status_.ok()) return status_;
    Estimate();
    plan_.register_bytes = Align(plan_.register_bytes);
    plan_.constants = std::move(constants_);
    return std::move(plan_);
  }

 private:
  const Tiling& tiling() const { return plan_.tiling; }
  NodeInfo& info(int node) { return info_[static_cast<size_t>(node)]; }
  ExprNode& node(int index) { return nodes_[static_cast<size_t>(index)]; }
  int num_nodes() const { return static_cast<int>(nodes_.size()); }
  int Arity(int index) { return ExprArity(node(index).fn); }
  int OperandOf(int index, int k) { return node(index).operands[static_cast<size_t>(k)]; }
  int64_t TileItems() const { return tiling().row_block * tiling().col_block; }

  // --- Analysis ---------------------------------------------------------------

  // Resolves casts that change no register, and rewrites what has a cheaper form.
  void Simplify() {
    for (int i = 0; i < num_nodes(); ++i) {
      ExprNode& n = node(i);
      for (int k = 0; k < Arity(i); ++k) {
        int& operand = n.operands[static_cast<size_t>(k)];
        if (info(operand).same_as >= 0) operand = info(operand).same_as;
      }
      if (n.fn == FN_GT || n.fn == FN_GE) {
        n.fn = n.fn == FN_GT ? FN_LT : FN_LE;
        std::swap(n.operands[0], n.operands[1]);
      }
      if (n.fn == FN_POW && node(n.operands[1]).fn == FN_CONSTANT && IsFloatingPoint(n.dtype) &&
          node(n.operands[1]).float_value == 2) {
        n.fn = FN_MUL;
        n.operands[1] = n.operands[0];
      }
      if (n.fn == FN_CAST && n.level == node(n.operands[0]).level && CastKeepsRegister(n.operands[0], n.dtype)) {
        info(i).same_as = n.operands[0];
      }
    }
  }

  bool CastKeepsRegister(int from, DType to) {
    const DType dtype = program_.nodes[static_cast<size_t>(from)].dtype;
    return dtype == to || (IsHalf(dtype) && to == DType::kFloat32) || (dtype == DType::kBool && to == DType::kUInt8);
  }

  int Stored(size_t output) {
    const int stored = program_.outputs[output];
    return info(stored).same_as >= 0 ? info(stored).same_as : stored;
  }

  void MarkNeeded() {
    for (size_t k = 0; k < program_.outputs.size(); ++k) info(Stored(k)).needed = true;
    for (int i = num_nodes() - 1; i >= 0; --i) {
      if (!info(i).needed) continue;
      for (int k = 0; k < Arity(i); ++k) info(OperandOf(i, k)).needed = true;
    }
  }

  void AddOperand(PlanOperand operand, DimVector strides) {
    plan_.operands.push_back(operand);
    strides_.push_back(std::move(strides));
  }

  // One for each input (in order), each output, then each position.
  void CollectOperands() {
    for (size_t i = 0; i < request_.inputs.size(); ++i) {
      const TensorSpec& input = request_.inputs[i];
      // A generator state is not walked.
      const bool walked = std::any_of(nodes_.begin(), nodes_.end(), [&](const ExprNode& n) {
        return n.fn == FN_INPUT && n.index == static_cast<int>(i);
      });
      AddOperand({PlanOperand::Kind::kInput, static_cast<int>(i), static_cast<int64_t>(ByteSize(input.dtype))},
                 walked ? BroadcastStrides(input.layout, program_.domain_sizes)
                        : DimVector(program_.domain_sizes.size(), 0));
    }
    for (size_t k = 0; k < request_.outputs.size(); ++k) {
      const TensorSpec& output = request_.outputs[k];
      AddOperand({PlanOperand::Kind::kOutput, static_cast<int>(k), static_cast<int64_t>(ByteSize(output.dtype))},
                 BroadcastStrides(output.layout, program_.domain_sizes));
    }
    for (int i = 0; i < num_nodes(); ++i) {
      const ExprNode& n = node(i);
      if (!info(i).needed) continue;
      if (n.fn == FN_INPUT) info(i).operand = n.index;
      if (n.fn != FN_RANDOM_UNIFORM && n.fn != FN_IOTA) continue;
      DimVector strides(program_.domain_sizes.size(), 0);
      if (n.fn == FN_IOTA) {
        if (program_.domain_sizes[static_cast<size_t>(n.index)] != 1) strides[static_cast<size_t>(n.index)] = 1;
      } else {
        strides = ContiguousStrides(program_.domain_sizes);
      }
      info(i).operand = static_cast<int>(plan_.operands.size());
      AddOperand({PlanOperand::Kind::kPosition, 0, 1}, std::move(strides));
    }
  }

  // Operands that visit more of the domain decide its order first, outputs
  // before inputs.
  std::vector<int> Priority() {
    std::vector<int> order(plan_.operands.size());
    std::vector<double> weight(order.size(), 0);
    for (size_t k = 0; k < order.size(); ++k) {
      order[k] = static_cast<int>(k);
      double visited = 1;
      for (size_t d = 0; d < strides_[k].size(); ++d) {
        if (strides_[k][d] != 0) visited *= static_cast<double>(program_.domain_sizes[d]);
      }
      if (plan_.operands[k].kind == PlanOperand::Kind::kOutput) visited *= 1.5;
      if (plan_.operands[k].kind != PlanOperand::Kind::kPosition) weight[k] = visited;
    }
    std::stable_sort(order.begin(), order.end(), [&](int a, int b) {
      return weight[static_cast<size_t>(a)] > weight[static_cast<size_t>(b)];
    });
    return order;
  }

  void MakeLoops() {
    const std::vector<LoopDim> dims =
        OrderLoops(program_.domain_sizes, program_.reduce, strides_, Priority());
    // Small tiles where registers are wide or many.
    int64_t bytes = 0;
    for (int i = 0; i < num_nodes(); ++i) {
      if (info(i).needed) bytes = std::max(bytes, RegisterItemBytes(node(i).dtype));
    }
    const int64_t max_tile = bytes > 4 ? kMaxTile / 2 : kMaxTile;
    plan_.tiling = MakeTiling(dims, static_cast<int>(plan_.operands.size()), max_tile);
  }

  bool IsUniformOperand(int operand) {
    const DimVector& strides = strides_[static_cast<size_t>(operand)];
    return std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride == 0; });
  }

  // The operand's tile is the same for all units and chunks.
  bool IsHoistedOperand(int operand) {
    const auto k = static_cast<size_t>(operand);
    for (const auto* loops : {&tiling().unit_loops, &tiling().chunk_loops}) {
      for (const Tiling::Loop& loop : *loops) {
        if (loop.steps[k] != 0 && loop.count != 1) return false;
      }
    }
    return true;
  }

  Home HomeOf(int i) {
    const ExprNode& n = node(i);
    if (IsExprReduction(n.fn)) return Home::kUnit;
    if (n.fn == FN_CONSTANT || n.fn == FN_SIZE) return Home::kUniform;
    if (n.fn == FN_RANDOM_UNIFORM) return Home::kTile;
    const bool reduced = program_.has_reduce_dims && n.level == ExprLevel::kReduced;
    if (info(i).operand >= 0) {
      if (IsUniformOperand(info(i).operand)) return Home::kUniform;
      if (reduced) return Home::kUnit;
      // With a single tile there is nothing to gain from an earlier computation.
      const bool many_tiles = tiling().units * tiling().chunks > 1;
      return many_tiles && IsHoistedOperand(info(i).operand) ? Home::kHoisted : Home::kTile;
    }
    Home home = Home::kUniform;
    for (int k = 0; k < Arity(i); ++k) home = std::max(home, info(OperandOf(i, k)).home);
    if (home == Home::kUnit && !reduced) return Home::kTile;
    return home;
  }

  // See NodeInfo::phase.
  int PhaseOf(int i) {
    int phase = -1;
    for (int k = 0; k < Arity(i); ++k) {
      const NodeInfo& operand = info(OperandOf(i, k));
      const bool waits = info(i).home == Home::kTile || IsExprReduction(node(i).fn);
      phase = std::max(phase, operand.home == Home::kUnit && waits ? operand.phase + 1 : operand.phase);
    }
    const bool visits = info(i).home == Home::kTile || IsExprReduction(node(i).fn);
    return visits ? std::max(phase, 0) : phase;
  }

  void Classify() {
    for (int i = 0; i < num_nodes(); ++i) {
      if (!info(i).needed) continue;
      info(i).home = HomeOf(i);
      info(i).phase = PhaseOf(i);
      if (info(i).home == Home::kTile || IsExprReduction(node(i).fn)) {
        num_phases_ = std::max(num_phases_, info(i).phase + 1);
      }
    }
    for (size_t k = 0; k < program_.outputs.size(); ++k) {
      if (OutputIsFull(k)) num_phases_ = std::max(num_phases_, 1);
    }
  }

  // Whether output k is stored tile by tile.
  bool OutputIsFull(size_t k) {
    const ExprNode& n = program_.nodes[static_cast<size_t>(program_.outputs[k])];
    return !program_.has_reduce_dims || n.level == ExprLevel::kFull;
  }

  void ChooseSplits() {
    const bool reduces = std::any_of(nodes_.begin(), nodes_.end(), [](const ExprNode& n) {
      return IsExprReduction(n.fn);
    });
    if (!reduces || tiling().units >= 32) return;
    plan_.splits = std::clamp<int64_t>(tiling().chunks / 16, 1, 32);
  }

  // --- Slots ------------------------------------------------------------------

  int AddSlot(Slot slot) {
    plan_.slots.push_back(slot);
    return static_cast<int>(plan_.slots.size()) - 1;
  }

  int SharedSlot(int64_t bytes) {
    const int slot = AddSlot({Slot::Kind::kShared, 0, plan_.shared_bytes, 0});
    plan_.shared_bytes += Align(bytes);
    return slot;
  }

  int UnitSlot(DType dtype) {
    const int slot = AddSlot({Slot::Kind::kUnit, 0, plan_.unit_bytes, 0});
    plan_.unit_bytes += Align(tiling().unit_width() * RegisterItemBytes(dtype));
    return slot;
  }

  int NewRegister(DType dtype) {
    const int slot = AddSlot({Slot::Kind::kRegister, 0, plan_.register_bytes, 0});
    plan_.register_bytes += Align(TileItems() * RegisterItemBytes(dtype));
    return slot;
  }

  // A register that no value of the current phase lives in.
  int TakeRegister(DType dtype) {
    std::vector<int>& free = free_registers_[static_cast<size_t>(RegisterItemBytes(dtype))];
    if (free.empty()) return NewRegister(dtype);
    const int slot = free.back();
    free.pop_back();
    return slot;
  }

  void GiveRegister(int slot, DType dtype) {
    free_registers_[static_cast<size_t>(RegisterItemBytes(dtype))].push_back(slot);
  }

  bool TileIsDense(int operand) {
    const auto k = static_cast<size_t>(operand);
    return (tiling().col_block == 1 || tiling().col_strides[k] == 1) &&
           (tiling().row_block == 1 || tiling().row_strides[k] == tiling().col_block);
  }

  // A slot in memory if the operand's tiles are dense there, otherwise -1.
  int DirectSlot(int operand, DType dtype) {
    if (IsHalf(dtype) || !TileIsDense(operand)) return -1;
    return AddSlot({Slot::Kind::kMemory, operand, 0, 0});
  }

  // --- Constants and shared values ----------------------------------------------

  // Stores `items` copies of the node's constant and returns their slot.
  int ConstantSlot(const ExprNode& n, int64_t items) {
    const int64_t item_bytes = RegisterItemBytes(n.dtype);
    const auto offset = static_cast<int64_t>(constants_.size() * sizeof(Plan::Block));
    constants_.resize(constants_.size() + static_cast<size_t>(Align(items * item_bytes)) / sizeof(Plan::Block));
    char* to = constants_.data()->bytes + offset;
    char value[8];
    WriteConstant(n, value);
    for (int64_t i = 0; i < items; ++i) std::memcpy(to + i * item_bytes, value, static_cast<size_t>(item_bytes));
    return AddSlot({Slot::Kind::kConstant, 0, offset, 0});
  }

  void WriteConstant(const ExprNode& n, char* to) {
    const auto write = [to](auto value) { std::memcpy(to, &value, sizeof(value)); };
    switch (RegisterDType(n.dtype)) {
      case DType::kBool:
        return write(static_cast<uint8_t>(n.int_value != 0));
      case DType::kUInt8:
      case DType::kInt8:
        return write(static_cast<uint8_t>(n.int_value));
      case DType::kInt16:
        return write(static_cast<int16_t>(n.int_value));
      case DType::kInt32:
        return write(static_cast<int32_t>(n.int_value));
      case DType::kInt64:
        return write(n.int_value);
      case DType::kFloat64:
        return write(n.float_value);
      default: {
        auto value = static_cast<float>(n.float_value);
        if (const TileFn round = ops_.find_round(n.dtype)) round(&value, &value, nullptr, nullptr, 1);
        return write(value);
      }
    }
  }

  bool InputIsEmpty(int input) {
    return NumElements(request_.inputs[static_cast<size_t>(input)].layout.sizes) == 0;
  }

  void EmitShared() {
    for (int i = 0; i < num_nodes(); ++i) {
      if (!info(i).needed || info(i).same_as >= 0) continue;
      if (info(i).home == Home::kUniform) {
        EmitUniform(i);
      } else if (info(i).home == Home::kHoisted) {
        EmitHoisted(i);
      }
    }
  }

  void EmitUniform(int i) {
    ExprNode& n = node(i);
    if (n.fn == FN_IOTA || (n.fn == FN_INPUT && InputIsEmpty(n.index))) {
      // A dimension of size 1, or an input without elements to read.
      n.float_value = 0;
      n.int_value = 0;
      n.fn = FN_CONSTANT;
    }
    if (n.fn == FN_CONSTANT || n.fn == FN_SIZE) {
      info(i).slot = ConstantSlot(n, 1);
      return;
    }
    if (n.fn == FN_INPUT && !IsHalf(n.dtype)) {
      info(i).slot = AddSlot({Slot::Kind::kBase, n.index, 0, 0});
      return;
    }
    info(i).slot = SharedSlot(8);
    if (n.fn == FN_INPUT) {
      plan_.shared_uniform.push_back(LoadStep(i, info(i).slot, 0, 0));
    } else {
      EmitCompute(i, info(i).slot, Context::kUniform, plan_.shared_uniform);
    }
  }

  void EmitHoisted(int i) {
    const ExprNode& n = node(i);
    const int operand = info(i).operand;
    if (n.fn == FN_INPUT && !IsHalf(n.dtype) && TileIsDense(operand)) {
      info(i).slot = AddSlot({Slot::Kind::kBase, operand, 0, 0});
      return;
    }
    info(i).slot = SharedSlot(TileItems() * RegisterItemBytes(n.dtype));
    if (operand >= 0) {
      const auto k = static_cast<size_t>(operand);
      plan_.shared_tile.push_back(
          LoadStep(i, info(i).slot, tiling().row_strides[k], tiling().col_strides[k]));
      RoundIota(i, info(i).slot, plan_.shared_tile);
    } else {
      EmitCompute(i, info(i).slot, Context::kHoisted, plan_.shared_tile);
    }
  }

  // A tile full of the uniform value of node i.
  int Splat(int i) {
    if (info(i).splat >= 0) return info(i).splat;
    const ExprNode& n = node(i);
    if (n.fn == FN_CONSTANT || n.fn == FN_SIZE) {
      info(i).splat = ConstantSlot(n, TileItems());
      return info(i).splat;
    }
    info(i).splat = SharedSlot(TileItems() * RegisterItemBytes(n.dtype));
    Step step;
    step.kind = Step::Kind::kSpread;
    step.out = static_cast<uint16_t>(info(i).splat);
    step.in[0] = static_cast<uint16_t>(info(i).slot);
    step.copy = ops_.find_load(RegisterDType(n.dtype));
    plan_.shared_tile.push_back(step);
    return info(i).splat;
  }

  // --- Steps ------------------------------------------------------------------

  enum class Context : uint8_t { kUniform, kHoisted, kUnit, kTile };

  // Loads or computes the leaf `i` from its operand.
  Step LoadStep(int i, int out, int64_t row_stride, int64_t col_stride) {
    const ExprNode& n = node(i);
    Step step;
    step.out = static_cast<uint16_t>(out);
    step.operand = info(i).operand;
    step.dtype = RegisterDType(n.dtype);
    step.row_stride = row_stride;
    step.col_stride = col_stride;
    if (n.fn == FN_INPUT) {
      step.kind = Step::Kind::kLoad;
      step.copy = ops_.find_load(n.dtype);
    } else if (n.fn == FN_IOTA) {
      step.kind = Step::Kind::kIota;
    } else {
      step.kind = Step::Kind::kRandom;
      step.index = n.index;
      step.slice = n.slice;
      step.state_stride = request_.inputs[static_cast<size_t>(n.index)].layout.strides[0];
    }
    return step;
  }

  // Positions are written to f32 registers unrounded.
  void RoundIota(int i, int slot, std::vector<Step>& steps) {
    if (node(i).fn != FN_IOTA || !IsHalf(node(i).dtype)) return;
    Step step;
    step.out = static_cast<uint16_t>(slot);
    step.in[0] = static_cast<uint16_t>(slot);
    step.fn = ops_.find_round(node(i).dtype);
    steps.push_back(step);
  }

  // The slot in which operand `i` of a step in `context` lies; *scalar tells
  // that it is one element, which only happens if `allow_scalar`.
  int OperandSlot(int i, Context context, bool allow_scalar, bool* scalar) {
    *scalar = false;
    const NodeInfo& operand = info(i);
    if (context == Context::kUniform) return operand.slot;
    if (operand.home == Home::kUniform) {
      *scalar = allow_scalar;
      return allow_scalar ? operand.slot : Splat(i);
    }
    if (operand.home == Home::kUnit && context == Context::kTile && tiling().mode != TileMode::kElements) {
      *scalar = allow_scalar && tiling().mode == TileMode::kRows && tiling().row_block == 1;
      return *scalar ? operand.slot : SpreadSlot(i);
    }
    return operand.slot;
  }

  // Whether operand k of a step could be one element.
  bool MayBeScalar(int i, Context context) {
    const NodeInfo& operand = info(i);
    if (context == Context::kUniform) return false;
    if (operand.home == Home::kUniform) return true;
    return operand.home == Home::kUnit && context == Context::kTile && tiling().mode == TileMode::kRows &&
           tiling().row_block == 1;
  }

  // The dtype that a function works in: that of its last operand, as the
  // program has it (a bool may stand in for the u8 that it was cast to).
  DType WorkDType(int i) {
    const ExprNode& n = program_.nodes[static_cast<size_t>(i)];
    const int last = n.operands[static_cast<size_t>(Arity(i) - 1)];
    return RegisterDType(program_.nodes[static_cast<size_t>(last)].dtype);
  }

  void EmitCompute(int i, int out, Context context, std::vector<Step>& steps) {
    const ExprNode& n = node(i);
    Step step;
    step.out = static_cast<uint16_t>(out);
    // The first operand that may be a scalar is, if the function has that form.
    int scalars = 0;
    const DType dtype = WorkDType(i);
    for (int k = 0; k < Arity(i) && n.fn != FN_CAST && scalars == 0; ++k) {
      if (MayBeScalar(OperandOf(i, k), context) && ops_.find(n.fn, dtype, 1 << k) != nullptr) scalars = 1 << k;
    }
    for (int k = 0; k < Arity(i); ++k) {
      bool scalar = false;
      step.in[static_cast<size_t>(k)] =
          static_cast<uint16_t>(OperandSlot(OperandOf(i, k), context, scalars == (1 << k), &scalar));
    }
    if (n.fn == FN_CAST) {
      step.fn = RegisterDType(n.dtype) == dtype ? nullptr : ops_.find_cast(dtype, RegisterDType(n.dtype));
    } else {
      step.fn = ops_.find(n.fn, dtype, scalars);
      if (step.fn == nullptr) {
        status_ = absl::UnimplementedError(absl::StrCat("expressions have no ", ExprFnName(n.fn), " of ", DTypeName(dtype)));
      }
    }
    const TileFn round = IsHalf(n.dtype) && !IsExactInHalf(n.fn) ? ops_.find_round(n.dtype) : nullptr;
    if (step.fn != nullptr) {
      steps.push_back(step);
      step.in[0] = step.out;
    }
    if (round != nullptr) {
      step.fn = round;
      steps.push_back(step);
    }
  }

  Step StoreStep(size_t output, int slot, bool unit) {
    Step step;
    step.kind = Step::Kind::kStore;
    step.in[0] = static_cast<uint16_t>(slot);
    step.operand = static_cast<int>(request_.inputs.size() + output);
    step.copy = ops_.find_store(request_.outputs[output].dtype);
    SetStrides(step, unit);
    return step;
  }

  // Strides of the step's operand through a tile, or through the reduced values
  // of a unit.
  void SetStrides(Step& step, bool unit) {
    const auto k = static_cast<size_t>(step.operand);
    if (unit && tiling().mode != TileMode::kElements) {
      step.row_stride = 0;
      step.col_stride = tiling().mode == TileMode::kRows ? tiling().row_strides[k] : tiling().col_strides[k];
    } else {
      step.row_stride = tiling().row_strides[k];
      step.col_stride = tiling().col_strides[k];
    }
  }

  // --- Units ------------------------------------------------------------------

  // Reduced values that become known after phase `phase`, and their stores.
  void EmitUnitSteps(int phase, std::vector<Step>& steps) {
    for (int i = 0; i < num_nodes(); ++i) {
      NodeInfo& value = info(i);
      if (!value.needed || value.same_as >= 0 || value.home != Home::kUnit || value.phase != phase) continue;
      if (IsExprReduction(node(i).fn)) continue;
      value.slot = UnitSlot(node(i).dtype);
      if (node(i).fn == FN_INPUT) {
        Step step = LoadStep(i, value.slot, 0, 0);
        SetStrides(step, /*unit=*/true);
        steps.push_back(step);
      } else {
        EmitCompute(i, value.slot, Context::kUnit, steps);
      }
    }
    for (size_t k = 0; k < program_.outputs.size(); ++k) {
      const int stored = Stored(k);
      if (OutputIsFull(k) || info(stored).phase != phase) continue;
      const int slot = info(stored).home == Home::kUniform ? Splat(stored) : info(stored).slot;
      steps.push_back(StoreStep(k, slot, /*unit=*/true));
    }
  }

  // --- Phases -----------------------------------------------------------------

  // Additions that computing the tile of node i from memory again takes.
  double RecomputeCost(int i) {
    const NodeInfo& value = info(i);
    if (value.home != Home::kTile) return 0;
    if (node(i).fn == FN_INPUT) return TileIsDense(value.operand) && !IsHalf(node(i).dtype) ? 0 : 4;
    double cost = FnCost(node(i).fn, node(i).dtype);
    for (int k = 0; k < Arity(i) && cost < 100; ++k) cost += RecomputeCost(OperandOf(i, k));
    return cost;
  }

  bool ShouldKeep(int i) {
    if (plan_.splits > 1) return false;
    const double cost = RecomputeCost(i);
    if (tiling().chunks <= 1) return cost > 0;
    const int64_t bytes = tiling().chunks * Align(TileItems() * RegisterItemBytes(node(i).dtype));
    if (cost < 4 || kept_bytes_ + bytes > kKeepBudget) return false;
    kept_bytes_ += bytes;
    return true;
  }

  // Adds what node i needs in phase p to the phase's set.
  void Need(int i, int p) {
    NodeInfo& value = info(i);
    std::vector<bool>& set = sets_[static_cast<size_t>(p)];
    if (value.home != Home::kTile || set[static_cast<size_t>(i)]) return;
    if (value.first_phase >= 0 && value.first_phase < p) {
      if (!value.keep_decided) value.kept = ShouldKeep(i);
      value.keep_decided = true;
      if (value.kept) return;
    }
    set[static_cast<size_t>(i)] = true;
    if (value.first_phase < 0) value.first_phase = p;
    for (int k = 0; k < Arity(i); ++k) Need(OperandOf(i, k), p);
  }

  // The phase in which output k, stored tile by tile, is written.
  int StorePhase(size_t k) { return std::max(info(Stored(k)).phase, 0); }

  void SelectPhases() {
    sets_.assign(static_cast<size_t>(num_phases_), std::vector<bool>(nodes_.size(), false));
    for (int p = 0; p < num_phases_; ++p) {
      for (int i = 0; i < num_nodes(); ++i) {
        if (info(i).needed && IsExprReduction(node(i).fn) && info(i).phase == p) Need(OperandOf(i, 0), p);
      }
      for (size_t k = 0; k < program_.outputs.size(); ++k) {
        if (OutputIsFull(k) && StorePhase(k) == p) Need(Stored(k), p);
      }
    }
  }

  // In column or row mode: the reduced value of node i spread over a tile, made
  // at the start of the phase.
  int SpreadSlot(int i) {
    int& slot = spread_[static_cast<size_t>(i)];
    if (slot >= 0) return slot;
    // A register of its own, as the phase's other values come after it.
    slot = NewRegister(node(i).dtype);
    Step step;
    step.kind = Step::Kind::kSpread;
    step.out = static_cast<uint16_t>(slot);
    step.in[0] = static_cast<uint16_t>(info(i).slot);
    step.copy = ops_.find_load(RegisterDType(node(i).dtype));
    step.row_stride = tiling().mode == TileMode::kRows ? 1 : 0;
    step.col_stride = tiling().mode == TileMode::kRows ? 0 : 1;
    phase_->start.push_back(step);
    return slot;
  }

  // Last node of the phase that uses each node; num_nodes() if used at its end.
  std::vector<int> LastUses(int p) {
    std::vector<int> last(nodes_.size(), -1);
    for (int i = 0; i < num_nodes(); ++i) {
      const bool computed = sets_[static_cast<size_t>(p)][static_cast<size_t>(i)];
      const bool reduced = info(i).needed && IsExprReduction(node(i).fn) && info(i).phase == p;
      if (!computed && !reduced) continue;
      for (int k = 0; k < Arity(i); ++k) last[static_cast<size_t>(OperandOf(i, k))] = i;
    }
    for (size_t k = 0; k < program_.outputs.size(); ++k) {
      if (OutputIsFull(k) && StorePhase(k) == p) last[static_cast<size_t>(Stored(k))] = num_nodes();
    }
    return last;
  }

  // Whether output k may be written where node i computes it: nothing that the
  // phase reads afterwards may lie in its memory.
  bool CanComputeInto(size_t k, int i, int p) {
    const int operand = static_cast<int>(request_.inputs.size() + k);
    if (IsHalf(request_.outputs[k].dtype) || !TileIsDense(operand)) return false;
    for (int later = i + 1; later < num_nodes(); ++later) {
      const bool computed = sets_[static_cast<size_t>(p)][static_cast<size_t>(later)];
      const bool reduced = info(later).needed && IsExprReduction(node(later).fn) && info(later).phase == p;
      if (computed && MayAlias(later, operand)) return false;
      if (!computed && !reduced) continue;
      for (int j = 0; j < Arity(later); ++j) {
        if (MayAlias(OperandOf(later, j), operand)) return false;
      }
    }
    // Stores of the phase's end read inputs, too.
    for (size_t other = 0; other < program_.outputs.size(); ++other) {
      if (other != k && OutputIsFull(other) && StorePhase(other) == p && MayAlias(Stored(other), operand)) return false;
    }
    return true;
  }

  // Whether node i is an input that may have the memory of output operand `output`.
  bool MayAlias(int i, int output) {
    if (node(i).fn != FN_INPUT || info(i).operand < 0) return false;
    const auto a = static_cast<size_t>(info(i).operand);
    const auto b = static_cast<size_t>(output);
    return plan_.operands[a].item_bytes == plan_.operands[b].item_bytes && strides_[a] == strides_[b];
  }

  // The output that node i is to be computed into, or -1.
  int OutputToComputeInto(int i, int p) {
    if (node(i).fn == FN_INPUT || info(i).kept) return -1;
    for (size_t k = 0; k < program_.outputs.size(); ++k) {
      if (OutputIsFull(k) && StorePhase(k) == p && Stored(k) == i && CanComputeInto(k, i, p)) return static_cast<int>(k);
    }
    return -1;
  }

  void EmitPhase(int p) {
    plan_.phases.emplace_back();
    phase_ = &plan_.phases.back();
    spread_.assign(nodes_.size(), -1);
    direct_.assign(program_.outputs.size(), false);
    const std::vector<int> last_use = LastUses(p);
    for (int i = 0; i < num_nodes(); ++i) {
      // Before the node takes a register: it may be that of an operand.
      ReleaseOperands(i, last_use);
      if (sets_[static_cast<size_t>(p)][static_cast<size_t>(i)]) EmitTileNode(i, p);
      if (info(i).needed && IsExprReduction(node(i).fn) && info(i).phase == p) EmitReduction(i);
    }
    for (size_t k = 0; k < program_.outputs.size(); ++k) {
      if (!OutputIsFull(k) || StorePhase(k) != p || direct_[k]) continue;
      bool scalar = false;
      phase_->steps.push_back(StoreStep(k, OperandSlot(Stored(k), Context::kTile, false, &scalar), /*unit=*/false));
    }
    for (const auto& [i, slot] : live_) GiveRegister(slot, node(i).dtype);
    live_.clear();
    EmitUnitSteps(p, phase_->finish);
  }

  void EmitTileNode(int i, int p) {
    NodeInfo& value = info(i);
    const ExprNode& n = node(i);
    const bool first = value.first_phase == p;
    if (n.fn == FN_INPUT) {
      if (const int slot = DirectSlot(value.operand, n.dtype); slot >= 0) {
        value.slot = slot;
        return;
      }
    }
    const int output = OutputToComputeInto(i, p);
    if (output >= 0) {
      direct_[static_cast<size_t>(output)] = true;
      value.slot = AddSlot({Slot::Kind::kMemory, static_cast<int>(request_.inputs.size()) + output, 0, 0});
    } else if (value.kept && first) {
      value.slot = KeptSlot(n.dtype);
    } else {
      value.slot = TakeRegister(n.dtype);
      live_.push_back({i, value.slot});
    }
    if (value.operand >= 0) {
      Step step = LoadStep(i, value.slot, 0, 0);
      SetStrides(step, /*unit=*/false);
      phase_->steps.push_back(step);
      RoundIota(i, value.slot, phase_->steps);
    } else {
      EmitCompute(i, value.slot, Context::kTile, phase_->steps);
    }
  }

  int KeptSlot(DType dtype) {
    const int64_t step = Align(TileItems() * RegisterItemBytes(dtype));
    const int slot = AddSlot({Slot::Kind::kKept, 0, plan_.register_bytes, step});
    plan_.register_bytes += step * std::max<int64_t>(tiling().chunks, 1);
    return slot;
  }

  // Frees the registers of operands that node i was the last to use.
  void ReleaseOperands(int i, const std::vector<int>& last_use) {
    for (size_t k = 0; k < live_.size();) {
      if (last_use[static_cast<size_t>(live_[k].first)] == i) {
        GiveRegister(live_[k].second, node(live_[k].first).dtype);
        live_.erase(live_.begin() + static_cast<int64_t>(k));
      } else {
        ++k;
      }
    }
  }

  void EmitReduction(int i) {
    const ExprNode& n = node(i);
    Reduction reduction;
    reduction.fns = ops_.find_reduce(n.fn, RegisterDType(n.dtype));
    info(i).slot = UnitSlot(n.dtype);
    reduction.out = static_cast<uint16_t>(info(i).slot);
    reduction.total_offset = plan_.total_bytes;
    if (!IsExactInHalf(n.fn)) reduction.round = ops_.find_round(n.dtype);
    plan_.total_bytes += Align(tiling().unit_width() * reduction.fns.total_bytes);
    Step step;
    step.kind = Step::Kind::kReduce;
    step.index = static_cast<int>(plan_.reductions.size());
    bool scalar = false;
    step.in[0] = static_cast<uint16_t>(OperandSlot(n.operands[0], Context::kTile, false, &scalar));
    phase_->steps.push_back(step);
    phase_->reductions.push_back(step.index);
    plan_.reductions.push_back(reduction);
  }

  void Estimate() {
    double per_element = 0;
    for (int i = 0; i < num_nodes(); ++i) {
      if (info(i).needed && (info(i).home == Home::kTile || IsExprReduction(node(i).fn))) {
        per_element += FnCost(node(i).fn, node(i).dtype) * 0.05 * static_cast<double>(RegisterItemBytes(node(i).dtype)) / 4;
      }
    }
    plan_.cost_ns = static_cast<double>(NumElements(program_.domain_sizes)) * (per_element + 0.1);
  }

  std::vector<ExprNode> nodes_;
  const ExprProgram& program_;
  const KernelRequest& request_;
  const TileOps& ops_;
  std::vector<NodeInfo> info_;
  std::vector<DimVector> strides_;  // per operand, per domain dimension
  Plan plan_;
  absl::Status status_;
  std::vector<Plan::Block> constants_;
  int num_phases_ = 0;
  int64_t kept_bytes_ = 0;
  std::vector<std::vector<bool>> sets_;  // per phase: nodes computed in it
  std::array<std::vector<int>, 9> free_registers_;  // by bytes per item

  // Of the phase being emitted.
  Phase* phase_ = nullptr;
  std::vector<int> spread_;                            // per node: slot of its spread value, or -1
  std::vector<std::pair<int, int>> live_;               // node, its register
  std::vector<bool> direct_;                            // per output: computed into its memory
};

}  // namespace

absl::StatusOr<Plan> CompilePlan(const ExprProgram& program, const KernelRequest& request, const TileOps& ops) {
  return Compiler(program, request, ops).Compile();
}

}  // namespace cotan::cpu::expr
