// Effects as steps of a plan.
#ifndef COTAN_RUNTIME_EXECUTION_EFFECT_KERNEL_H_
#define COTAN_RUNTIME_EXECUTION_EFFECT_KERNEL_H_

#include <memory>

#include "absl/status/statusor.h"
#include "kernels/api/device.h"
#include "kernels/api/kernel.h"
#include "runtime/execution/effects.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// The kind of an op's effect, which VerifyArtifact() has found to be a known one.
EffectKind KindOf(const serialization::Effect& effect);

// A kernel with one input like `value` on `device`, that brings it to the host
// and calls the handler. `handlers` may be null: there are none. It may go when
// the kernel has been made.
// FailedPrecondition: a print or metric without handler. ResourceExhausted.
absl::StatusOr<std::unique_ptr<Kernel>> PrepareEffect(const serialization::Effect& effect, const TensorSpec& value,
                                                      Device& device, const EffectHandlers* handlers);

}  // namespace cotan

#endif  // COTAN_RUNTIME_EXECUTION_EFFECT_KERNEL_H_
