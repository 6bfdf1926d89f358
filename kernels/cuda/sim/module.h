// SPDX-License-Identifier: Apache-2.0

// Modules of PTX on a simulated GPU and their kernels.
#ifndef COTAN_KERNELS_CUDA_SIM_MODULE_H_
#define COTAN_KERNELS_CUDA_SIM_MODULE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/cuda/sim/device_memory.h"
#include "kernels/cuda/sim/ptx/launch.h"
#include "kernels/cuda/sim/ptx/program.h"
#include "kernels/cuda/sim/ptx/ptx_module.h"

namespace cotan::cuda::sim {

// A decoded kernel. It keeps the text's module alive, also when that is unloaded.
struct Kernel {
  std::shared_ptr<const ptx::Module> source;
  ptx::Program program;
  int64_t max_dynamic_shared_bytes = 0;  // What cuFuncSetAttribute allows.
  bool unloaded = false;

  const std::string& name() const { return program.kernel->name; }

  // InvalidArgument: the launch exceeds the limits of the device or of the kernel.
  absl::Status CheckLaunch(const ptx::Launch& launch) const;
};

// The kernels and the variables of one PTX text.
class LoadedModule {
 public:
  // Parses `text` and allocates its variables in `memory`, which must outlive the result.
  // FailedPrecondition: the text is for another compute capability. InvalidArgument, Unimplemented: the text is not
  // PTX, or has what the parser does not know. ResourceExhausted: no memory for the variables.
  static absl::StatusOr<std::unique_ptr<LoadedModule>> Load(absl::string_view text, int compute_capability,
                                                            DeviceMemory& memory);

  // Returns the kernel `name`, which the first call decodes.
  // NotFound: the module has no such kernel. Others as ptx::Program::Create.
  absl::StatusOr<std::shared_ptr<Kernel>> GetKernel(const std::string& name);

  // Returns whether the text has a kernel `name`, decodable or not.
  bool Has(const std::string& name) const;
  // Returns whether `kernel` is of this module.
  bool Owns(const Kernel& kernel) const { return kernel.source == source_; }

  struct Variable {
    uint64_t address = 0;
    uint64_t bytes = 0;
  };
  // NotFound: the module has no such variable.
  absl::StatusOr<Variable> GetVariable(const std::string& name) const;

  // Frees the variables and marks the kernels.
  void Unload();

 private:
  LoadedModule(int compute_capability, DeviceMemory& memory)
      : compute_capability_(compute_capability), memory_(memory) {}

  absl::Status PlaceVariables();

  const int compute_capability_;
  DeviceMemory& memory_;
  std::shared_ptr<const ptx::Module> source_;
  ptx::SymbolAddresses symbols_;
  std::map<std::string, std::shared_ptr<Kernel>> kernels_;  // By name.
};

}  // namespace cotan::cuda::sim

#endif  // COTAN_KERNELS_CUDA_SIM_MODULE_H_
