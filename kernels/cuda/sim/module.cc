// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/sim/module.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "kernels/cuda/sim/ptx/ptx_parser.h"

namespace cotan::cuda::sim {
namespace {

// Shared memory of a block without opt-in, in bytes.
constexpr int64_t kDefaultSharedBytes = 48 * 1024;

// Checks a .target such as sm_90 (runs there and on all later chips) or sm_90a (runs there only).
absl::Status CheckTarget(const std::string& target, int compute_capability) {
  absl::string_view name = target;
  const bool exact = absl::EndsWith(name, "a");
  const bool family = absl::EndsWith(name, "f");
  if (exact || family) name.remove_suffix(1);
  int version = 0;
  if (!absl::ConsumePrefix(&name, "sm_") || !absl::SimpleAtoi(name, &version)) {
    return absl::InvalidArgumentError(absl::StrCat("unknown .target ", target));
  }
  const bool fits = exact    ? version == compute_capability
                    : family ? version <= compute_capability && version / 10 == compute_capability / 10
                             : version <= compute_capability;
  if (fits) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("the PTX is for ", target, ", the device has compute capability ", compute_capability));
}

}  // namespace

absl::Status Kernel::CheckLaunch(const ptx::Launch& launch) const {
  COTAN_RETURN_IF_ERROR(ptx::CheckLaunch(program, launch));
  if (launch.dynamic_shared_bytes <= max_dynamic_shared_bytes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("launch of kernel ", name(), ": ", launch.dynamic_shared_bytes,
                   " bytes of dynamic shared memory, more than ", max_dynamic_shared_bytes,
                   ": call cuFuncSetAttribute with CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES first"));
}

absl::StatusOr<std::unique_ptr<LoadedModule>> LoadedModule::Load(absl::string_view text, int compute_capability,
                                                                 DeviceMemory& memory) {
  COTAN_ASSIGN_OR_RETURN(ptx::Module source, ptx::ParsePtx(text));
  COTAN_RETURN_IF_ERROR(CheckTarget(source.target, compute_capability));
  std::unique_ptr<LoadedModule> module(new LoadedModule(compute_capability, memory));
  module->source_ = std::make_shared<const ptx::Module>(std::move(source));
  if (const absl::Status status = module->PlaceVariables(); !status.ok()) {
    module->Unload();
    return status;
  }
  return module;
}

absl::Status LoadedModule::PlaceVariables() {
  for (const ptx::Variable& variable : source_->variables) {
    if (variable.is_extern && variable.init.empty()) continue;
    COTAN_ASSIGN_OR_RETURN(const uint64_t address, memory_.Allocate(std::max<uint64_t>(variable.init.size(), 1),
                                                                    absl::StrCat("module variable ", variable.name)));
    symbols_[variable.name] = address;
  }
  for (const ptx::Variable& variable : source_->variables) {
    std::vector<std::byte> init = variable.init;
    for (const auto& [offset, name] : variable.relocations) {
      const auto found = symbols_.find(name);
      if (found == symbols_.end()) {
        return absl::InvalidArgumentError(
            absl::StrCat("variable ", variable.name, " has the address of ", name, ", which the module lacks"));
      }
      uint64_t value = 0;
      std::memcpy(&value, init.data() + offset, sizeof(value));
      value += found->second;
      std::memcpy(init.data() + offset, &value, sizeof(value));
    }
    if (!init.empty()) COTAN_RETURN_IF_ERROR(memory_.Write(symbols_[variable.name], init));
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<Kernel>> LoadedModule::GetKernel(const std::string& name) {
  if (const auto found = kernels_.find(name); found != kernels_.end()) return found->second;
  COTAN_ASSIGN_OR_RETURN(ptx::Program program, ptx::Program::Create(*source_, name, symbols_));
  auto kernel = std::make_shared<Kernel>();
  kernel->source = source_;
  kernel->max_dynamic_shared_bytes = std::max<int64_t>(0, kDefaultSharedBytes - program.static_shared_bytes);
  kernel->program = std::move(program);
  kernels_[name] = kernel;
  return kernel;
}

bool LoadedModule::Has(const std::string& name) const {
  const auto found = source_->function_index.find(name);
  return found != source_->function_index.end() && source_->functions[found->second].is_entry;
}

absl::StatusOr<LoadedModule::Variable> LoadedModule::GetVariable(const std::string& name) const {
  const auto found = symbols_.find(name);
  if (found == symbols_.end()) return absl::NotFoundError(absl::StrCat("the module has no variable ", name));
  for (const ptx::Variable& variable : source_->variables) {
    if (variable.name == name) return Variable{found->second, variable.init.size()};
  }
  return absl::NotFoundError(absl::StrCat("the module has no variable ", name));
}

void LoadedModule::Unload() {
  for (const auto& [name, address] : symbols_) memory_.Free(address).IgnoreError();
  symbols_.clear();
  for (const auto& [name, kernel] : kernels_) kernel->unloaded = true;
}

}  // namespace cotan::cuda::sim
