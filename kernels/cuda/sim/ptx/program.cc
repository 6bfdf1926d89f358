// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/ptx/program.h"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/rounding.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/ptx/decoder.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {
namespace {

// Returns the operand that names the callee of a call: the first that is not a list.
const Operand* Callee(const Instruction& call) {
  for (const OperandGroup& group : call.operands) {
    if (!group.vector) return &group.elements[0];
  }
  return nullptr;
}

const Instruction& ImplicitReturn() {
  static const auto& instruction = *new Instruction{.line = 0, .text = "ret", .opcode = "ret"};
  return instruction;
}

class Linker {
 public:
  Linker(const Module& module, const SymbolAddresses& symbols) : module_(module), symbols_(symbols) {}

  absl::StatusOr<Program> Run(absl::string_view kernel) {
    const auto found = module_.function_index.find(kernel);
    if (found == module_.function_index.end() || !module_.functions[found->second].is_entry) {
      return absl::NotFoundError(absl::StrCat("the module has no kernel ", kernel));
    }
    COTAN_RETURN_IF_ERROR(Collect(found->second));
    Program program{.module = &module_, .kernel = &module_.functions[found->second]};
    LayOut(program);
    for (const int index : order_) COTAN_RETURN_IF_ERROR(AddFunction(module_.functions[index], program));
    ResolveCalls(program);
    program.sleeps = std::any_of(program.operations.begin(), program.operations.end(),
                                 [](const Operation& operation) { return operation.kind == OpKind::kSleep; });
    return program;
  }

 private:
  // Lists the function and what it calls, callers first.
  absl::Status Collect(int index) {
    const Function& function = module_.functions[index];
    if (active_.contains(index)) {
      return absl::UnimplementedError(
          absl::StrCat("PTX line ", function.line, ": function ", function.name, " is recursive"));
    }
    if (layouts_.contains(index)) return absl::OkStatus();
    layouts_[index] = {};
    order_.push_back(index);
    active_[index] = true;
    for (const Instruction& instruction : function.instructions) {
      if (instruction.opcode != "call") continue;
      const Operand* callee = Callee(instruction);
      if (callee == nullptr || callee->kind != OperandKind::kName) {
        return absl::UnimplementedError(
            absl::StrCat("PTX line ", instruction.line, " `", instruction.text, "`: indirect call"));
      }
      const auto found = module_.function_index.find(callee->name);
      if (found == module_.function_index.end()) {
        return absl::NotFoundError(
            absl::StrCat("PTX line ", instruction.line, ": the module has no function ", callee->name));
      }
      if (module_.functions[found->second].has_body) COTAN_RETURN_IF_ERROR(Collect(found->second));
    }
    active_.erase(index);
    return absl::OkStatus();
  }

  void LayOut(Program& program) {
    int64_t shared = module_.module_shared_bytes, frame = 0;
    for (const int index : order_) {
      const Function& function = module_.functions[index];
      shared = RoundUp(shared, 128);
      frame = RoundUp(frame, 128);
      layouts_[index] = {.module = &module_,
                         .symbols = &symbols_,
                         .is_entry = function.is_entry,
                         .frame_base = frame,
                         .shared_base = shared};
      shared += function.static_shared_bytes;
      frame += function.frame_bytes;
    }
    program.static_shared_bytes = RoundUp(shared, 16);
    program.frame_bytes = frame;
    for (auto& [index, layout] : layouts_) layout.dynamic_shared = program.static_shared_bytes;
  }

  absl::Status AddFunction(const Function& function, Program& program) {
    const auto start = static_cast<int>(program.operations.size());
    starts_[function.name] = start;
    const FunctionLayout& layout = layouts_[module_.function_index.at(function.name)];
    for (const Instruction& instruction : function.instructions) {
      COTAN_ASSIGN_OR_RETURN(Operation operation, Decode(instruction, layout));
      if (operation.kind == OpKind::kBranch) {
        if (instruction.operands.size() != 1) return Unsupported(instruction);
        const auto label = function.labels.find(instruction.operands[0].elements[0].name);
        if (label == function.labels.end()) {
          return absl::InvalidArgumentError(
              absl::StrCat("PTX line ", instruction.line, " `", instruction.text, "`: no such label"));
        }
        operation.target = start + label->second;
      }
      if (operation.kind == OpKind::kCall) COTAN_RETURN_IF_ERROR(AddCall(layout, operation));
      program.operations.push_back(std::move(operation));
    }
    // Threads that run past the last instruction return.
    program.operations.push_back({.instruction = &ImplicitReturn(), .kind = OpKind::kReturn});
    return absl::OkStatus();
  }

  static absl::Status Unsupported(const Instruction& instruction) {
    return absl::UnimplementedError(
        absl::StrCat("PTX line ", instruction.line, " `", instruction.text, "`: the interpreter has no such call"));
  }

  absl::Status AddCall(const FunctionLayout& caller, Operation& operation) {
    const Instruction& instruction = *operation.instruction;
    const Operand* callee = Callee(instruction);
    const int index = module_.function_index.at(callee->name);
    const Function& function = module_.functions[index];
    if (!function.has_body) {
      operation.kind = OpKind::kTrap;
      operation.message = absl::StrCat("calls ", callee->name, ", which the module only declares");
      return absl::OkStatus();
    }
    const FunctionLayout& layout = layouts_[index];
    bool before_callee = true;
    for (const OperandGroup& group : instruction.operands) {
      if (!group.vector) {
        if (&group.elements[0] != callee) return Unsupported(instruction);
        before_callee = false;
        continue;
      }
      const std::vector<Parameter>& formals = before_callee ? function.results : function.parameters;
      if (formals.size() != group.elements.size()) return Unsupported(instruction);
      for (size_t i = 0; i < formals.size(); ++i) {
        const Operand& actual = group.elements[i];
        if (formals[i].is_register || actual.kind != OperandKind::kLocalSymbol) return Unsupported(instruction);
        const int64_t here = caller.frame_base + actual.value, there = layout.frame_base + formals[i].offset;
        if (before_callee) {
          operation.copies_back.push_back({there, here, formals[i].size});
        } else {
          operation.copies.push_back({here, there, formals[i].size});
        }
      }
    }
    return absl::OkStatus();
  }

  void ResolveCalls(Program& program) const {
    for (Operation& operation : program.operations) {
      if (operation.kind == OpKind::kCall) operation.target = starts_.at(Callee(*operation.instruction)->name);
    }
  }

  const Module& module_;
  const SymbolAddresses& symbols_;
  std::vector<int> order_;
  absl::flat_hash_map<int, FunctionLayout> layouts_;
  absl::flat_hash_map<int, bool> active_;
  absl::flat_hash_map<std::string, int> starts_;
};

}  // namespace

absl::StatusOr<Program> Program::Create(const Module& module, absl::string_view kernel,
                                        const SymbolAddresses& symbols) {
  return Linker(module, symbols).Run(kernel);
}

}  // namespace cotan::cuda::ptx
