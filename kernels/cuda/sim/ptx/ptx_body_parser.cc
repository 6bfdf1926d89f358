// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/ptx_body_parser.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "base/rounding.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/ptx/ptx_lexer.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {
namespace {

const absl::flat_hash_map<absl::string_view, SpecialRegister>& SpecialRegisters() {
  static const auto& names = *new absl::flat_hash_map<absl::string_view, SpecialRegister>({
      {"%tid.x", SpecialRegister::kThreadX},
      {"%tid.y", SpecialRegister::kThreadY},
      {"%tid.z", SpecialRegister::kThreadZ},
      {"%ctaid.x", SpecialRegister::kBlockX},
      {"%ctaid.y", SpecialRegister::kBlockY},
      {"%ctaid.z", SpecialRegister::kBlockZ},
      {"%ntid.x", SpecialRegister::kBlockSizeX},
      {"%ntid.y", SpecialRegister::kBlockSizeY},
      {"%ntid.z", SpecialRegister::kBlockSizeZ},
      {"%nctaid.x", SpecialRegister::kGridSizeX},
      {"%nctaid.y", SpecialRegister::kGridSizeY},
      {"%nctaid.z", SpecialRegister::kGridSizeZ},
      {"%laneid", SpecialRegister::kLane},
      {"%warpid", SpecialRegister::kWarp},
      {"%nwarpid", SpecialRegister::kWarpCount},
      {"%lanemask_eq", SpecialRegister::kLaneMaskEqual},
      {"%lanemask_lt", SpecialRegister::kLaneMaskLess},
      {"%lanemask_le", SpecialRegister::kLaneMaskLessEqual},
      {"%lanemask_gt", SpecialRegister::kLaneMaskGreater},
      {"%lanemask_ge", SpecialRegister::kLaneMaskGreaterEqual},
      {"%clock", SpecialRegister::kClock},
      {"%clock64", SpecialRegister::kClock},
      {"%globaltimer", SpecialRegister::kGlobalTimer},
      {"%smid", SpecialRegister::kMultiprocessor},
      {"%nsmid", SpecialRegister::kMultiprocessorCount},
      {"%total_smem_size", SpecialRegister::kStaticSharedSize},
      {"%dynamic_smem_size", SpecialRegister::kDynamicSharedSize},
  });
  return names;
}

class BodyParser {
 public:
  BodyParser(TokenCursor& cursor, const SymbolTable& symbols, Module& module, Function& function)
      : cursor_(cursor), module_(module), function_(function), scopes_({symbols, {}}) {}

  absl::Status Run() {
    COTAN_RETURN_IF_ERROR(cursor_.Expect("{"));
    int depth = 1;
    while (depth > 0) {
      if (cursor_.AtEnd()) return cursor_.Error("unterminated body");
      if (cursor_.Accept("{")) {
        scopes_.emplace_back();
        ++depth;
      } else if (cursor_.Accept("}")) {
        scopes_.pop_back();
        --depth;
      } else {
        COTAN_RETURN_IF_ERROR(Statement());
      }
    }
    return absl::OkStatus();
  }

 private:
  absl::Status Statement() {
    const absl::string_view word = cursor_.Peek().text;
    if (cursor_.Accept(";")) return absl::OkStatus();
    if (word == ".reg") return Registers();
    if (word == ".shared" || word == ".local" || word == ".param") return Variable();
    if (word == ".pragma" || word == ".branchtargets" || word == ".callprototype") return SkipStatement();
    if (cursor_.Peek(1).Is(":")) return Label();
    if (absl::StartsWith(word, ".")) return cursor_.Error("unknown directive in a body");
    return ParseInstruction();
  }

  absl::Status SkipStatement() {
    while (!cursor_.Peek().Is(";")) {
      if (cursor_.AtEnd()) return cursor_.Error("unterminated statement");
      cursor_.Next();
    }
    return cursor_.Expect(";");
  }

  absl::Status Label() {
    COTAN_ASSIGN_OR_RETURN(std::string name, cursor_.ExpectName());
    COTAN_RETURN_IF_ERROR(cursor_.Expect(":"));
    if (cursor_.Accept(".branchtargets")) {
      std::vector<std::string>& targets = function_.branch_targets[name];
      do {
        COTAN_ASSIGN_OR_RETURN(std::string target, cursor_.ExpectName());
        targets.push_back(std::move(target));
      } while (cursor_.Accept(","));
      return cursor_.Expect(";");
    }
    if (!function_.labels.emplace(name, static_cast<int>(function_.instructions.size())).second) {
      return cursor_.Error(absl::StrCat("label ", name, " is defined twice, before"));
    }
    return absl::OkStatus();
  }

  absl::Status Registers() {
    cursor_.Next();
    if (cursor_.Peek().kind != TokenKind::kWord) return cursor_.Error("expected a register type");
    const std::optional<ScalarType> type = ParseScalarType(cursor_.Peek().text.substr(1));
    if (!type.has_value()) return cursor_.Error("unknown register type");
    cursor_.Next();
    do {
      COTAN_ASSIGN_OR_RETURN(const std::string name, cursor_.ExpectName());
      if (!cursor_.Accept("<")) {
        Declare(name, RegisterOperand(name, *type));
        continue;
      }
      COTAN_ASSIGN_OR_RETURN(const int64_t count, cursor_.ExpectInteger());
      if (count < 0 || count > 1'000'000) return cursor_.Error("number of registers out of range");
      for (int64_t i = 0; i < count; ++i) {
        const std::string numbered = absl::StrCat(name, i);
        Declare(numbered, RegisterOperand(numbered, *type));
      }
      COTAN_RETURN_IF_ERROR(cursor_.Expect(">"));
    } while (cursor_.Accept(","));
    return cursor_.Expect(";");
  }

