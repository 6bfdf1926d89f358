// SPDX-License-Identifier: Apache-2.0

// Makes the inputs and states that a function is traced with.
#ifndef COTAN_AOT_CAPTURE_INPUTS_H_
#define COTAN_AOT_CAPTURE_INPUTS_H_

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <string>

#include "absl/types/span.h"
#include "aot/capture/recorder.h"
#include "aot/capture/traced_function.h"

namespace cotan::aot {

// Adds a graph input of `recorder` for each state (a parameter or a buffer) and puts its proxy into the
// state's tensor.
void InstallStateProxies(absl::Span<const ModuleState> states, Recorder& recorder);
// Puts proxies with the initial content, of a construction epoch, back into the states' tensors and removes
// their autograd metadata.
void RestoreStates(absl::Span<const ModuleState> states);

// Adds a user input with the content of `example`, a real CPU tensor, and returns its functional tensor. It
// requires grad and is a leaf as `example` is; its gradient can be computed in both cases. A wrapped number gives a
// number (number.h).
at::Tensor AddInputLike(const at::Tensor& example, Recorder& recorder, int index, const std::string& name);

// Adds the RNG state as a graph input; random ops of `recorder` draw from Philox with `seed` and offset 0.
void InstallRngState(uint64_t seed, Recorder& recorder);

}  // namespace cotan::aot

#endif  // COTAN_AOT_CAPTURE_INPUTS_H_
