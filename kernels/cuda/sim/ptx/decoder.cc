// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/decoder.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/ptx/memory_unit.h"
#include "kernels/cuda/sim/ptx/opcode_name.h"
#include "kernels/cuda/sim/ptx/ptx_module.h"
#include "kernels/cuda/sim/ptx/scalar_op.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {
namespace {

// The first compute capability with griddepcontrol.
constexpr int kGridDependencyCapability = 90;

class Decoder {
 public:
  Decoder(const Instruction& instruction, const FunctionLayout& layout)
      : instruction_(instruction), layout_(layout), name_(ParseOpcodeName(instruction)) {
    operation_.instruction = &instruction;
    operation_.guard = instruction.guard;
    operation_.guard_negated = instruction.guard_negated;
  }

  absl::StatusOr<Operation> Run() {
    const absl::string_view opcode = instruction_.opcode;
    if (opcode == "ld" || opcode == "ldu" || opcode == "st") {
      COTAN_RETURN_IF_ERROR(LoadOrStore());
    } else if (opcode == "atom" || opcode == "red") {
      COTAN_RETURN_IF_ERROR(Atomic());
    } else if (opcode == "mov" || opcode == "cvta") {
      COTAN_RETURN_IF_ERROR(opcode == "mov" ? Move() : ConvertAddress());
    } else if (opcode == "bar" || opcode == "barrier") {
      COTAN_RETURN_IF_ERROR(Barrier());
    } else if (opcode == "shfl" || opcode == "vote" || opcode == "match" || opcode == "redux") {
      COTAN_RETURN_IF_ERROR(WarpWide());
    } else if (opcode == "griddepcontrol") {
      COTAN_RETURN_IF_ERROR(GridDependency());
    } else if (opcode == "cp") {
      COTAN_RETURN_IF_ERROR(AsyncCopy());
    } else if (!Simple()) {
      COTAN_RETURN_IF_ERROR(Scalar());
    }
    return std::move(operation_);
  }

 private:
  absl::Status Unsupported() const {
    return absl::UnimplementedError(absl::StrCat("PTX line ", instruction_.line, " `", instruction_.text,
                                                 "`: the interpreter has no such instruction"));
  }

  absl::Status Invalid(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("PTX line ", instruction_.line, " `", instruction_.text, "`: ", what));
  }

  absl::StatusOr<Value> Convert(const Operand& operand) const {
    Value value{.negated = operand.negated, .bits = static_cast<uint64_t>(operand.value)};
    switch (operand.kind) {
      case OperandKind::kRegister:
        value.kind = ValueKind::kRegister;
        value.reg = operand.index;
        value.mask = LowBits(std::min(64, layout_.module->registers[operand.index].type.TotalBits()));
        break;
      case OperandKind::kSpecial:
        value.kind = ValueKind::kSpecial;
        value.special = operand.special;
        break;
      case OperandKind::kSink:
        value.kind = ValueKind::kSink;
        break;
      case OperandKind::kImmediate:
      case OperandKind::kParamSymbol:
        break;
      case OperandKind::kGlobalSymbol: {
        const std::string& name = layout_.module->variables[operand.index].name;
        const auto found = layout_.symbols->find(name);
        if (found == layout_.symbols->end()) {
          return absl::NotFoundError(
              absl::StrCat("PTX line ", instruction_.line, ": variable ", name, " has no address"));
        }
        value.bits += found->second;
        break;
      }
      case OperandKind::kSharedSymbol:
        value.bits += operand.index == 1 ? layout_.shared_base : 0;
        break;
      case OperandKind::kDynamicShared:
        value.bits += layout_.dynamic_shared;
        break;
      case OperandKind::kLocalSymbol:
        value.bits += layout_.frame_base;
        break;
      case OperandKind::kName:
        return Invalid(absl::StrCat("unknown name ", operand.name));
    }
    return value;
  }

