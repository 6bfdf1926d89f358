// SPDX-License-Identifier: Apache-2.0

// A PTX module as data: what the parser reads and the decoder turns into operations.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_PTX_MODULE_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_PTX_MODULE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {

// Registers that hold a value of each thread's position or of the machine.
enum class SpecialRegister : uint8_t {
  kThreadX,
  kThreadY,
  kThreadZ,
  kBlockX,
  kBlockY,
  kBlockZ,
  kBlockSizeX,
  kBlockSizeY,
  kBlockSizeZ,
  kGridSizeX,
  kGridSizeY,
  kGridSizeZ,
  kLane,
  kWarp,
  kWarpCount,
  kLaneMaskEqual,
  kLaneMaskLess,
  kLaneMaskLessEqual,
  kLaneMaskGreater,
  kLaneMaskGreaterEqual,
  kClock,
  kMultiprocessor,
  kMultiprocessorCount,
  kStaticSharedSize,
  kDynamicSharedSize,
  kGlobalTimer,
};

enum class OperandKind : uint8_t {
  kRegister,       // `index` is a register of the module.
  kImmediate,      // `value`.
  kSpecial,        // `special`.
  kSink,           // `_`.
  kGlobalSymbol,   // `index` into Module.variables; `value` is an offset in bytes.
  kSharedSymbol,   // `value` is the offset within the shared variables of the module (`index` 0) or function (1).
  kDynamicShared,  // An extern .shared array; `value` is an offset in bytes from its start.
  kLocalSymbol,    // `value` is the offset within the frame of the function.
  kParamSymbol,    // `value` is the offset within the parameters of the kernel.
  kName,           // A label or function, `name`.
};

struct Operand {
  OperandKind kind = OperandKind::kImmediate;
  bool negated = false;  // `!p`.
  SpecialRegister special = SpecialRegister::kThreadX;
  int index = 0;
  int64_t value = 0;  // For a register inside `[]`: the offset in bytes.
  std::string name = {};
};

// An operand of an instruction: one value, an address in `[]`, or a vector (`{a, b}`, `p|q`).
struct OperandGroup {
  bool address = false;
  bool vector = false;
  std::vector<Operand> elements;  // Length 1 unless `vector`.
};

struct Instruction {
  int line = 0;  // Of the text, from 1.
  std::string text = {};
  int guard = -1;  // Predicate register, or -1.
  bool guard_negated = false;
  std::string opcode = {};                  // "ld".
  std::vector<std::string> modifiers = {};  // {"global", "v4", "f32"}.
  std::vector<OperandGroup> operands = {};
};

struct Register {
  std::string name;
  ScalarType type;
};

// A formal parameter; `offset` is in bytes from the start of the parameters of its function.
struct Parameter {
  std::string name;
  int64_t offset = 0;
  int64_t size = 0;
  bool is_register = false;  // A parameter of a .func declared with .reg; `index` is the register.
  int index = -1;
};

struct Function {
  std::string name = {};
  int line = 0;
  bool is_entry = false;
  bool has_body = false;
  std::vector<Parameter> results = {};     // Of a .func.
  std::vector<Parameter> parameters = {};  // In order.
  int64_t parameter_bytes = 0;             // Of a kernel: size of its parameter buffer.
  int64_t static_shared_bytes = 0;
  int64_t frame_bytes = 0;                     // Local memory and .func parameters of one thread.
  std::array<uint32_t, 3> max_threads = {};    // .maxntid, zeros if absent.
  std::array<uint32_t, 3> exact_threads = {};  // .reqntid, zeros if absent.
  int min_resident_blocks = 1;                 // .minnctapersm: of a multiprocessor, at the same time.
  std::vector<Instruction> instructions = {};
  absl::flat_hash_map<std::string, int> labels = {};  // Index into `instructions`, or their number.
  absl::flat_hash_map<std::string, std::vector<std::string>> branch_targets = {};
};

// A variable in global or constant memory.
struct Variable {
  std::string name = {};
  bool constant = false;
  bool is_extern = false;
  int64_t alignment = 1;             // In bytes.
  std::vector<std::byte> init = {};  // Length is the variable's size; zeros where nothing is given.
  // Bytes that hold an address: (offset within `init`, name of the variable whose address it is).
  std::vector<std::pair<int64_t, std::string>> relocations = {};
};

struct Module {
  std::string version;
  std::string target;               // "sm_90".
  std::vector<Register> registers;  // Of all functions.
  std::vector<Variable> variables;  // Global and constant ones.
  std::vector<Function> functions;
  int64_t module_shared_bytes = 0;                       // Of .shared variables outside of functions.
  absl::flat_hash_map<std::string, int> function_index;  // Index into `functions`.
};

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_PTX_MODULE_H_
