// SPDX-License-Identifier: Apache-2.0

// Modules, functions and launches.
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/sim_driver.h"

namespace cotan::cuda::sim {

using namespace driver;  // The names of the vendor's API. NOLINT(google-build-using-namespace)

namespace {

// How machine code begins: ELF, and the vendor's container of several images.
constexpr char kElf[] =
    "\x7f"
    "ELF";
constexpr char kContainer[] = "\x50\xed\x55\xba";
constexpr int kProgrammaticCapability = 90;  // The first one with programmatic stream serialization.
constexpr int kRegisters = 32;               // The PTX does not say how many a kernel gets.

CUresult ResultOfLoad(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kFailedPrecondition:
      return CUDA_ERROR_NO_BINARY_FOR_GPU;
    case absl::StatusCode::kResourceExhausted:
      return CUDA_ERROR_OUT_OF_MEMORY;
    default:
      return CUDA_ERROR_INVALID_PTX;
  }
}

// Copies host memory that may not exist; returns whether it does.
bool ReadHost(const void* from, size_t bytes, void* to) {
  const iovec local = {to, bytes}, remote = {const_cast<void*>(from), bytes};
  const ssize_t count = process_vm_readv(getpid(), &local, 1, &remote, 1, 0);
  if (count == static_cast<ssize_t>(bytes)) return true;
  if (count < 0 && (errno == EPERM || errno == ENOSYS)) {
    std::memcpy(to, from, bytes);  // The call is forbidden here.
    return true;
  }
  return false;
}

}  // namespace

CUresult SimDriver::ModuleLoadData(CUmodule* module, const void* image) {
  if (module == nullptr || image == nullptr) return InvalidValue("cuModuleLoadData: null");
  if (const CUresult result = CheckCallAllowed("cuModuleLoadData"); result != CUDA_SUCCESS) return result;
  if (std::strncmp(static_cast<const char*>(image), kElf, 4) == 0 ||
      std::strncmp(static_cast<const char*>(image), kContainer, 4) == 0) {
    return Fail(CUDA_ERROR_NO_BINARY_FOR_GPU, "the simulated GPU executes PTX text, the image is machine code");
  }
  auto loaded = LoadedModule::Load(static_cast<const char*>(image), options_.compute_capability, memory_);
  if (!loaded.ok()) return Fail(ResultOfLoad(loaded.status()), std::string(loaded.status().message()));
  ++statistics_.module_loads;
  *module = modules_.Add(std::move(*loaded));
  return CUDA_SUCCESS;
}

CUresult SimDriver::ModuleUnload(CUmodule module) {
  LoadedModule* found = modules_.Find(module);
  if (found == nullptr) return InvalidHandle("module");
  if (const CUresult result = CheckCallAllowed("cuModuleUnload"); result != CUDA_SUCCESS) return result;
  const Kernel* queued = nullptr;
  queue_.ForEachPending([&](const Work& work) {
    const auto* call = std::get_if<KernelCall>(&work);
    if (call != nullptr && found->Owns(*call->kernel)) queued = call->kernel.get();
  });
  if (queued != nullptr) {
    return Fail(CUDA_ERROR_ILLEGAL_STATE,
                absl::StrCat("cuModuleUnload: kernel ", queued->name(), " of the module is queued: synchronize first"));
  }
  found->Unload();
  modules_.Remove(module);
  std::vector<CUfunction> gone;
  for (const auto& [handle, function] : functions_.objects()) {
    if (function->module == module) gone.push_back(handle);
  }
  for (const CUfunction handle : gone) functions_.Remove(handle);
  return CUDA_SUCCESS;
}

CUresult SimDriver::ModuleGetFunction(CUfunction* function, CUmodule module, const char* name) {
  if (function == nullptr || name == nullptr) return InvalidValue("cuModuleGetFunction: null");
  LoadedModule* found = modules_.Find(module);
  if (found == nullptr) return InvalidHandle("module");
  auto kernel = found->GetKernel(name);
  if (!kernel.ok()) {
    const bool missing = !found->Has(name);
    return Fail(missing ? CUDA_ERROR_NOT_FOUND : CUDA_ERROR_NOT_SUPPORTED, std::string(kernel.status().message()));
  }
  for (const auto& [handle, known] : functions_.objects()) {
    if (known->kernel != *kernel) continue;
    *function = handle;
    return CUDA_SUCCESS;
  }
  *function = functions_.Add(std::make_unique<Function>(Function{module, *kernel}));
  return CUDA_SUCCESS;
}

CUresult SimDriver::ModuleGetGlobal(CUdeviceptr* address, size_t* bytes, CUmodule module, const char* name) {
  if (name == nullptr || (address == nullptr && bytes == nullptr)) return InvalidValue("cuModuleGetGlobal_v2: null");
  LoadedModule* found = modules_.Find(module);
  if (found == nullptr) return InvalidHandle("module");
  const auto variable = found->GetVariable(name);
  if (!variable.ok()) return Fail(CUDA_ERROR_NOT_FOUND, std::string(variable.status().message()));
  if (address != nullptr) *address = variable->address;
  if (bytes != nullptr) *bytes = variable->bytes;
  return CUDA_SUCCESS;
}

CUresult SimDriver::FuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction function) {
  const Function* found = functions_.Find(function);
  if (found == nullptr) return InvalidHandle("function");
  if (value == nullptr) return InvalidValue("cuFuncGetAttribute: null");
  const Kernel& kernel = *found->kernel;
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK: {
      const auto& bound = kernel.program.kernel->max_threads;
      *value =
          bound[0] == 0 ? 1024 : static_cast<int>(std::min<uint64_t>(1024, uint64_t{bound[0]} * bound[1] * bound[2]));
      return CUDA_SUCCESS;
    }
    case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
      *value = static_cast<int>(kernel.program.static_shared_bytes);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
      *value = static_cast<int>(kernel.program.frame_bytes);
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = kRegisters;
      return CUDA_SUCCESS;
    case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
      *value = static_cast<int>(kernel.max_dynamic_shared_bytes);
      return CUDA_SUCCESS;
  }
  return InvalidValue(absl::StrCat("cuFuncGetAttribute: the simulated GPU has no attribute ", attribute));
}

