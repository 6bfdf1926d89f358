// SPDX-License-Identifier: Apache-2.0

// Measures lane-instructions per second of the interpreter on device memory with all checks.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/device_memory.h"
#include "kernels/cuda/sim/global_memory.h"
#include "kernels/cuda/sim/ptx/interpreter.h"
#include "kernels/cuda/sim/ptx/ptx_parser.h"

namespace cotan::cuda::ptx {
namespace {

constexpr int kElements = 1 << 18;
constexpr int kColumns = 1024;

// y = tanh-like function of x: a few arithmetic instructions for each access.
constexpr char kElementwise[] = R"(.version 9.0
.target sm_90
.address_size 64
.visible .entry elementwise(.param .u64 x, .param .u64 y, .param .u32 n) {
.reg .pred %p<2>; .reg .b32 %r<6>; .reg .f32 %f<20>; .reg .b64 %rd<8>;
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u32 %r1, [n];
mov.u32 %r2, %ctaid.x; mov.u32 %r3, %ntid.x; mov.u32 %r4, %tid.x;
mad.lo.s32 %r5, %r2, %r3, %r4;
setp.ge.s32 %p1, %r5, %r1;
@%p1 bra DONE;
cvta.to.global.u64 %rd3, %rd1;
cvta.to.global.u64 %rd4, %rd2;
mul.wide.s32 %rd5, %r5, 16;
add.s64 %rd6, %rd3, %rd5;
add.s64 %rd7, %rd4, %rd5;
ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd6];
fma.rn.f32 %f5, %f1, 0f3F000000, 0f3F800000; fma.rn.f32 %f6, %f2, 0f3F000000, 0f3F800000;
fma.rn.f32 %f7, %f3, 0f3F000000, 0f3F800000; fma.rn.f32 %f8, %f4, 0f3F000000, 0f3F800000;
mul.f32 %f9, %f5, %f1; mul.f32 %f10, %f6, %f2; mul.f32 %f11, %f7, %f3; mul.f32 %f12, %f8, %f4;
max.f32 %f13, %f9, 0f00000000; max.f32 %f14, %f10, 0f00000000; max.f32 %f15, %f11, 0f00000000;
max.f32 %f16, %f12, 0f00000000;
add.f32 %f1, %f13, %f1; add.f32 %f2, %f14, %f2; add.f32 %f3, %f15, %f3; add.f32 %f4, %f16, %f4;
st.global.v4.f32 [%rd7], {%f1, %f2, %f3, %f4};
DONE: ret;
}
)";

absl::Status Measure(const std::string& text, const std::string& kernel, Launch launch, int last_parameter) {
  COTAN_ASSIGN_OR_RETURN(const Module module, ParsePtx(text));
  sim::DeviceMemory memory({.on_leak = [](absl::string_view) {}});
  SymbolAddresses symbols;
  for (const Variable& variable : module.variables) {
    COTAN_ASSIGN_OR_RETURN(symbols[variable.name], memory.Allocate(variable.init.size(), variable.name));
    COTAN_RETURN_IF_ERROR(memory.Write(symbols[variable.name], variable.init));
  }
  COTAN_ASSIGN_OR_RETURN(const Program program, Program::Create(module, kernel, symbols));
  COTAN_ASSIGN_OR_RETURN(const uint64_t x, memory.Allocate(kElements * 4, "x"));
  COTAN_ASSIGN_OR_RETURN(const uint64_t y, memory.Allocate(kElements * 4, "y"));
  std::vector<float> values(kElements);
  for (int i = 0; i < kElements; ++i) values[i] = static_cast<float>(i % 251) * 0.01f - 1.0f;
  COTAN_RETURN_IF_ERROR(memory.Write(x, {reinterpret_cast<const std::byte*>(values.data()), values.size() * 4}));
  launch.parameters.resize(20);
  std::memcpy(launch.parameters.data(), &x, 8);
  std::memcpy(launch.parameters.data() + 8, &y, 8);
  std::memcpy(launch.parameters.data() + 16, &last_parameter, 4);
  sim::DeviceGlobalMemory global(memory);
  double best = 0;
  uint64_t instructions = 0;
  for (int round = 0; round < 5; ++round) {
    const std::clock_t start = std::clock();  // Of the process: the machine may be shared.
    COTAN_ASSIGN_OR_RETURN(const Counters counters, Execute(program, launch, global));
    const double time = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    instructions = counters.Instructions();
    best = std::max(best, static_cast<double>(instructions) / time);
  }
  std::printf("%-12s %9.2f M lane-instructions, %8.1f M/s, %6.2f ns per element\n", kernel.c_str(),
              static_cast<double>(instructions) * 1e-6, best * 1e-6,
              static_cast<double>(instructions) / best * 1e9 / kElements);
  return absl::OkStatus();
}

absl::Status Run() {
  std::ifstream file("kernels/cuda/sim/ptx/testdata/kernels.ptx");
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  COTAN_RETURN_IF_ERROR(
      Measure(kElementwise, "elementwise", {.grid = {kElements / 1024, 1, 1}, .block = {256, 1, 1}}, kElements / 4));
  return Measure(text, "softmax", {.grid = {kElements / kColumns, 1, 1}, .block = {256, 1, 1}}, kColumns / 4);
}

}  // namespace
}  // namespace cotan::cuda::ptx

int main() {
  const absl::Status status = cotan::cuda::ptx::Run();
  if (!status.ok()) std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  return status.ok() ? 0 : 1;
}
