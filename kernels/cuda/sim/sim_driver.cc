// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/sim_driver.h"

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"

namespace cotan::cuda::sim {

using namespace driver;  // The names of the vendor's API. NOLINT(google-build-using-namespace)

namespace {

CUresult ResultOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kOk:
      return CUDA_SUCCESS;
    case absl::StatusCode::kOutOfRange:
      return CUDA_ERROR_ILLEGAL_ADDRESS;
    case absl::StatusCode::kInvalidArgument:
      return CUDA_ERROR_MISALIGNED_ADDRESS;
    default:
      return CUDA_ERROR_LAUNCH_FAILED;
  }
}

// The destructor of SimDriver reports leaks instead.
void Ignore(absl::string_view) {}

}  // namespace

SimDriver::SimDriver(SimGpu::Options options)
    : options_(std::move(options)),
      memory_({.capacity_bytes = options_.memory_bytes, .on_leak = Ignore}),
      host_(Ignore),
      runner_({.seed = options_.seed,
               .check_unwritten_copies = options_.check_unwritten_copies,
               .multiprocessors = options_.multiprocessors,
               .race_checks = options_.race_checks},
              memory_, host_, statistics_),
      queue_(options_.seed, runner_, memory_) {
  legacy_.lane = queue_.AddLane("the legacy default stream");
  FillTable();
}

SimDriver::~SimDriver() {
  std::string text = Leaks();
  if (sticky_ == CUDA_SUCCESS) {
    if (const absl::Status status = queue_.CompleteAll(); !status.ok()) Stick(status);
  }
  if (sticky_ != CUDA_SUCCESS && !sticky_returned_) absl::StrAppend(&text, "queued work failed: ", *sticky_text_, "\n");
  if (text.empty()) return;
  if (options_.on_violation != nullptr) {
    options_.on_violation(text);
    return;
  }
  std::fprintf(stderr, "the simulated GPU ends with violations:\n%s", text.c_str());
  std::abort();
}

std::string SimDriver::Leaks() const {
  std::string text;
  for (const absl::Status& status : {memory_.CheckLeaks(), host_.CheckLeaks()}) {
    if (!status.ok()) absl::StrAppend(&text, status.message(), "\n");
  }
  const std::pair<const char*, size_t> objects[] = {{"modules", modules_.size()},
                                                    {"streams", streams_.size()},
                                                    {"events", events_.size()},
                                                    {"graphs", graphs_.size()},
                                                    {"executable graphs", executables_.size()}};
  for (const auto& [name, count] : objects) {
    if (count != 0) absl::StrAppend(&text, count, " ", name, " leak\n");
  }
  return text;
}

CUresult SimDriver::Fail(CUresult result, std::string text) {
  last_text_ = &*texts_.insert(std::move(text)).first;
  last_error_ = result;
  return result;
}

CUresult SimDriver::InvalidHandle(absl::string_view what) {
  return Fail(CUDA_ERROR_INVALID_HANDLE, absl::StrCat("no such ", what, ", or it was destroyed"));
}

CUresult SimDriver::Stick(const absl::Status& status) {
  if (status.ok()) return CUDA_SUCCESS;
  sticky_ = Fail(ResultOf(status), std::string(status.message()));
  sticky_text_ = last_text_;
  return sticky_;
}

CUresult SimDriver::Enter(const char* name, Needs needs, bool& call) {
  call = false;
  ++statistics_.calls[name];
  if (const auto found = injections_.find(name); found != injections_.end() && --found->second.calls_left == 0) {
    const CUresult result = found->second.result;
    injections_.erase(found);
    return Fail(result, absl::StrCat(name, " fails by request"));
  }
  if (needs != Needs::kNothing && !initialized_) {
    return Fail(CUDA_ERROR_NOT_INITIALIZED, absl::StrCat(name, " is called before cuInit"));
  }
  if (needs == Needs::kContext || needs == Needs::kRelease) {
    if (context_count_ == 0 || !current_.contains(std::this_thread::get_id())) {
      return Fail(CUDA_ERROR_INVALID_CONTEXT,
                  absl::StrCat(name, ": no context is current in this thread: call cuCtxSetCurrent"));
    }
    if (sticky_ != CUDA_SUCCESS) {
      call = needs == Needs::kRelease;
      return sticky_;
    }
  }
  call = true;
  return CUDA_SUCCESS;
}

