// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/ptx_parser.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/rounding.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/ptx/ptx_body_parser.h"
#include "kernels/cuda/sim/ptx/ptx_lexer.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"
#include "kernels/cuda/sim/ptx/token_cursor.h"

namespace cotan::cuda::ptx {
namespace {

class ModuleParser {
 public:
  ModuleParser(absl::string_view text, std::vector<Token> tokens) : cursor_(text, std::move(tokens)) {}

  absl::StatusOr<Module> Run() {
    while (!cursor_.AtEnd()) COTAN_RETURN_IF_ERROR(TopLevel());
    return std::move(module_);
  }

 private:
  absl::Status TopLevel() {
    bool is_extern = false;
    while (true) {
      const absl::string_view word = cursor_.Peek().text;
      if (word == ".extern") {
        is_extern = true;
      } else if (word != ".visible" && word != ".weak" && word != ".common") {
        break;
      }
      cursor_.Next();
    }
    const absl::string_view word = cursor_.Next().text;
    if (word == ".version") {
      module_.version = std::string(cursor_.Next().text);
      return absl::OkStatus();
    }
    if (word == ".target") {
      module_.target = std::string(cursor_.Next().text);
      while (cursor_.Accept(",")) cursor_.Next();
      return absl::OkStatus();
    }
    if (word == ".address_size") {
      COTAN_ASSIGN_OR_RETURN(const int64_t bits, cursor_.ExpectInteger());
      return bits == 64 ? absl::OkStatus() : cursor_.Error("only 64-bit addresses are supported, before");
    }
    if (word == ".global" || word == ".const") return GlobalVariable(word == ".const", is_extern);
    if (word == ".shared") return SharedVariable();
    if (word == ".entry" || word == ".func") return ParseFunction(word == ".entry");
    if (word == ".pragma") {
      cursor_.Next();
      return cursor_.Expect(";");
    }
    return cursor_.Error(absl::StrCat("unknown directive ", word, " before"));
  }

  absl::Status SharedVariable() {
    COTAN_ASSIGN_OR_RETURN(const Declaration declaration, cursor_.ParseDeclaration());
    if (declaration.unsized) {
      symbols_[declaration.name] = {.kind = OperandKind::kDynamicShared};
    } else {
      module_.module_shared_bytes = RoundUp(module_.module_shared_bytes, declaration.alignment);
      symbols_[declaration.name] = {.kind = OperandKind::kSharedSymbol, .value = module_.module_shared_bytes};
      module_.module_shared_bytes += declaration.size;
    }
    return cursor_.Expect(";");
  }

  absl::Status GlobalVariable(bool constant, bool is_extern) {
    COTAN_ASSIGN_OR_RETURN(const Declaration declaration, cursor_.ParseDeclaration());
    Variable variable{.name = declaration.name,
                      .constant = constant,
                      .is_extern = is_extern,
                      .alignment = declaration.alignment,
                      .init = std::vector<std::byte>(declaration.size)};
    if (cursor_.Accept("=")) {
      int64_t offset = 0;
      COTAN_RETURN_IF_ERROR(Initializer(declaration.type.Bytes(), declaration.unsized, offset, variable));
    }
    symbols_[variable.name] = {.kind = OperandKind::kGlobalSymbol, .index = static_cast<int>(module_.variables.size())};
    module_.variables.push_back(std::move(variable));
    return cursor_.Expect(";");
  }

  // Reads a value or a list of them, of `size` bytes each, to `offset`.
  absl::Status Initializer(int64_t size, bool unsized, int64_t& offset, Variable& variable) {
    if (cursor_.Accept("{")) {
      while (!cursor_.Accept("}")) {
        COTAN_RETURN_IF_ERROR(Initializer(size, unsized, offset, variable));
        if (!cursor_.Accept(",") && !cursor_.Peek().Is("}")) return cursor_.Error("expected ','");
      }
      return absl::OkStatus();
    }
    if (unsized) variable.init.resize(offset + size);
    if (offset + size > static_cast<int64_t>(variable.init.size())) return cursor_.Error("too many initial values");
    const bool generic = cursor_.Accept("generic");
    if (generic) COTAN_RETURN_IF_ERROR(cursor_.Expect("("));
    int64_t value = 0;
    const bool minus = cursor_.Accept("-");
    if (const auto number = ParseNumber(cursor_.Peek().text); number.has_value()) {
      cursor_.Next();
      value = minus ? -number->value : number->value;
    } else {
      COTAN_ASSIGN_OR_RETURN(std::string name, cursor_.ExpectName());
      if (size != 8) return cursor_.Error("an address needs 8 bytes, before");
      variable.relocations.emplace_back(offset, std::move(name));
    }
    if (generic) COTAN_RETURN_IF_ERROR(cursor_.Expect(")"));
    if (cursor_.Accept("+")) {
      COTAN_ASSIGN_OR_RETURN(value, cursor_.ExpectInteger());
    }
    std::memcpy(variable.init.data() + offset, &value, size);
    offset += size;
    return absl::OkStatus();
  }

