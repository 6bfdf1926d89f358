// SPDX-License-Identifier: Apache-2.0

#include "runtime/execution/program.h"

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/status_macros.h"
#include "capi/guard.h"
#include "capi/handles.h"
#include "include/cotan.h"
#include "runtime/session/call_argument.h"
#include "runtime/session/tangent_flags.h"
#include "serialization/schema/continuation.h"
#include "serialization/schema/program.pb.h"
#include "serialization/schema/tensor_type.h"

namespace cotan::capi {
namespace {

using serialization::Method;
using serialization::State;
using serialization::TensorType;

ValueDescription Describe(std::string name, const TensorType& type) {
  ValueDescription value;
  value.name = std::move(name);
  value.type = TensorTypeText(type);
  value.dtype = ToDType(type.dtype());
  for (const std::string& text : type.sizes()) {
    const absl::StatusOr<int64_t> size = EvaluateSize(text, {});
    value.sizes.push_back(size.ok() ? *size : -1);
  }
  return value;
}

// Returns the number of values that the forward of `backward` saves for it; 0 if it is not a backward.
int NumSaved(const Program& program, const Method& backward) {
  for (const Method& forward : program.artifact().methods()) {
    if (forward.backward_method() == backward.name()) return static_cast<int>(forward.num_saved());
  }
  return 0;
}

// Describes the arguments and results of Session::Run(): without saved values, and without the flags of tangents,
// which the session adds.
MethodDescription Describe(const Program& program, const Method& method) {
  MethodDescription description;
  description.name = method.name();
  description.first_input = NumSaved(program, method);
  int end = NumArguments(program.artifact(), method);
  const int num_tangents = (end - description.first_input) / 2;
  if (description.first_input > 0 && TakesTangentFlags(method, description.first_input, num_tangents)) {
    end -= num_tangents;
  }
  const auto type = [&method](uint32_t value) { return method.values(static_cast<int>(value)).type(); };
  for (int i = description.first_input; i < end; ++i) {
    description.inputs.push_back(Describe(program.InputName(method, i), type(method.inputs(i))));
  }
  for (int i = 0; i < method.outputs_size() - static_cast<int>(method.num_saved()); ++i) {
    description.outputs.push_back(Describe(program.OutputName(method, i), type(method.outputs(i))));
  }
  return description;
}

absl::Status MakeHandle(absl::StatusOr<std::shared_ptr<const Program>> program, cotan_program** out) {
  COTAN_RETURN_IF_ERROR(program.status());
  auto handle = std::make_unique<cotan_program>();
  handle->program = *std::move(program);
  const auto& methods = handle->program->artifact().methods();
  for (int i = 0; i < methods.size(); ++i) {
    if (!IsCallable(methods.Get(i))) continue;
    handle->methods.push_back(Describe(*handle->program, methods.Get(i)));
    handle->methods.back().index = i;
  }
  for (const State& state : handle->program->artifact().states()) {
    handle->states.push_back(Describe(state.name(), state.type()));
  }
  *out = handle.release();
  return absl::OkStatus();
}

// The bytes of a file that the caller lends. Calls `release` when the last user is gone.
struct LentBytes {
  cotan_release_fn release = nullptr;
  void* context = nullptr;