CUresult SimDriver::FuncSetAttribute(CUfunction function, CUfunction_attribute attribute, int value) {
  const Function* found = functions_.Find(function);
  if (found == nullptr) return InvalidHandle("function");
  if (attribute != CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES) {
    return InvalidValue(absl::StrCat("cuFuncSetAttribute: attribute ", attribute, " cannot be set"));
  }
  Kernel& kernel = *found->kernel;
  const int64_t limit = ptx::MaxSharedBytes(options_.compute_capability) - kernel.program.static_shared_bytes;
  if (value < 0 || value > limit) {
    return InvalidValue(absl::StrCat("cuFuncSetAttribute: ", value, " bytes of dynamic shared memory for kernel ",
                                     kernel.name(), ", which may have ", limit, " on this device"));
  }
  kernel.max_dynamic_shared_bytes = value;
  return CUDA_SUCCESS;
}

absl::Status SimDriver::ReadParameters(const Kernel& kernel, void** parameters, std::vector<std::byte>& bytes) const {
  const ptx::Function& function = *kernel.program.kernel;
  bytes.resize(static_cast<size_t>(function.parameter_bytes));
  for (size_t i = 0; i < function.parameters.size(); ++i) {
    const ptx::Parameter& parameter = function.parameters[i];
    void* from = nullptr;
    if (parameters == nullptr || !ReadHost(parameters + i, sizeof(from), &from) || from == nullptr ||
        !ReadHost(from, static_cast<size_t>(parameter.size), bytes.data() + parameter.offset)) {
      return absl::InvalidArgumentError(absl::StrCat("launch of kernel ", kernel.name(), ": it takes ",
                                                     function.parameters.size(), " parameters, and number ", i,
                                                     " (from 0) is missing"));
    }
  }
  return absl::OkStatus();
}

CUresult SimDriver::MakeCall(const CUDA_KERNEL_NODE_PARAMS_v2& parameters, KernelCall& call) {
  const Function* found = functions_.Find(parameters.func);
  if (found == nullptr) return InvalidHandle("function");
  if (parameters.extra != nullptr) return InvalidValue("the simulated GPU takes no `extra` parameters");
  call.kernel = found->kernel;
  call.launch = {.grid = {parameters.gridDimX, parameters.gridDimY, parameters.gridDimZ},
                 .block = {parameters.blockDimX, parameters.blockDimY, parameters.blockDimZ},
                 .dynamic_shared_bytes = parameters.sharedMemBytes,
                 .compute_capability = options_.compute_capability};
  absl::Status status = ReadParameters(*call.kernel, parameters.kernelParams, call.launch.parameters);
  if (status.ok()) status = call.kernel->CheckLaunch(call.launch);
  return status.ok() ? CUDA_SUCCESS : InvalidValue(status.message());
}

CUresult SimDriver::ReadAttributes(const CUlaunchConfig& config, ptx::Launch& launch) {
  for (unsigned i = 0; i < config.numAttrs; ++i) {
    if (config.attrs == nullptr) return InvalidValue("cuLaunchKernelEx: attributes are null");
    const CUlaunchAttribute& attribute = config.attrs[i];
    if (attribute.id == CU_LAUNCH_ATTRIBUTE_IGNORE) continue;
    if (attribute.id != CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION) {
      return InvalidValue(absl::StrCat("cuLaunchKernelEx: the simulated GPU has no attribute ", attribute.id));
    }
    launch.begins_early = attribute.value.programmaticStreamSerializationAllowed != 0;
  }
  if (!launch.begins_early || options_.compute_capability >= kProgrammaticCapability) return CUDA_SUCCESS;
  return Fail(CUDA_ERROR_NOT_SUPPORTED,
              absl::StrCat("cuLaunchKernelEx: programmatic stream serialization needs compute capability ",
                           kProgrammaticCapability, ", the device has ", options_.compute_capability));
}

CUresult SimDriver::LaunchKernel(const CUlaunchConfig* config, CUfunction function, void** parameters, void** extra) {
  if (config == nullptr) return InvalidValue("cuLaunchKernelEx: null");
  const Stream* found = FindStream(config->hStream);
  if (found == nullptr) return InvalidHandle("stream");
  const CUDA_KERNEL_NODE_PARAMS_v2 node = {.func = function,
                                           .gridDimX = config->gridDimX,
                                           .gridDimY = config->gridDimY,
                                           .gridDimZ = config->gridDimZ,
                                           .blockDimX = config->blockDimX,
                                           .blockDimY = config->blockDimY,
                                           .blockDimZ = config->blockDimZ,
                                           .sharedMemBytes = config->sharedMemBytes,
                                           .kernelParams = parameters,
                                           .extra = extra,
                                           .kern = nullptr,
                                           .ctx = nullptr};
  KernelCall call;
  if (const CUresult result = MakeCall(node, call); result != CUDA_SUCCESS) return result;
  if (const CUresult result = ReadAttributes(*config, call.launch); result != CUDA_SUCCESS) return result;
  const bool captured = found->capture != nullptr;
  const CUresult result = Submit(config->hStream, std::move(call));
  if (result == CUDA_SUCCESS && !captured) ++statistics_.kernel_launches;
  return result;
}

}  // namespace cotan::cuda::sim
