// SPDX-License-Identifier: Apache-2.0

// Kernels that execute effects (prints, metrics, assertions) as steps of a plan.
#ifndef COTAN_RUNTIME_EXECUTION_EFFECT_KERNEL_H_
#define COTAN_RUNTIME_EXECUTION_EFFECT_KERNEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/device.h"
#include "kernels/api/kernel.h"
#include "runtime/execution/effects.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Returns the kind of an op's effect. VerifyArtifact() has checked that the kind is known.
EffectKind KindOf(const serialization::Effect& effect);

// Returns a kernel that copies its one input, which has the dtype and layout of `value` on `device`, to the
// host and calls the handler. `handlers` may be null, which means no handlers; afterwards it only
// identifies them (RunningHandler). Its Run() returns the errors of the handler, and InvalidArgument if an assertion
// without a handler does not hold.
// FailedPrecondition: a print or metric without a handler.
// ResourceExhausted: the host has not enough memory.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareEffect(const serialization::Effect& effect, const TensorSpec& value,
                                                      Device& device, const EffectHandlers* handlers);

}  // namespace cotan

#endif  // COTAN_RUNTIME_EXECUTION_EFFECT_KERNEL_H_