  LentBytes() = default;
  LentBytes(const LentBytes&) = delete;
  LentBytes& operator=(const LentBytes&) = delete;
  ~LentBytes() {
    if (release != nullptr) release(context);
  }
};

absl::Status CheckBytes(const void* bytes, const char* name, cotan_program** out) {
  COTAN_RETURN_IF_ERROR(CheckNotNull(bytes, "bytes"));
  COTAN_RETURN_IF_ERROR(CheckNotNull(name, "name"));
  return CheckNotNull(out, "out");
}

// Returns OK if `index` is below `count`.
absl::Status CheckIndex(size_t index, size_t count, absl::string_view what) {
  if (index < count) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(what, " is ", index, ", but there are ", count));
}

absl::StatusOr<const MethodDescription*> FindMethod(const cotan_program* program, size_t method) {
  COTAN_RETURN_IF_ERROR(CheckNotNull(program, "program"));
  COTAN_RETURN_IF_ERROR(CheckIndex(method, program->methods.size(), "method"));
  return &program->methods[method];
}

absl::Status WriteValue(const std::vector<ValueDescription>& values, size_t index, absl::string_view what,
                        cotan_value_info* info) {
  COTAN_RETURN_IF_ERROR(CheckIndex(index, values.size(), what));
  const ValueDescription& value = values[index];
  return WriteStruct<cotan_value_info>({.struct_size = 0,
                                        .name = value.name.c_str(),
                                        .type = value.type.c_str(),
                                        .dtype = static_cast<cotan_dtype>(value.dtype),
                                        .rank = static_cast<int32_t>(value.sizes.size()),
                                        .sizes = value.sizes.data()},
                                       sizeof(cotan_value_info), "info", info);
}

absl::Status WriteState(const cotan_program& program, size_t index, cotan_state_info* info) {
  COTAN_RETURN_IF_ERROR(CheckIndex(index, program.states.size(), "state"));
  const ValueDescription& value = program.states[index];
  const State& state = program.program->state(static_cast<int>(index));
  return WriteStruct<cotan_state_info>({.struct_size = 0,
                                        .name = value.name.c_str(),
                                        .type = value.type.c_str(),
                                        .dtype = static_cast<cotan_dtype>(value.dtype),
                                        .rank = static_cast<int32_t>(value.sizes.size()),
                                        .sizes = value.sizes.data(),
                                        .role = static_cast<int32_t>(state.role()),
                                        .requires_grad = state.requires_grad() ? 1 : 0,
                                        .persistent = state.persistent() ? 1 : 0,
                                        .owner = state.owner().c_str()},
                                       sizeof(cotan_state_info), "info", info);
}

absl::Status MakeNumber(const cotan_program* program, size_t method, size_t input, NumberValue value,
                        cotan_tensor** out) {
  COTAN_RETURN_IF_ERROR(CheckNotNull(out, "out"));
  COTAN_ASSIGN_OR_RETURN(const MethodDescription* description, FindMethod(program, method));
  COTAN_RETURN_IF_ERROR(CheckIndex(input, description->inputs.size(), "input"));
  const Method& proto = program->program->method(description->index);
  const uint32_t index = proto.inputs(description->first_input + static_cast<int>(input));
  COTAN_ASSIGN_OR_RETURN(Tensor tensor, TensorOfNumber(value, proto.values(static_cast<int>(index)).type(),
                                                       description->inputs[input].name));
  *out = new cotan_tensor{std::move(tensor)};
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan::capi

using cotan::Program;
using cotan::capi::CheckNotNull;
using cotan::capi::Guarded;

// --- loading -----------------------------------------------------------------

cotan_status cotan_program_load(const char* path, cotan_program** out) {
  return Guarded(__func__, [&]() -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(path, "path"));
    COTAN_RETURN_IF_ERROR(CheckNotNull(out, "out"));
    return cotan::capi::MakeHandle(Program::Load(path), out);
  });
}

cotan_status cotan_program_load_copy(const void* bytes, size_t size, const char* name, cotan_program** out) {
  return Guarded(__func__, [&]() -> absl::Status {
    COTAN_RETURN_IF_ERROR(cotan::capi::CheckBytes(bytes, name, out));
    return cotan::capi::MakeHandle(Program::LoadBytes(std::string(static_cast<const char*>(bytes), size), name), out);
  });
}

cotan_status cotan_program_load_memory(const void* bytes, size_t size, const char* name, cotan_release_fn release,
                                       void* context, cotan_program** out) {
  return Guarded(__func__, [&]() -> absl::Status {
    COTAN_RETURN_IF_ERROR(cotan::capi::CheckBytes(bytes, name, out));
    auto lent = std::make_shared<cotan::capi::LentBytes>();
    const absl::string_view view(static_cast<const char*>(bytes), size);
    COTAN_RETURN_IF_ERROR(cotan::capi::MakeHandle(Program::LoadShared(view, lent, name), out));
    lent->release = release;
    lent->context = context;
    return absl::OkStatus();
  });
}

void cotan_program_free(cotan_program* program) { delete program; }

// --- description -------------------------------------------------------------

size_t cotan_program_num_methods(const cotan_program* program) {
  return program == nullptr ? 0 : program->methods.size();
}

size_t cotan_program_num_states(const cotan_program* program) {
  return program == nullptr ? 0 : program->states.size();
}

