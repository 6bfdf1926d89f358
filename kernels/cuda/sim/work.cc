// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/work.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/global_memory.h"
#include "kernels/cuda/sim/ptx/interpreter.h"

namespace cotan::cuda::sim {
namespace {

// A rough model of an H100: only that more work takes longer is meant.
constexpr uint64_t kOverheadNs = 2000;
constexpr uint64_t kHostBytesPerNs = 50;
constexpr uint64_t kDeviceBytesPerNs = 1500;

// What the host reads where nothing was written on the device: NaN in every floating-point type.
constexpr int kPoison = 0xff;

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

void Add(const ptx::Counters& counters, ptx::Counters& sum) {
  static_assert(sizeof(ptx::Counters) % sizeof(uint64_t) == 0);
  const auto* from = reinterpret_cast<const uint64_t*>(&counters);
  auto* to = reinterpret_cast<uint64_t*>(&sum);
  for (size_t i = 0; i < sizeof(sum) / sizeof(uint64_t); ++i) to[i] += from[i];
}

absl::Status Annotate(const Work& work, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), absl::StrCat(NameOf(work), ": ", status.message()));
}

}  // namespace

std::string NameOf(const Work& work) {
  return std::visit(
      Overloaded{
          [](const OrderOnly&) -> std::string { return "no work"; },
          [](const KernelCall& call) { return absl::StrCat("kernel ", call.kernel->name()); },
          [](const MemoryCopy& copy) {
            const char* kind = copy.kind == CopyKind::kToDevice ? " from the host to the device"
                               : copy.kind == CopyKind::kToHost ? " from the device to the host"
                                                                : " within the device";
            return absl::StrCat("copy of ", copy.bytes, " bytes", kind);
          },
          [](const MemoryFill& fill) { return absl::StrCat("setting of ", fill.count * fill.width, " bytes"); },
          [](const HostFunction& call) { return call.label; },
          [](const EventMark&) -> std::string { return "event"; },
      },
      work);
}

std::vector<uint64_t> DeviceAddressesOf(const Work& work) {
  if (const auto* copy = std::get_if<MemoryCopy>(&work)) {
    std::vector<uint64_t> addresses;
    if (copy->kind != CopyKind::kToHost) addresses.push_back(copy->device_to);
    if (copy->kind != CopyKind::kToDevice) addresses.push_back(copy->device_from);
    return addresses;
  }
  if (const auto* fill = std::get_if<MemoryFill>(&work)) return {fill->to};
  std::vector<uint64_t> addresses;
  if (const auto* call = std::get_if<KernelCall>(&work)) {
    for (const ptx::Parameter& parameter : call->kernel->program.kernel->parameters) {
      for (int64_t at = 0; at + 8 <= parameter.size; at += 8) {
        uint64_t value = 0;
        std::memcpy(&value, call->launch.parameters.data() + parameter.offset + at, sizeof(value));
        addresses.push_back(value);
      }
    }
  }
  return addresses;
}

absl::Status WorkRunner::Run(const Work& work, AccessLog* log) {
  if (log != nullptr) memory_.set_log(log);
  const absl::Status status = std::visit([this](const auto& one) { return RunWork(one); }, work);
  if (log != nullptr) {
    memory_.set_log(nullptr);
    log->Finish();
  }
  // The interpreter names the kernel itself.
  return std::holds_alternative<KernelCall>(work) ? status : Annotate(work, status);
}

bool WorkRunner::ChecksRaces(const KernelCall& call) {
  if (options_.race_checks <= 0) return options_.race_checks == 0;
  const std::vector<std::byte>& parameters = call.launch.parameters;
  std::string key = absl::StrCat(call.kernel->name(), " ", reinterpret_cast<uintptr_t>(call.kernel.get()), " ",
                                 absl::StrJoin(call.launch.grid, ","), " ");
  key.append(reinterpret_cast<const char*>(parameters.data()), parameters.size());
  return ++race_checks_[key] <= options_.race_checks;
}