template <typename... Arguments>
std::function<CUresult(Arguments...)> SimDriver::Wrap(const char* name, Needs needs,
                                                      CUresult (SimDriver::*function)(Arguments...)) {
  return [this, name, needs, function](Arguments... arguments) {
    const std::lock_guard<std::mutex> lock(mutex_);
    bool call = false;
    const CUresult before = Enter(name, needs, call);
    const CUresult result = call ? (this->*function)(arguments...) : before;
    // A function that releases something does so although queued work failed.
    const CUresult returned = before != CUDA_SUCCESS ? before : result;
    if (sticky_ != CUDA_SUCCESS && returned == sticky_) sticky_returned_ = true;
    return returned;
  };
}

void SimDriver::FillTable() {
  const auto add = [this]<typename... Arguments>(std::function<CUresult(Arguments...)>& entry, const char* name,
                                                 Needs needs, CUresult (SimDriver::*function)(Arguments...)) {
    entry = Wrap(name, needs, function);
  };
  DriverTable& t = table_;
  add(t.cuInit, "cuInit", Needs::kNothing, &SimDriver::Init);
  add(t.cuDriverGetVersion, "cuDriverGetVersion", Needs::kNothing, &SimDriver::GetVersion);
  add(t.cuGetErrorName, "cuGetErrorName", Needs::kNothing, &SimDriver::GetErrorName);
  add(t.cuGetErrorString, "cuGetErrorString", Needs::kNothing, &SimDriver::GetErrorString);
  add(t.cuDeviceGetCount, "cuDeviceGetCount", Needs::kInit, &SimDriver::DeviceGetCount);
  add(t.cuDeviceGet, "cuDeviceGet", Needs::kInit, &SimDriver::DeviceGet);
  add(t.cuDeviceGetName, "cuDeviceGetName", Needs::kInit, &SimDriver::DeviceGetName);
  add(t.cuDeviceGetAttribute, "cuDeviceGetAttribute", Needs::kInit, &SimDriver::DeviceGetAttribute);
  add(t.cuDeviceTotalMem_v2, "cuDeviceTotalMem_v2", Needs::kInit, &SimDriver::DeviceTotalMem);
  add(t.cuDevicePrimaryCtxRetain, "cuDevicePrimaryCtxRetain", Needs::kInit, &SimDriver::PrimaryCtxRetain);
  add(t.cuDevicePrimaryCtxRelease_v2, "cuDevicePrimaryCtxRelease_v2", Needs::kInit, &SimDriver::PrimaryCtxRelease);
  add(t.cuCtxSetCurrent, "cuCtxSetCurrent", Needs::kInit, &SimDriver::CtxSetCurrent);
  add(t.cuCtxGetCurrent, "cuCtxGetCurrent", Needs::kInit, &SimDriver::CtxGetCurrent);
  add(t.cuCtxSynchronize, "cuCtxSynchronize", Needs::kContext, &SimDriver::CtxSynchronize);
  add(t.cuModuleLoadData, "cuModuleLoadData", Needs::kContext, &SimDriver::ModuleLoadData);
  add(t.cuModuleUnload, "cuModuleUnload", Needs::kRelease, &SimDriver::ModuleUnload);
  add(t.cuModuleGetFunction, "cuModuleGetFunction", Needs::kContext, &SimDriver::ModuleGetFunction);
  add(t.cuModuleGetGlobal_v2, "cuModuleGetGlobal_v2", Needs::kContext, &SimDriver::ModuleGetGlobal);
  add(t.cuFuncGetAttribute, "cuFuncGetAttribute", Needs::kContext, &SimDriver::FuncGetAttribute);
  add(t.cuFuncSetAttribute, "cuFuncSetAttribute", Needs::kContext, &SimDriver::FuncSetAttribute);
  add(t.cuLaunchKernelEx, "cuLaunchKernelEx", Needs::kContext, &SimDriver::LaunchKernel);
  add(t.cuMemGetInfo_v2, "cuMemGetInfo_v2", Needs::kContext, &SimDriver::MemGetInfo);
  add(t.cuMemAlloc_v2, "cuMemAlloc_v2", Needs::kContext, &SimDriver::MemAlloc);
  add(t.cuMemFree_v2, "cuMemFree_v2", Needs::kRelease, &SimDriver::MemFree);
  add(t.cuMemHostAlloc, "cuMemHostAlloc", Needs::kContext, &SimDriver::MemHostAlloc);
  add(t.cuMemFreeHost, "cuMemFreeHost", Needs::kRelease, &SimDriver::MemFreeHost);
  add(t.cuMemcpyHtoD_v2, "cuMemcpyHtoD_v2", Needs::kContext, &SimDriver::MemcpyHtoD);
  add(t.cuMemcpyDtoH_v2, "cuMemcpyDtoH_v2", Needs::kContext, &SimDriver::MemcpyDtoH);
  add(t.cuMemcpyDtoD_v2, "cuMemcpyDtoD_v2", Needs::kContext, &SimDriver::MemcpyDtoD);
  add(t.cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync_v2", Needs::kContext, &SimDriver::MemcpyHtoDAsync);
  add(t.cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync_v2", Needs::kContext, &SimDriver::MemcpyDtoHAsync);
  add(t.cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync_v2", Needs::kContext, &SimDriver::MemcpyDtoDAsync);
  add(t.cuMemsetD8Async, "cuMemsetD8Async", Needs::kContext, &SimDriver::MemsetD8Async);
  add(t.cuMemsetD32Async, "cuMemsetD32Async", Needs::kContext, &SimDriver::MemsetD32Async);
  FillStreamsAndGraphs();
}

void SimDriver::FillStreamsAndGraphs() {
  const auto add = [this]<typename... Arguments>(std::function<CUresult(Arguments...)>& entry, const char* name,
                                                 Needs needs, CUresult (SimDriver::*function)(Arguments...)) {
    entry = Wrap(name, needs, function);
  };
  DriverTable& t = table_;
  add(t.cuStreamCreate, "cuStreamCreate", Needs::kContext, &SimDriver::StreamCreate);
  add(t.cuStreamDestroy_v2, "cuStreamDestroy_v2", Needs::kRelease, &SimDriver::StreamDestroy);
  add(t.cuStreamSynchronize, "cuStreamSynchronize", Needs::kContext, &SimDriver::StreamSynchronize);
  add(t.cuStreamQuery, "cuStreamQuery", Needs::kContext, &SimDriver::StreamQuery);
  add(t.cuStreamWaitEvent, "cuStreamWaitEvent", Needs::kContext, &SimDriver::StreamWaitEvent);
  add(t.cuStreamBeginCapture_v2, "cuStreamBeginCapture_v2", Needs::kContext, &SimDriver::StreamBeginCapture);
  add(t.cuStreamEndCapture, "cuStreamEndCapture", Needs::kContext, &SimDriver::StreamEndCapture);
  add(t.cuStreamIsCapturing, "cuStreamIsCapturing", Needs::kContext, &SimDriver::StreamIsCapturing);
  add(t.cuEventCreate, "cuEventCreate", Needs::kContext, &SimDriver::EventCreate);
  add(t.cuEventDestroy_v2, "cuEventDestroy_v2", Needs::kRelease, &SimDriver::EventDestroy);
  add(t.cuEventRecord, "cuEventRecord", Needs::kContext, &SimDriver::EventRecord);
  add(t.cuEventQuery, "cuEventQuery", Needs::kContext, &SimDriver::EventQuery);
  add(t.cuEventSynchronize, "cuEventSynchronize", Needs::kContext, &SimDriver::EventSynchronize);
  add(t.cuEventElapsedTime_v2, "cuEventElapsedTime_v2", Needs::kContext, &SimDriver::EventElapsedTime);
  add(t.cuGraphGetNodes, "cuGraphGetNodes", Needs::kContext, &SimDriver::GraphGetNodes);
  add(t.cuGraphNodeGetType, "cuGraphNodeGetType", Needs::kContext, &SimDriver::GraphNodeGetType);
  add(t.cuGraphInstantiateWithFlags, "cuGraphInstantiateWithFlags", Needs::kContext, &SimDriver::GraphInstantiate);
  add(t.cuGraphExecKernelNodeSetParams_v2, "cuGraphExecKernelNodeSetParams_v2", Needs::kContext,
      &SimDriver::GraphExecKernelNodeSetParams);
  add(t.cuGraphExecMemcpyNodeSetParams, "cuGraphExecMemcpyNodeSetParams", Needs::kContext,
      &SimDriver::GraphExecMemcpyNodeSetParams);
  add(t.cuGraphLaunch, "cuGraphLaunch", Needs::kContext, &SimDriver::GraphLaunch);
  add(t.cuGraphExecDestroy, "cuGraphExecDestroy", Needs::kRelease, &SimDriver::GraphExecDestroy);
  add(t.cuGraphDestroy, "cuGraphDestroy", Needs::kRelease, &SimDriver::GraphDestroy);
}

std::string SimDriver::LastViolation() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const std::string* text = sticky_text_ != nullptr ? sticky_text_ : last_text_;
  return text == nullptr ? "" : *text;
}

Statistics SimDriver::statistics() const {
  const std::lock_guard<std::mutex> lock(mutex_);
  return statistics_;
}

void SimDriver::ResetStatistics() {
  const std::lock_guard<std::mutex> lock(mutex_);
  statistics_ = {};
}

void SimDriver::FailCall(absl::string_view function, int64_t n, CUresult result) {
  const std::lock_guard<std::mutex> lock(mutex_);
  injections_[std::string(function)] = {n, result};
}

absl::Status SimDriver::EnqueueHostFunction(CUstream stream, absl::string_view label,
                                            std::function<absl::Status(DeviceMemory&)> function) {
  const std::lock_guard<std::mutex> lock(mutex_);
  if (sticky_ != CUDA_SUCCESS) return absl::InternalError(*sticky_text_);
  if (FindStream(stream) == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat(label, ": no such stream, or it was destroyed"));
  }
  if (Submit(stream, HostFunction{std::string(label), std::move(function)}) == CUDA_SUCCESS) return absl::OkStatus();
  return absl::InternalError(*last_text_);
}

SimGpu::SimGpu(Options options) : driver_(std::make_unique<SimDriver>(std::move(options))) {}
SimGpu::~SimGpu() = default;
const DriverTable& SimGpu::table() const { return driver_->table(); }
std::string SimGpu::LastViolation() const { return driver_->LastViolation(); }
Statistics SimGpu::statistics() const { return driver_->statistics(); }
void SimGpu::ResetStatistics() { driver_->ResetStatistics(); }
void SimGpu::FailCall(absl::string_view function, int64_t n, CUresult result) {
  driver_->FailCall(function, n, result);
}
absl::Status SimGpu::EnqueueHostFunction(CUstream stream, absl::string_view label,
                                         std::function<absl::Status(DeviceMemory&)> function) {
  return driver_->EnqueueHostFunction(stream, label, std::move(function));
}
DeviceMemory& SimGpu::memory() { return driver_->memory(); }
const SimGpu::Options& SimGpu::options() const { return driver_->options(); }

}  // namespace cotan::cuda::sim
