// SPDX-License-Identifier: Apache-2.0

// Creation of sessions, and runs.
#include "runtime/session/session.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "base/status_macros.h"
#include "capi/guard.h"
#include "capi/handles.h"
#include "capi/session_use.h"
#include "include/cotan.h"
#include "kernels/cpu/register_cpu.h"
#include "runtime/execution/effects.h"

namespace cotan::capi {
namespace {

static_assert(static_cast<int>(EffectKind::kPrint) == COTAN_EFFECT_PRINT);
static_assert(static_cast<int>(EffectKind::kMetric) == COTAN_EFFECT_METRIC);
static_assert(static_cast<int>(EffectKind::kAssert) == COTAN_EFFECT_ASSERT);

// Returns a handler that calls the caller's function.
EffectHandler MakeHandler(cotan_effect_fn function, void* context) {
  return [function, context](const EffectEvent& event) -> absl::Status {
    const std::string name(event.name);
    const std::string message(event.message);
    const cotan_tensor value = {event.value};
    const cotan_effect effect = {.struct_size = sizeof(cotan_effect),
                                 .kind = static_cast<int32_t>(event.kind),
                                 .name = name.c_str(),
                                 .message = message.c_str(),
                                 .value = &value};
    cotan_status status = COTAN_OK;
    // Caught here because the frames of the runtime have no cleanup for exceptions.
    try {
      status = function(context, &effect);
    } catch (...) {
      return absl::InternalError(
          absl::StrCat("the handler of ", EffectKindName(event.kind), " '", name, "' has thrown an exception"));
    }
    if (status == COTAN_OK) return absl::OkStatus();
    const bool is_known = status > COTAN_OK && status <= COTAN_UNAUTHENTICATED;
    return absl::Status(is_known ? static_cast<absl::StatusCode>(status) : absl::StatusCode::kUnknown,
                        absl::StrCat("the handler of ", EffectKindName(event.kind), " '", name, "' returned ",
                                     cotan_status_name(status), message.empty() ? "" : ": ", message));
  };
}

absl::StatusOr<SessionOptions> MakeOptions(const cotan_session_options* given) {
  SessionOptions options = {.kernels = &CpuKernels()};
  if (given == nullptr) return options;
  COTAN_ASSIGN_OR_RETURN(const cotan_session_options read, ReadStruct(given, sizeof(cotan_session_options), "options"));
  if (read.device != nullptr && absl::string_view(read.device) != "cpu") {
    return absl::InvalidArgumentError(
        absl::StrCat("options.device is '", read.device, "', but libcotan runs on 'cpu' only"));
  }
  options.threads = read.threads;
  if (read.max_plans != 0) options.max_plans = read.max_plans;
  options.flush_denormals = read.flush_denormals != 0;
  if (read.on_effect != nullptr) {
    const EffectHandler handler = MakeHandler(read.on_effect, read.on_effect_context);
    options.effects.Set(EffectKind::kPrint, handler).Set(EffectKind::kMetric, handler);
    if (read.handle_assertions != 0) options.effects.Set(EffectKind::kAssert, handler);
  }
  return options;
}

absl::Status Create(const cotan_program* program, const cotan_session_options* given, cotan_session** out) {
  COTAN_RETURN_IF_ERROR(CheckNotNull(program, "program"));
  COTAN_RETURN_IF_ERROR(CheckNotNull(out, "out"));
  COTAN_ASSIGN_OR_RETURN(const SessionOptions options, MakeOptions(given));
  COTAN_ASSIGN_OR_RETURN(Session session, Session::Create(program->program, options));
  *out = new cotan_session(std::move(session));
  return absl::OkStatus();
}

// Arguments and results of a run as the caller gave them.
struct RunArguments {
  const char* method = nullptr;
  absl::Span<cotan_tensor* const> arguments;
  absl::Span<cotan_tensor*> results;
};

absl::StatusOr<RunArguments> CheckedArguments(const char* method, cotan_tensor* const* arguments, size_t num_arguments,
                                              cotan_tensor** results, size_t num_results) {
  COTAN_RETURN_IF_ERROR(CheckNotNull(method, "method"));
  if (num_arguments != 0) COTAN_RETURN_IF_ERROR(CheckNotNull(arguments, "arguments"));
  if (num_results != 0) COTAN_RETURN_IF_ERROR(CheckNotNull(results, "results"));
  for (size_t i = 0; i < num_arguments; ++i) {
    if (arguments[i] == nullptr) return CheckNotNull(arguments[i], absl::StrCat("argument ", i));
  }
  for (size_t i = 0; i < num_results; ++i) {
    if (results[i] == nullptr || std::find(results, results + i, results[i]) == results + i) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("result ", i, " is the tensor of an earlier result: each result needs its own"));
  }
  return RunArguments{method, absl::MakeConstSpan(arguments, num_arguments), absl::MakeSpan(results, num_results)};
}

using Runner = absl::FunctionRef<absl::Status(MethodHandle, absl::Span<const Tensor>, absl::Span<Tensor>)>;

absl::Status Run(cotan_session& session, const RunArguments& given, Runner run) {
  COTAN_ASSIGN_OR_RETURN(const MethodHandle method, session.session.FindMethod(given.method));
  const auto clear = absl::MakeCleanup([&session] {
    session.arguments.clear();
    session.results.clear();
    session.new_results.clear();
  });
  for (const cotan_tensor* argument : given.arguments) session.arguments.push_back(argument->tensor);
  for (const cotan_tensor* result : given.results) {
    session.results.push_back(result == nullptr ? Tensor() : result->tensor);
    session.new_results.push_back(result == nullptr ? std::make_unique<cotan_tensor>() : nullptr);
  }
  COTAN_RETURN_IF_ERROR(run(method, session.arguments, absl::MakeSpan(session.results)));
  for (size_t i = 0; i < given.results.size(); ++i) {
    if (given.results[i] == nullptr) given.results[i] = session.new_results[i].release();
    given.results[i]->tensor = std::move(session.results[i]);
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan::capi

using cotan::MethodHandle;
using cotan::Tensor;
using cotan::capi::CheckNotNull;
using cotan::capi::Guarded;
using cotan::capi::WithSession;

cotan_status cotan_session_create(const cotan_program* program, const cotan_session_options* options,
                                  cotan_session** out) {
  return Guarded(__func__, [&] { return cotan::capi::Create(program, options, out); });
}

void cotan_session_free(cotan_session* session) { delete session; }

cotan_status cotan_session_run(cotan_session* session, const char* method, cotan_tensor* const* arguments,
                               size_t num_arguments, cotan_tensor** results, size_t num_results) {
  return WithSession(__func__, session, [&](cotan_session& used) -> absl::Status {
    COTAN_ASSIGN_OR_RETURN(const auto given,
                           cotan::capi::CheckedArguments(method, arguments, num_arguments, results, num_results));
    return cotan::capi::Run(used, given,
                            [&used](MethodHandle handle, absl::Span<const Tensor> in, absl::Span<Tensor> out) {
                              return used.session.Run(handle, in, out);
                            });
  });
}

cotan_status cotan_session_run_timed(cotan_session* session, const char* method, cotan_tensor* const* arguments,
                                     size_t num_arguments, cotan_tensor** results, size_t num_results,
                                     int64_t* nanoseconds, size_t* num_steps) {
  return WithSession(__func__, session, [&](cotan_session& used) -> absl::Status {
    COTAN_RETURN_IF_ERROR(CheckNotNull(num_steps, "num_steps"));
    if (*num_steps != 0) COTAN_RETURN_IF_ERROR(CheckNotNull(nanoseconds, "nanoseconds"));
    COTAN_ASSIGN_OR_RETURN(const auto given,
                           cotan::capi::CheckedArguments(method, arguments, num_arguments, results, num_results));
    std::vector<int64_t> times;
    COTAN_RETURN_IF_ERROR(
        cotan::capi::Run(used, given, [&](MethodHandle handle, absl::Span<const Tensor> in, absl::Span<Tensor> out) {
          return used.session.RunTimed(handle, in, out, times);
        }));
    std::copy_n(times.begin(), std::min(times.size(), *num_steps), nanoseconds);
    *num_steps = times.size();
    return absl::OkStatus();
  });
}

cotan_status cotan_session_synchronize(cotan_session* session) {
  return WithSession(__func__, session, [](cotan_session& used) { return used.session.Synchronize(); });
}
