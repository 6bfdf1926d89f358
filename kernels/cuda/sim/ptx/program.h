// SPDX-License-Identifier: Apache-2.0

// A kernel with the functions it calls, ready to be executed.
#ifndef COTAN_KERNELS_CUDA_SIM_PTX_PROGRAM_H_
#define COTAN_KERNELS_CUDA_SIM_PTX_PROGRAM_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/sim/ptx/ptx_module.h"
#include "kernels/cuda/sim/ptx/scalar_op.h"
#include "kernels/cuda/sim/ptx/scalar_type.h"

namespace cotan::cuda::ptx {

enum class OpKind : uint8_t {
  kScalar,
  kCarry,   // add.cc, addc, sub.cc, subc, mad.cc, madc.
  kCopy,    // mov of one register, also cvta.
  kPack,    // mov.b64 %rd, {%r1, %r2}.
  kUnpack,  // mov.b64 {%r1, %r2}, %rd.
  kLoad,
  kStore,
  kAtomic,
  kAsyncCopy,
  kAsyncCommit,
  kAsyncWait,
  kFence,
  kGridWait,  // griddepcontrol.wait.
  kNop,
  kSleep,  // The other warps and blocks go on.
  kActiveMask,
  kBranch,
  kCall,
  kReturn,
  kExit,
  kTrap,
  kBarrier,      // bar.sync, bar.arrive.
  kWarpBarrier,  // The rest waits for the lanes of a mask.
  kShuffle,
  kVote,
  kMatch,
  kReduce,
};

enum class Space : uint8_t { kGeneric, kGlobal, kConst, kShared, kLocal, kParam };
enum class AtomicFn : uint8_t { kAdd, kMin, kMax, kExchange, kCompareAndSwap, kAnd, kOr, kXor, kIncrement, kDecrement };
enum class ShuffleMode : uint8_t { kUp, kDown, kButterfly, kIndex };
enum class VoteMode : uint8_t { kAll, kAny, kUniform, kBallot };
enum class BarrierMode : uint8_t { kSync, kCount, kOr, kAnd };  // The latter are bar.red.
enum class ValueKind : uint8_t { kRegister, kImmediate, kSpecial, kSink };

struct Value {
  ValueKind kind = ValueKind::kImmediate;
  bool negated = false;
  SpecialRegister special = SpecialRegister::kThreadX;
  int reg = 0;
  uint64_t bits = 0;
  uint64_t mask = ~uint64_t{0};  // Of a register: the bits that it has.
};

// Bytes that a call moves between the frames of caller and callee.
struct FrameCopy {
  int64_t from = 0;  // In bytes within the frame of the thread.
  int64_t to = 0;
  int64_t size = 0;
};

struct Operation {
  const Instruction* instruction = nullptr;
  OpKind kind = OpKind::kNop;
  int guard = -1;  // Register, or -1.
  bool guard_negated = false;
  std::vector<Value> results = {};
  std::vector<Value> sources = {};
  ScalarOp scalar = {};      // Of kAtomic and kReduce: what combines two values, if they are combined.
  WarpFn warp_fn = nullptr;  // Does `scalar` for a warp, if not null.
  ScalarType type = {};      // Of one element in memory, of a shuffle, ...
  Space space = Space::kGeneric;
  int64_t offset = 0;      // Added to an address.
  int count = 0;           // Bytes of kAsyncCopy, groups of kAsyncWait.
  bool read_only = false;  // ld.global.nc.
  bool strong = false;     // volatile, relaxed, acquire, release.
  bool acquire = false;    // Also orders blocks; see RaceDetector.
  bool release = false;
  bool arrive_only = false;  // bar.arrive.
  BarrierMode barrier = BarrierMode::kSync;
  bool reads_carry = false;  // Of kCarry.
  bool writes_carry = false;
  bool subtracts = false;
  AtomicFn atomic = AtomicFn::kAdd;
  ShuffleMode shuffle = ShuffleMode::kIndex;
  VoteMode vote = VoteMode::kAll;
  int target = -1;                          // Operation of a branch or call.
  std::vector<FrameCopy> copies = {};       // Of a call: its arguments.
  std::vector<FrameCopy> copies_back = {};  // Of a call: its results.
  std::string message = {};                 // Of kTrap.
};

// Addresses of a module's variables in global memory.
using SymbolAddresses = absl::flat_hash_map<std::string, uint64_t>;

// Immutable. The module must outlive it.
struct Program {
  // Decodes `kernel` and what it calls. Fails with NotFound if the module has no such kernel or
  // `symbols` lacks a variable that is used, with Unimplemented, naming the line and the
  // instruction, for what the interpreter does not execute (recursion, indirect calls, tensor cores,
  // textures, ...), and with InvalidArgument for operands that do not fit the instruction.
  static absl::StatusOr<Program> Create(const Module& module, absl::string_view kernel, const SymbolAddresses& symbols);

  const Module* module = nullptr;
  const Function* kernel = nullptr;
  std::vector<Operation> operations = {};
  int64_t static_shared_bytes = 0;  // Dynamic shared memory starts here.
  int64_t frame_bytes = 0;          // Of one thread.
  bool sleeps = false;              // It has nanosleep: its blocks may wait for each other.
};

}  // namespace cotan::cuda::ptx

#endif  // COTAN_KERNELS_CUDA_SIM_PTX_PROGRAM_H_