absl::Status WorkRunner::RunWork(const KernelCall& call) {
  if (call.kernel->unloaded) {
    return absl::FailedPreconditionError(
        absl::StrCat("kernel ", call.kernel->name(), ": its module was unloaded before the kernel ran"));
  }
  ptx::Launch launch = call.launch;
  // Another order in each launch, and the same in each process.
  if (options_.seed != 0) launch.seed = options_.seed + num_kernels_++;
  launch.check_races = ChecksRaces(call);
  launch.multiprocessors = options_.multiprocessors;
  DeviceGlobalMemory global(memory_);
  COTAN_ASSIGN_OR_RETURN(const ptx::Counters counters, ptx::Execute(call.kernel->program, launch, global));
  KernelStatistics& statistics = statistics_.kernels[call.kernel->name()];
  ++statistics.runs;
  statistics.early_runs += launch.begins_early ? 1 : 0;
  Add(counters, statistics.counters);
  now_ns_ += kOverheadNs + counters.warp_instructions / static_cast<uint64_t>(options_.multiprocessors);
  return absl::OkStatus();
}

absl::Status WorkRunner::RunWork(const MemoryCopy& copy) {
  switch (copy.kind) {
    case CopyKind::kToDevice: {
      if (copy.snapshot != nullptr) COTAN_RETURN_IF_ERROR(host_.CheckUnchanged(*copy.snapshot));
      const auto* from = static_cast<const std::byte*>(copy.host_from);
      COTAN_RETURN_IF_ERROR(memory_.Write(copy.device_to, absl::MakeConstSpan(from, copy.bytes)));
      CountTransfer(statistics_.to_device, copy.bytes, kHostBytesPerNs);
      return absl::OkStatus();
    }
    case CopyKind::kToHost:
      return CopyToHost(copy);
    case CopyKind::kOnDevice:
      COTAN_RETURN_IF_ERROR(memory_.Copy(copy.device_to, copy.device_from, copy.bytes));
      CountTransfer(statistics_.on_device, copy.bytes, kDeviceBytesPerNs);
      return absl::OkStatus();
  }
  return absl::OkStatus();
}

absl::Status WorkRunner::CopyToHost(const MemoryCopy& copy) {
  COTAN_RETURN_IF_ERROR(host_.Check(copy.host_to, copy.bytes, true));
  auto* to = static_cast<std::byte*>(copy.host_to);
  absl::Status status = memory_.Read(copy.device_from, absl::MakeSpan(to, copy.bytes));
  if (status.code() == absl::StatusCode::kFailedPrecondition && !options_.check_unwritten_copies) {
    DeviceMemory::BlockView block;
    for (uint64_t i = 0; i < copy.bytes; ++i) {
      if (!memory_.Read(copy.device_from + i, absl::MakeSpan(to + i, 1)).ok()) to[i] = std::byte{kPoison};
    }
    status = absl::OkStatus();
  }
  COTAN_RETURN_IF_ERROR(status);
  host_.NoteDeviceWrite(copy.host_to);
  CountTransfer(statistics_.to_host, copy.bytes, kHostBytesPerNs);
  return absl::OkStatus();
}

absl::Status WorkRunner::RunWork(const MemoryFill& fill) {
  const uint64_t bytes = fill.count * static_cast<uint64_t>(fill.width);
  COTAN_ASSIGN_OR_RETURN(std::byte * to, memory_.ViewForWrite(fill.to, bytes));
  for (uint64_t i = 0; i < bytes; i += static_cast<uint64_t>(fill.width)) {
    std::memcpy(to + i, &fill.value, static_cast<size_t>(fill.width));
  }
  CountTransfer(statistics_.sets, bytes, kDeviceBytesPerNs);
  return absl::OkStatus();
}

absl::Status WorkRunner::RunWork(const HostFunction& call) {
  COTAN_RETURN_IF_ERROR(call.function(memory_));
  ++statistics_.host_functions[call.label];
  now_ns_ += kOverheadNs;
  return absl::OkStatus();
}

absl::Status WorkRunner::RunWork(const EventMark& mark) {
  mark.stamp->done = true;
  mark.stamp->time_ns = now_ns_;
  return absl::OkStatus();
}

void WorkRunner::CountTransfer(TransferStatistics& statistics, uint64_t bytes, uint64_t bytes_per_ns) {
  ++statistics.count;
  statistics.bytes += static_cast<int64_t>(bytes);
  now_ns_ += kOverheadNs + bytes / bytes_per_ns;
}

}  // namespace cotan::cuda::sim