  // Appends the operands [first, last) to `values`; the offset of an address goes into the operation.
  absl::Status Append(size_t first, size_t last, std::vector<Value>& values) {
    if (last > instruction_.operands.size()) return Invalid("too few operands");
    for (size_t i = first; i < last; ++i) {
      const OperandGroup& group = instruction_.operands[i];
      for (const Operand& operand : group.elements) {
        COTAN_ASSIGN_OR_RETURN(const Value value, Convert(operand));
        if (group.address && value.kind == ValueKind::kRegister) operation_.offset = operand.value;
        values.push_back(value);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Results(size_t last) { return Append(0, last, operation_.results); }
  absl::Status Sources(size_t first) { return Append(first, instruction_.operands.size(), operation_.sources); }

  bool Simple() {
    static const auto& kinds = *new absl::flat_hash_map<absl::string_view, OpKind>({
        {"bra", OpKind::kBranch},
        {"call", OpKind::kCall},
        {"ret", OpKind::kReturn},
        {"exit", OpKind::kExit},
        {"trap", OpKind::kTrap},
        {"membar", OpKind::kFence},
        {"fence", OpKind::kFence},
        {"nanosleep", OpKind::kSleep},
        {"prefetch", OpKind::kNop},
        {"prefetchu", OpKind::kNop},
        {"pmevent", OpKind::kNop},
    });
    if (instruction_.opcode == "activemask") {
      operation_.kind = OpKind::kActiveMask;
      return Results(1).ok();
    }
    const auto found = kinds.find(instruction_.opcode);
    if (found == kinds.end()) return false;
    operation_.kind = found->second;
    operation_.message = "trap";
    // A fence of the block's scope orders nothing between blocks.
    operation_.acquire = operation_.release = !name_.Has("cta");
    return true;
  }

  // The kernels of a stream run one after the other here, so that launch_dependents does nothing.
  absl::Status GridDependency() {
    if (!name_.Has("wait") && !name_.Has("launch_dependents")) return Unsupported();
    if (std::strtol(layout_.module->target.c_str() + std::strlen("sm_"), nullptr, 10) < kGridDependencyCapability) {
      return Invalid(absl::StrCat("needs .target sm_", kGridDependencyCapability, ", found ", layout_.module->target));
    }
    operation_.kind = name_.Has("wait") ? OpKind::kGridWait : OpKind::kNop;
    return absl::OkStatus();
  }

  // The last source is added to the first, or to the product of the first two.
  absl::Status Carry() {
    const absl::string_view opcode = instruction_.opcode;
    const bool product = opcode == "mad" || opcode == "madc";
    const bool known = product || opcode == "add" || opcode == "addc" || opcode == "sub" || opcode == "subc";
    if (!known || name_.types.size() != 1 || (product && !name_.Has("lo") && !name_.Has("hi"))) return Unsupported();
    operation_.kind = OpKind::kCarry;
    operation_.type = name_.types[0];
    operation_.reads_carry = opcode.back() == 'c';
    operation_.writes_carry = name_.Has("cc");
    operation_.subtracts = opcode == "sub" || opcode == "subc";
    if (product) {
      operation_.scalar =
          *FindScalarOp({.opcode = "mul", .types = name_.types, .words = {name_.Has("hi") ? "hi" : "lo"}});
    }
    COTAN_RETURN_IF_ERROR(Results(1));
    COTAN_RETURN_IF_ERROR(Sources(1));
    return operation_.sources.size() == (product ? 3 : 2) ? absl::OkStatus() : Invalid("takes other operands");
  }

  absl::Status Scalar() {
    if (name_.Has("cc") || instruction_.opcode == "addc" || instruction_.opcode == "subc" ||
        instruction_.opcode == "madc") {
      return Carry();
    }
    const std::optional<ScalarOp> op = FindScalarOp(name_);
    if (!op.has_value()) return Unsupported();
    operation_.kind = OpKind::kScalar;
    operation_.scalar = *op;
    COTAN_RETURN_IF_ERROR(Results(1));
    COTAN_RETURN_IF_ERROR(Sources(1));
    const auto sources = static_cast<int>(operation_.sources.size());
    if (sources != op->num_sources) return Invalid(absl::StrCat("takes ", op->num_sources, " sources"));
    // A signed result fills a wider register with its sign.
    const uint64_t result_bits = LowBits(std::min(64, op->result_type.TotalBits()));
    const bool extends = op->result_type.IsSigned() && (operation_.results[0].mask & ~result_bits) != 0;
    if (!extends) operation_.warp_fn = op->warp_fn;
    return absl::OkStatus();
  }

  absl::Status Move() {
    if (name_.types.size() != 1 || !name_.words.empty()) return Unsupported();
    COTAN_RETURN_IF_ERROR(Results(1));
    COTAN_RETURN_IF_ERROR(Sources(1));
    operation_.type = name_.types[0];
    if (operation_.type.bits > 64) return Unsupported();
    operation_.kind = OpKind::kCopy;
    if (operation_.results.size() > 1) operation_.kind = OpKind::kUnpack;
    if (operation_.sources.size() > 1) operation_.kind = OpKind::kPack;
    return absl::OkStatus();
  }

  absl::Status ConvertAddress() {
    COTAN_RETURN_IF_ERROR(Results(1));
    COTAN_RETURN_IF_ERROR(Sources(1));
    operation_.kind = OpKind::kScalar;
    const bool to = name_.Has("to");
    COTAN_ASSIGN_OR_RETURN(operation_.space, ParseSpace());
    const uint64_t window = WindowOf(operation_.space);
    operation_.sources.push_back({.bits = to ? 0 - window : window});
    operation_.scalar = *FindScalarOp({.opcode = "add", .types = {{TypeClass::kUnsigned, 64}}, .words = {}});
    operation_.warp_fn = operation_.scalar.warp_fn;
    return absl::OkStatus();
  }

  absl::StatusOr<Space> ParseSpace() const {
    for (const absl::string_view word : name_.words) {
      if (word == "global") return Space::kGlobal;
      if (word == "const") return Space::kConst;
      if (word == "shared" || word == "shared::cta") return Space::kShared;
      if (word == "local") return Space::kLocal;
      if (word == "param" || word == "param::entry" || word == "param::func") return Space::kParam;
      if (word == "shared::cluster") return Unsupported();
    }
    return Space::kGeneric;
  }

  void ParseOrder() {
    operation_.acquire = name_.Has("acquire") || name_.Has("acq_rel");
    operation_.release = name_.Has("release") || name_.Has("acq_rel");
    operation_.strong = operation_.acquire || operation_.release || name_.Has("relaxed") || name_.Has("volatile") ||
                        instruction_.opcode == "atom" || instruction_.opcode == "red";
  }

  absl::Status LoadOrStore() {
    const bool load = instruction_.opcode != "st";
    if (name_.types.size() != 1 || name_.types[0].bits > 64) return Unsupported();
    operation_.kind = load ? OpKind::kLoad : OpKind::kStore;
    operation_.type = name_.types[0];
    operation_.read_only = name_.Has("nc") || instruction_.opcode == "ldu";
    COTAN_ASSIGN_OR_RETURN(operation_.space, ParseSpace());
    ParseOrder();
    if (load) COTAN_RETURN_IF_ERROR(Results(1));
    COTAN_RETURN_IF_ERROR(Sources(load ? 1 : 0));
    const size_t elements = load ? operation_.results.size() : operation_.sources.size() - 1;
    const size_t expected = name_.Has("v8") ? 8 : name_.Has("v4") ? 4 : name_.Has("v2") ? 2 : 1;
    if (elements != expected) return Invalid(absl::StrCat("takes ", expected, " elements"));
    // Parameters of a .func are in the frame of the thread.
    const OperandKind base = instruction_.operands[load ? 1 : 0].elements[0].kind;
    if (operation_.space == Space::kParam && (base == OperandKind::kLocalSymbol || !layout_.is_entry)) {
      operation_.space = Space::kLocal;
    }
    return absl::OkStatus();
  }

  absl::Status Atomic() {
    static const auto& functions = *new absl::flat_hash_map<absl::string_view, AtomicFn>({
        {"add", AtomicFn::kAdd},
        {"min", AtomicFn::kMin},
        {"max", AtomicFn::kMax},
        {"exch", AtomicFn::kExchange},
        {"cas", AtomicFn::kCompareAndSwap},
        {"and", AtomicFn::kAnd},
        {"or", AtomicFn::kOr},
        {"xor", AtomicFn::kXor},
        {"inc", AtomicFn::kIncrement},
        {"dec", AtomicFn::kDecrement},
    });
    if (name_.types.size() != 1 || name_.types[0].bits > 64 || name_.Has("v2") || name_.Has("v4")) {
      return Unsupported();
    }
    bool known = false;
    for (const absl::string_view word : name_.words) {
      if (const auto found = functions.find(word); found != functions.end()) {
        operation_.atomic = found->second;
        known = true;
      }
    }
    if (!known) return Unsupported();
    operation_.kind = OpKind::kAtomic;
    operation_.type = name_.types[0];
    COTAN_ASSIGN_OR_RETURN(operation_.space, ParseSpace());
    ParseOrder();
    COTAN_RETURN_IF_ERROR(Combination());
    const bool has_result = instruction_.opcode == "atom";
    if (has_result) COTAN_RETURN_IF_ERROR(Results(1));
    COTAN_RETURN_IF_ERROR(Sources(has_result ? 1 : 0));
    const size_t sources = operation_.atomic == AtomicFn::kCompareAndSwap ? 3 : 2;
    if (operation_.sources.size() != sources) return Invalid(absl::StrCat("takes ", sources, " sources"));
    return absl::OkStatus();
  }

  // Finds the scalar instruction that an atomic or redux applies.
  absl::Status Combination() {
    static const auto& opcodes = *new absl::flat_hash_map<AtomicFn, const char*>({
        {AtomicFn::kAdd, "add"},
        {AtomicFn::kMin, "min"},
        {AtomicFn::kMax, "max"},
        {AtomicFn::kAnd, "and"},
        {AtomicFn::kOr, "or"},
        {AtomicFn::kXor, "xor"},
    });
    const auto opcode = opcodes.find(operation_.atomic);
    if (opcode == opcodes.end()) return absl::OkStatus();
    const std::optional<ScalarOp> op =
        FindScalarOp({.opcode = opcode->second, .types = {operation_.type}, .words = {}});
    if (!op.has_value()) return Unsupported();
    operation_.scalar = *op;
    return absl::OkStatus();
  }

  absl::Status Barrier() {
    COTAN_RETURN_IF_ERROR(Sources(0));
    if (name_.Has("warp")) {
      operation_.kind = OpKind::kWarpBarrier;
      return operation_.sources.size() == 1 ? absl::OkStatus() : Invalid("takes a mask");
    }
    operation_.kind = OpKind::kBarrier;
    operation_.arrive_only = name_.Has("arrive");
    if (name_.Has("cluster")) return Unsupported();
    if (name_.Has("red")) return BarrierReduction();
    if (!operation_.arrive_only && !name_.Has("sync")) return Unsupported();
    return operation_.sources.empty() ? Invalid("takes a barrier") : absl::OkStatus();
  }

  // bar.red: the predicate is the last source.
  absl::Status BarrierReduction() {
    operation_.barrier = name_.Has("popc") ? BarrierMode::kCount
                         : name_.Has("or") ? BarrierMode::kOr
                                           : BarrierMode::kAnd;
    if (operation_.sources.size() < 3 || operation_.sources.size() > 4) return Invalid("takes 2 or 3 sources");
    operation_.results.push_back(operation_.sources.front());
    operation_.sources.erase(operation_.sources.begin());
    return absl::OkStatus();
  }

  // The mask of member lanes is the last source of each.
  absl::Status WarpWide() {
    if (!name_.Has("sync") || name_.types.size() != 1) return Unsupported();
    operation_.type = name_.types[0];
    COTAN_RETURN_IF_ERROR(Results(1));
    COTAN_RETURN_IF_ERROR(Sources(1));
    size_t sources = 2;
    if (instruction_.opcode == "shfl") {
      operation_.kind = OpKind::kShuffle;
      operation_.shuffle = name_.Has("up")     ? ShuffleMode::kUp
                           : name_.Has("down") ? ShuffleMode::kDown
                           : name_.Has("bfly") ? ShuffleMode::kButterfly
                                               : ShuffleMode::kIndex;
      sources = 4;
    } else if (instruction_.opcode == "vote") {
      operation_.kind = OpKind::kVote;
      operation_.vote = name_.Has("all")      ? VoteMode::kAll
                        : name_.Has("any")    ? VoteMode::kAny
                        : name_.Has("ballot") ? VoteMode::kBallot
                                              : VoteMode::kUniform;
    } else if (instruction_.opcode == "match") {
      if (!name_.Has("any")) return Unsupported();
      operation_.kind = OpKind::kMatch;
    } else {
      operation_.kind = OpKind::kReduce;
      operation_.atomic = name_.Has("add")   ? AtomicFn::kAdd
                          : name_.Has("min") ? AtomicFn::kMin
                          : name_.Has("max") ? AtomicFn::kMax
                          : name_.Has("and") ? AtomicFn::kAnd
                          : name_.Has("or")  ? AtomicFn::kOr
                                             : AtomicFn::kXor;
      COTAN_RETURN_IF_ERROR(Combination());
    }
    if (operation_.sources.size() != sources) return Invalid(absl::StrCat("takes ", sources, " sources"));
    return absl::OkStatus();
  }

  absl::Status AsyncCopy() {
    if (!name_.Has("async") || name_.Has("bulk") || name_.Has("mbarrier")) return Unsupported();
    if (name_.Has("commit_group")) {
      operation_.kind = OpKind::kAsyncCommit;
      return absl::OkStatus();
    }
    operation_.kind = OpKind::kAsyncWait;
    if (name_.Has("wait_all")) return absl::OkStatus();
    const auto& operands = instruction_.operands;
    if (name_.Has("wait_group")) {
      if (operands.size() != 1) return Invalid("takes a number");
      operation_.count = static_cast<int>(operands[0].elements[0].value);
      return absl::OkStatus();
    }
    operation_.kind = OpKind::kAsyncCopy;
    if (operands.size() < 3 || operands.size() > 4 || operands[1].elements[0].kind != OperandKind::kRegister) {
      return Unsupported();
    }
    operation_.count = static_cast<int>(operands[2].elements[0].value);
    if (operation_.count != 4 && operation_.count != 8 && operation_.count != 16) return Invalid("copies 4, 8 or 16");
    // Sources: shared address, global address, number of bytes read; the offsets are added here.
    COTAN_RETURN_IF_ERROR(Sources(0));
    COTAN_ASSIGN_OR_RETURN(Value shared_offset, Convert({.kind = OperandKind::kImmediate}));
    const Operand& shared = operands[0].elements[0];
    if (shared.kind == OperandKind::kRegister) shared_offset.bits = shared.value;
    if (operands.size() == 3) operation_.sources.push_back({.bits = static_cast<uint64_t>(operation_.count)});
    operation_.sources.push_back(shared_offset);
    operation_.offset = operands[1].elements[0].value;
    return absl::OkStatus();
  }

  const Instruction& instruction_;
  const FunctionLayout& layout_;
  const OpcodeName name_;
  Operation operation_;
};

}  // namespace

absl::StatusOr<Operation> Decode(const Instruction& instruction, const FunctionLayout& layout) {
  return Decoder(instruction, layout).Run();
}

}  // namespace cotan::cuda::ptx
