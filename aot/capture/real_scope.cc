// SPDX-License-Identifier: Apache-2.0

#include "aot/capture/real_scope.h"

#include <c10/util/Exception.h>

#include <exception>

#include "absl/strings/str_cat.h"
#include "aot/capture/dispatch_keys.h"

namespace cotan::aot {

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
