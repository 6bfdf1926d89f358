// SPDX-License-Identifier: Apache-2.0

// A shared library that the CUDA driver loads into a program when CUDA_INJECTION64_PATH names it. At the end of the
// program it writes one line per kernel, copy and fill that the GPU ran, to the file that COTAN_TIMELINE names:
//   start end grid block registers graph node name
// Start and end are in nanoseconds; grid and block are numbers of blocks and of threads of a block (of a copy or fill:
// its bytes and 0); graph and node are numbers of CUDA's, 0 outside of graphs. kernel_timeline.py reads it.
#include <cupti.h>
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <string>
#include <type_traits>
#include <vector>

namespace {

struct Record {
  uint64_t start, end;
  uint64_t grid, block;
  uint32_t registers, graph;
  uint64_t node;
  std::string name;
};

// The functions of CUPTI that are called; the library is opened at run time, as all of CUDA.
struct Cupti {
  decltype(&cuptiActivityRegisterCallbacks) register_callbacks = nullptr;
  decltype(&cuptiActivityEnable) enable = nullptr;
  decltype(&cuptiActivityGetNextRecord) next_record = nullptr;
  decltype(&cuptiActivityFlushAll) flush_all = nullptr;

  bool Load() {
    void* const library = dlopen("libcupti.so.13", RTLD_NOW);
    if (library == nullptr) return false;
    const auto load = [library](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      return function != nullptr;
    };
    return load(register_callbacks, "cuptiActivityRegisterCallbacks") && load(enable, "cuptiActivityEnable") &&
           load(next_record, "cuptiActivityGetNextRecord") && load(flush_all, "cuptiActivityFlushAll");
  }
};

constexpr size_t kBufferBytes = 8 << 20;

// What CUPTI's callbacks, which have no argument of the caller, share.
struct State {
  Cupti cupti;
  std::mutex mutex;
  std::vector<Record> records;  // guarded by mutex
};

State& GetState() {
  static State* const state = new State;  // outlives all callbacks
  return *state;
}

Record ToRecord(const CUpti_ActivityKernel10& kernel) {
  return {
      kernel.start,
      kernel.end,
      static_cast<uint64_t>(kernel.gridX) * static_cast<uint64_t>(kernel.gridY) * static_cast<uint64_t>(kernel.gridZ),
      static_cast<uint64_t>(kernel.blockX) * static_cast<uint64_t>(kernel.blockY) *
          static_cast<uint64_t>(kernel.blockZ),
      kernel.registersPerThread,
      kernel.graphId,
      kernel.graphNodeId,
      kernel.name == nullptr ? "?" : kernel.name};
}

template <typename Activity>
Record ToTransfer(const Activity& activity, const char* name) {
  return {activity.start, activity.end, activity.bytes, 0, 0, activity.graphId, activity.graphNodeId, name};
}

void CUPTIAPI ProvideBuffer(uint8_t** buffer, size_t* bytes, size_t* max_records) {
  *buffer = static_cast<uint8_t*>(std::aligned_alloc(ACTIVITY_RECORD_ALIGNMENT, kBufferBytes));
  *bytes = *buffer == nullptr ? 0 : kBufferBytes;
  *max_records = 0;
}

void CUPTIAPI TakeBuffer(CUcontext, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  State& state = GetState();
  const std::lock_guard<std::mutex> lock(state.mutex);
  CUpti_Activity* activity = nullptr;
  while (state.cupti.next_record(buffer, valid_bytes, &activity) == CUPTI_SUCCESS) {
    if (activity->kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) {
      state.records.push_back(ToRecord(*reinterpret_cast<const CUpti_ActivityKernel10*>(activity)));
    } else if (activity->kind == CUPTI_ACTIVITY_KIND_MEMCPY) {
      state.records.push_back(ToTransfer(*reinterpret_cast<const CUpti_ActivityMemcpy6*>(activity), "memcpy"));
    } else if (activity->kind == CUPTI_ACTIVITY_KIND_MEMSET) {
      state.records.push_back(ToTransfer(*reinterpret_cast<const CUpti_ActivityMemset4*>(activity), "memset"));
    }
  }
  std::free(buffer);
}

void Write() {
  State& state = GetState();
  state.cupti.flush_all(CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
  const char* const path = std::getenv("COTAN_TIMELINE");
  FILE* const file = path == nullptr ? nullptr : std::fopen(path, "w");
  if (file == nullptr) {
    std::fputs("kernel_timeline: COTAN_TIMELINE names no file that can be written\n", stderr);
    return;
  }
  const std::lock_guard<std::mutex> lock(state.mutex);
  for (const Record& r : state.records) {
    std::fprintf(file, "%ju %ju %ju %ju %u %u %ju %s\n", static_cast<uintmax_t>(r.start), static_cast<uintmax_t>(r.end),
                 static_cast<uintmax_t>(r.grid), static_cast<uintmax_t>(r.block), r.registers, r.graph,
                 static_cast<uintmax_t>(r.node), r.name.c_str());
  }
  std::fclose(file);
}

}  // namespace

// Called by the driver when it is initialized. Returns 1: the library is in use.
extern "C" int InitializeInjection() {
  State& state = GetState();
  if (!state.cupti.Load()) {
    std::fputs("kernel_timeline: cannot load libcupti.so.13; name its folder in LD_LIBRARY_PATH\n", stderr);
    return 1;
  }
  state.cupti.register_callbacks(ProvideBuffer, TakeBuffer);
  for (const CUpti_ActivityKind kind :
       {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, CUPTI_ACTIVITY_KIND_MEMCPY, CUPTI_ACTIVITY_KIND_MEMSET}) {
    state.cupti.enable(kind);
  }
  std::atexit(Write);
  return 1;
}