  Operand RegisterOperand(const std::string& name, ScalarType type) {
    return {.kind = OperandKind::kRegister, .index = AddRegister(module_, name, type)};
  }

  void Declare(const std::string& name, Operand operand) { scopes_.back()[name] = std::move(operand); }

  absl::Status Variable() {
    const bool shared = cursor_.Next().text == ".shared";
    COTAN_ASSIGN_OR_RETURN(const Declaration declaration, cursor_.ParseDeclaration());
    if (declaration.unsized) return cursor_.Error("an array without a size in a body");
    int64_t& bytes = shared ? function_.static_shared_bytes : function_.frame_bytes;
    bytes = RoundUp(bytes, declaration.alignment);
    Declare(declaration.name,
            {.kind = shared ? OperandKind::kSharedSymbol : OperandKind::kLocalSymbol, .index = 1, .value = bytes});
    bytes += declaration.size;
    return cursor_.Expect(";");
  }

  absl::Status ParseInstruction() {
    const Token first = cursor_.Peek();
    Instruction instruction{.line = first.line};
    if (cursor_.Accept("@")) {
      instruction.guard_negated = cursor_.Accept("!");
      COTAN_ASSIGN_OR_RETURN(const Operand guard, ParseOperand());
      if (guard.kind != OperandKind::kRegister) return cursor_.Error("expected a predicate register before");
      instruction.guard = guard.index;
    }
    if (cursor_.Peek().kind != TokenKind::kWord) return cursor_.Error("expected an instruction");
    instruction.modifiers = absl::StrSplit(cursor_.Next().text, '.');
    instruction.opcode = instruction.modifiers.front();
    instruction.modifiers.erase(instruction.modifiers.begin());
    while (!cursor_.Peek().Is(";")) {
      COTAN_ASSIGN_OR_RETURN(OperandGroup group, ParseGroup(instruction.opcode));
      instruction.operands.push_back(std::move(group));
      if (!cursor_.Accept(",") && !cursor_.Peek().Is(";")) return cursor_.Error("expected ',' or ';'");
    }
    instruction.text = cursor_.TextSince(first);
    COTAN_RETURN_IF_ERROR(cursor_.Expect(";"));
    function_.instructions.push_back(std::move(instruction));
    return absl::OkStatus();
  }

  absl::StatusOr<OperandGroup> ParseGroup(absl::string_view opcode) {
    OperandGroup group;
    absl::string_view close;
    if (cursor_.Accept("{")) close = "}";
    if (close.empty() && opcode == "call" && cursor_.Accept("(")) close = ")";
    if (!close.empty()) {
      group.vector = true;
      while (!cursor_.Accept(close)) {
        COTAN_ASSIGN_OR_RETURN(Operand operand, ParseOperand());
        group.elements.push_back(std::move(operand));
        if (!cursor_.Accept(",") && !cursor_.Peek().Is(close)) return cursor_.Error("expected ','");
      }
      return group;
    }
    group.address = cursor_.Accept("[");
    COTAN_ASSIGN_OR_RETURN(Operand operand, ParseOperand());
    group.elements.push_back(std::move(operand));
    if (group.address) {
      COTAN_RETURN_IF_ERROR(cursor_.Expect("]"));
      return group;
    }
    if (cursor_.Accept("|")) {
      group.vector = true;
      COTAN_ASSIGN_OR_RETURN(operand, ParseOperand());
      group.elements.push_back(std::move(operand));
    }
    return group;
  }

  absl::StatusOr<Operand> ParseOperand() {
    const bool negated = cursor_.Accept("!");
    const bool minus = cursor_.Accept("-");
    if (const auto number = ParseNumber(cursor_.Peek().text); number.has_value()) {
      cursor_.Next();
      return Operand{.kind = OperandKind::kImmediate, .value = minus ? -number->value : number->value};
    }
    if (minus) return cursor_.Error("expected a number");
    if (cursor_.Peek().kind != TokenKind::kWord) return cursor_.Error("expected an operand");
    const std::string name(cursor_.Next().text);
    Operand operand = Lookup(name);
    operand.negated = negated;
    if (cursor_.Peek().Is("+") || cursor_.Peek().Is("-")) {
      cursor_.Accept("+");
      COTAN_ASSIGN_OR_RETURN(const int64_t offset, cursor_.ExpectInteger());
      operand.value += offset;
    }
    return operand;
  }

  Operand Lookup(const std::string& name) const {
    if (name == "_") return {.kind = OperandKind::kSink};
    if (name == "WARP_SZ") return {.kind = OperandKind::kImmediate, .value = 32};
    for (auto scope = scopes_.rbegin(); scope != scopes_.rend(); ++scope) {
      if (const auto found = scope->find(name); found != scope->end()) return found->second;
    }
    if (const auto found = SpecialRegisters().find(name); found != SpecialRegisters().end()) {
      return {.kind = OperandKind::kSpecial, .special = found->second};
    }
    return {.kind = OperandKind::kName, .name = name};
  }

  TokenCursor& cursor_;
  Module& module_;
  Function& function_;
  std::vector<SymbolTable> scopes_;  // Innermost last.
};

}  // namespace

int AddRegister(Module& module, std::string name, ScalarType type) {
  module.registers.push_back({std::move(name), type});
  return static_cast<int>(module.registers.size()) - 1;
}

absl::Status ParseBody(TokenCursor& cursor, const SymbolTable& symbols, Module& module, Function& function) {
  return BodyParser(cursor, symbols, module, function).Run();
}

}  // namespace cotan::cuda::ptx
