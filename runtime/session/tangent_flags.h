// What tells a backward method which of its tangents are defined.
#ifndef COTAN_RUNTIME_SESSION_TANGENT_FLAGS_H_
#define COTAN_RUNTIME_SESSION_TANGENT_FLAGS_H_

#include "absl/status/statusor.h"
#include "runtime/autograd/tensor_ops.h"
#include "runtime/tensor/tensor.h"
#include "serialization/schema/program.pb.h"

namespace cotan {

// Whether `backward`, whose first `num_saved` inputs are saved values, takes a flag for
// each of `num_tangents` tangents, behind them (Method.inputs).
bool TakesTangentFlags(const serialization::Method& backward, int num_saved, int num_tangents);

// A flag, bool[], on the device of `ops`; on the host without allocation.
// ResourceExhausted, Internal: from the device.
absl::StatusOr<Tensor> TangentFlag(TensorOps& ops, bool is_defined);

}  // namespace cotan

#endif  // COTAN_RUNTIME_SESSION_TANGENT_FLAGS_H_
