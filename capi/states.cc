// SPDX-License-Identifier: Apache-2.0

// States of a session: gradients, values, hyperparameters, the random generator, checkpoints.
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/status_macros.h"
#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/session_use.h"
#include "include/cotan.h"
#include "runtime/session/session.h"
#include "runtime/tensor/tensor.h"

using cotan::RngState;
using cotan::Tensor;
using cotan::capi::CheckNotNull;
using cotan::capi::WithSession;

cotan_status cotan_session_gradient(cotan_session* session, const char* parameter, cotan_tensor** out) {
  return WithSession(__func__, session, [&](cotan_session& used) -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(parameter, "parameter"));
    COTAN_RETURN_IF_ERROR(CheckNotNull(out, "out"));
    COTAN_ASSIGN_OR_RETURN(const Tensor gradient, used.session.Gradient(parameter));
    COTAN_ASSIGN_OR_RETURN(Tensor copy, gradient.Clone());
    *out = new cotan_tensor{std::move(copy)};
    return absl::OkStatus();
  });
}

cotan_status cotan_session_get_state(cotan_session* session, const char* name, cotan_tensor** out) {
  return WithSession(__func__, session, [&](cotan_session& used) -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(name, "name"));
    COTAN_RETURN_IF_ERROR(CheckNotNull(out, "out"));
    COTAN_ASSIGN_OR_RETURN(Tensor value, used.session.State(name));
    *out = new cotan_tensor{std::move(value)};
    return absl::OkStatus();
  });
}

cotan_status cotan_session_set_state(cotan_session* session, const char* name, const cotan_tensor* value) {
  return WithSession(__func__, session, [&](cotan_session& used) -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(name, "name"));
    COTAN_RETURN_IF_ERROR(CheckNotNull(value, "value"));
    return used.session.SetState(name, value->tensor);
  });
}

cotan_status cotan_session_get_hyperparameter(cotan_session* session, const char* name, int32_t group, double* value) {
  return WithSession(__func__, session, [&](cotan_session& used) -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(name, "name"));
    COTAN_RETURN_IF_ERROR(CheckNotNull(value, "value"));
    COTAN_ASSIGN_OR_RETURN(*value, used.session.Hyperparameter(name, group));
    return absl::OkStatus();
  });
}

cotan_status cotan_session_set_hyperparameter(cotan_session* session, const char* name, int32_t group, double value) {
  return WithSession(__func__, session, [&](cotan_session& used) -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(name, "name"));
    return used.session.SetHyperparameter(name, value, group);
  });
}

cotan_status cotan_session_get_rng(cotan_session* session, int64_t* seed, int64_t* offset) {
  return WithSession(__func__, session, [&](cotan_session& used) -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(seed, "seed"));
    COTAN_RETURN_IF_ERROR(CheckNotNull(offset, "offset"));
    COTAN_ASSIGN_OR_RETURN(const RngState rng, used.session.Rng());
    *seed = rng.seed;
    *offset = rng.offset;
    return absl::OkStatus();
  });
}

cotan_status cotan_session_set_rng(cotan_session* session, int64_t seed, int64_t offset) {
  return WithSession(__func__, session,
                     [&](cotan_session& used) { return used.session.SetRng({.seed = seed, .offset = offset}); });
}

cotan_status cotan_session_save_checkpoint(cotan_session* session, const char* path) {
  return WithSession(__func__, session, [&](cotan_session& used) -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(path, "path"));
    return used.session.SaveCheckpoint(path);
  });
}

cotan_status cotan_session_load_checkpoint(cotan_session* session, const char* path) {
  return WithSession(__func__, session, [&](cotan_session& used) -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(path, "path"));
    return used.session.LoadCheckpoint(path);
  });
}
