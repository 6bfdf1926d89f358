// SPDX-License-Identifier: Apache-2.0

// The objects behind the opaque handles of the C interface.
#ifndef COTAN_CAPI_HANDLES_H_
#define COTAN_CAPI_HANDLES_H_

#include <atomic>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "base/layout.h"
#include "include/cotan.h"
#include "runtime/execution/program.h"
#include "runtime/session/session.h"
#include "runtime/tensor/tensor.h"

namespace cotan::capi {

// An input, output or state, with texts that end with NUL.
struct ValueDescription {
  std::string name;
  std::string type;
  DType dtype = DType::kUndefined;
  DimVector sizes;  // -1 for a size that depends on dynamic dimensions
};

// A method that callers call.
struct MethodDescription {
  std::string name;
  int index = 0;        // in the artifact
  int first_input = 0;  // the caller's input 0, among the inputs of the method
  std::vector<ValueDescription> inputs;
  std::vector<ValueDescription> outputs;
};

}  // namespace cotan::capi

struct cotan_tensor {
  cotan::Tensor tensor;
};

// Immutable.
struct cotan_program {
  std::shared_ptr<const cotan::Program> program;
  std::vector<cotan::capi::MethodDescription> methods;  // those that callers call
  std::vector<cotan::capi::ValueDescription> states;    // by index in the artifact
};

struct cotan_session {
  explicit cotan_session(cotan::Session session) : session(std::move(session)) {}

  cotan::Session session;
  std::atomic_flag in_use = ATOMIC_FLAG_INIT;  // while a call uses the session
  // Buffers of the current run; empty between runs, for which they keep their memory.
  std::vector<cotan::Tensor> arguments;
  std::vector<cotan::Tensor> results;
  std::vector<std::unique_ptr<cotan_tensor>> new_results;  // null where the caller gave a tensor
};

#endif  // COTAN_CAPI_HANDLES_H_
