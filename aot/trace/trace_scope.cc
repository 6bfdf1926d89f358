#include "aot/trace/trace_scope.h"

#include <ATen/Parallel.h>
#include <c10/util/Exception.h>

#include <exception>

#include "absl/strings/str_cat.h"
#include "aot/trace/dispatch_keys.h"
#include "aot/trace/recorder.h"
#include "aot/trace/rewrites.h"

namespace cotan::aot {

void RegisterTracing() {
  RegisterRecorder();
  RegisterRewrites();
}

TraceScope::TraceScope(bool grad_enabled)
    : threads_(at::get_num_threads()), keys_(kTracingKeys), views_(true), grad_mode_(grad_enabled) {
  RegisterTracing();
  at::set_num_threads(1);
}

TraceScope::~TraceScope() { at::set_num_threads(threads_); }

RealScope::RealScope() : guard_(kTracingKeys) {}

absl::Status StatusFromCurrentException(absl::string_view doing) {
  try {
    throw;
  } catch (const c10::Error& error) {
    return absl::InvalidArgumentError(absl::StrCat(doing, ": ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InvalidArgumentError(absl::StrCat(doing, ": ", error.what()));
  }
}

}  // namespace cotan::aot
