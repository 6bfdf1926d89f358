// Makes the tensors that a function is traced with.
#ifndef COTAN_AOT_CAPTURE_INPUTS_H_
#define COTAN_AOT_CAPTURE_INPUTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "aot/capture/recorder.h"
#include "aot/capture/traced_function.h"

namespace cotan::aot {

// Makes each state's tensor a graph input of `recorder`: parameters, buffers.
void InstallStateProxies(absl::Span<const ModuleState> states, Recorder& recorder);
// Makes their tensors again what they were after construction.
void RestoreStates(absl::Span<const ModuleState> states);

// A user input with the content of `example`, a real CPU tensor. It requires
// grad and is a leaf as `example` is; gradients can be taken to it either way.
at::Tensor AddInputLike(const at::Tensor& example, Recorder& recorder, int index, const std::string& name);

// Makes random ops of `recorder` draw from Philox with `seed`, offset 0.
void InstallRngState(uint64_t seed, Recorder& recorder);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_INPUTS_H_