  // Reads `(.param .b32 a, ...)`. Parameters of a kernel are laid out from 0, those of a .func in its frame.
  absl::StatusOr<std::vector<Parameter>> Parameters(Function& function, SymbolTable& symbols) {
    std::vector<Parameter> parameters;
    COTAN_RETURN_IF_ERROR(cursor_.Expect("("));
    while (!cursor_.Accept(")")) {
      const bool is_register = cursor_.Peek().Is(".reg");
      if (!is_register && !cursor_.Peek().Is(".param")) return cursor_.Error("expected .param");
      cursor_.Next();
      COTAN_ASSIGN_OR_RETURN(const Declaration declaration, cursor_.ParseDeclaration());
      Parameter parameter{.name = declaration.name, .size = declaration.size, .is_register = is_register};
      if (is_register) {
        parameter.index = AddRegister(module_, declaration.name, declaration.type);
        symbols[declaration.name] = {.kind = OperandKind::kRegister, .index = parameter.index};
      } else {
        int64_t& bytes = function.is_entry ? function.parameter_bytes : function.frame_bytes;
        bytes = RoundUp(bytes, declaration.alignment);
        parameter.offset = bytes;
        bytes += declaration.size;
        symbols[declaration.name] = {.kind = function.is_entry ? OperandKind::kParamSymbol : OperandKind::kLocalSymbol,
                                     .value = parameter.offset};
      }
      parameters.push_back(std::move(parameter));
      if (!cursor_.Accept(",") && !cursor_.Peek().Is(")")) return cursor_.Error("expected ','");
    }
    return parameters;
  }

  absl::Status ParseFunction(bool is_entry) {
    Function function{.line = cursor_.Peek().line, .is_entry = is_entry};
    SymbolTable symbols = symbols_;
    if (!is_entry && cursor_.Peek().Is("(")) {
      COTAN_ASSIGN_OR_RETURN(function.results, Parameters(function, symbols));
    }
    COTAN_ASSIGN_OR_RETURN(function.name, cursor_.ExpectName());
    if (cursor_.Peek().Is("(")) {
      COTAN_ASSIGN_OR_RETURN(function.parameters, Parameters(function, symbols));
    }
    COTAN_RETURN_IF_ERROR(PerformanceDirectives(function));
    if (!cursor_.Accept(";")) {
      function.has_body = true;
      COTAN_RETURN_IF_ERROR(ParseBody(cursor_, symbols, module_, function));
    }
    const auto [found, added] = module_.function_index.emplace(function.name, module_.functions.size());
    if (added) {
      module_.functions.push_back(std::move(function));
    } else if (!module_.functions[found->second].has_body) {
      module_.functions[found->second] = std::move(function);
    } else if (function.has_body) {
      return cursor_.Error(absl::StrCat("function ", function.name, " is defined twice, before"));
    }
    return absl::OkStatus();
  }

  absl::Status PerformanceDirectives(Function& function) {
    while (cursor_.Peek().kind == TokenKind::kWord && absl::StartsWith(cursor_.Peek().text, ".")) {
      const absl::string_view word = cursor_.Next().text;
      if (word == ".maxntid" || word == ".reqntid") {
        COTAN_ASSIGN_OR_RETURN((word == ".maxntid" ? function.max_threads : function.exact_threads), Extents());
      } else if (word == ".minnctapersm") {
        COTAN_ASSIGN_OR_RETURN(const int64_t blocks, cursor_.ExpectInteger());
        function.min_resident_blocks = static_cast<int>(std::clamp<int64_t>(blocks, 1, 32));
      } else if (word == ".maxnreg" || word == ".maxnctapersm") {
        COTAN_RETURN_IF_ERROR(cursor_.ExpectInteger().status());
      } else if (word == ".pragma") {
        cursor_.Next();
        COTAN_RETURN_IF_ERROR(cursor_.Expect(";"));
      } else if (word != ".noreturn") {
        return absl::UnimplementedError(
            absl::StrCat("PTX line ", cursor_.Peek().line, ": directive ", word, " of function ", function.name));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::array<uint32_t, 3>> Extents() {
    std::array<uint32_t, 3> extents = {1, 1, 1};
    for (int i = 0; i < 3; ++i) {
      COTAN_ASSIGN_OR_RETURN(extents[i], cursor_.ExpectInteger());
      if (!cursor_.Accept(",")) break;
    }
    return extents;
  }

  TokenCursor cursor_;
  Module module_;
  SymbolTable symbols_;  // Of the module.
};

}  // namespace

absl::StatusOr<Module> ParsePtx(absl::string_view text) {
  COTAN_ASSIGN_OR_RETURN(std::vector<Token> tokens, Lex(text));
  COTAN_ASSIGN_OR_RETURN(Module module, ModuleParser(text, std::move(tokens)).Run());
  if (module.target.empty()) return absl::InvalidArgumentError("PTX text has no .target");
  return module;
}

}  // namespace cotan::cuda::ptx