size_t cotan_program_num_dimensions(const cotan_program* program) {
  return program == nullptr ? 0 : static_cast<size_t>(program->program->artifact().symbols_size());
}

cotan_status cotan_program_method(const cotan_program* program, size_t method, cotan_method_info* info) {
  return Guarded(__func__, [&]() -> absl::Status {
    COTAN_ASSIGN_OR_RETURN(const auto* description, cotan::capi::FindMethod(program, method));
    return cotan::capi::WriteStruct<cotan_method_info>({.struct_size = 0,
                                                        .name = description->name.c_str(),
                                                        .num_inputs = description->inputs.size(),
                                                        .num_outputs = description->outputs.size()},
                                                       sizeof(cotan_method_info), "info", info);
  });
}

cotan_status cotan_program_input(const cotan_program* program, size_t method, size_t input, cotan_value_info* info) {
  return Guarded(__func__, [&]() -> absl::Status {
    COTAN_ASSIGN_OR_RETURN(const auto* description, cotan::capi::FindMethod(program, method));
    return cotan::capi::WriteValue(description->inputs, input, "input", info);
  });
}

cotan_status cotan_program_output(const cotan_program* program, size_t method, size_t output, cotan_value_info* info) {
  return Guarded(__func__, [&]() -> absl::Status {
    COTAN_ASSIGN_OR_RETURN(const auto* description, cotan::capi::FindMethod(program, method));
    return cotan::capi::WriteValue(description->outputs, output, "output", info);
  });
}

cotan_status cotan_program_state(const cotan_program* program, size_t state, cotan_state_info* info) {
  return Guarded(__func__, [&]() -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(program, "program"));
    return cotan::capi::WriteState(*program, state, info);
  });
}

cotan_status cotan_program_dimension(const cotan_program* program, size_t dimension, cotan_dimension_info* info) {
  return Guarded(__func__, [&]() -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(program, "program"));
    COTAN_RETURN_IF_ERROR(cotan::capi::CheckIndex(dimension, cotan_program_num_dimensions(program), "dimension"));
    const auto& symbol = program->program->artifact().symbols(static_cast<int>(dimension));
    return cotan::capi::WriteStruct<cotan_dimension_info>(
        {.struct_size = 0, .name = symbol.name().c_str(), .min = symbol.min(), .max = symbol.max()},
        sizeof(cotan_dimension_info), "info", info);
  });
}

cotan_status cotan_program_find_method(const cotan_program* program, const char* name, size_t* index) {
  return Guarded(__func__, [&]() -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(program, "program"));
    COTAN_RETURN_IF_ERROR(CheckNotNull(name, "name"));
    COTAN_RETURN_IF_ERROR(CheckNotNull(index, "index"));
    for (size_t i = 0; i < program->methods.size(); ++i) {
      if (program->methods[i].name != name) continue;
      *index = i;
      return absl::OkStatus();
    }
    const absl::StatusOr<int> other = program->program->FindMethod(name);
    return other.ok() ? absl::NotFoundError(absl::StrCat("method '", name, "' computes sizes for another one"))
                      : other.status();
  });
}

cotan_status cotan_program_find_state(const cotan_program* program, const char* name, size_t* index) {
  return Guarded(__func__, [&]() -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(program, "program"));
    COTAN_RETURN_IF_ERROR(CheckNotNull(name, "name"));
    COTAN_RETURN_IF_ERROR(CheckNotNull(index, "index"));
    COTAN_ASSIGN_OR_RETURN(const int found, program->program->FindState(name));
    *index = static_cast<size_t>(found);
    return absl::OkStatus();
  });
}

// --- numbers -----------------------------------------------------------------

cotan_status cotan_program_number_double(const cotan_program* program, size_t method, size_t input, double value,
                                         cotan_tensor** out) {
  return Guarded(__func__, [&] { return cotan::capi::MakeNumber(program, method, input, value, out); });
}

cotan_status cotan_program_number_int64(const cotan_program* program, size_t method, size_t input, int64_t value,
                                        cotan_tensor** out) {
  return Guarded(__func__, [&] { return cotan::capi::MakeNumber(program, method, input, value, out); });
}

cotan_status cotan_program_number_bool(const cotan_program* program, size_t method, size_t input, int32_t value,
                                       cotan_tensor** out) {
  return Guarded(__func__, [&] { return cotan::capi::MakeNumber(program, method, input, value != 0, out); });
}
