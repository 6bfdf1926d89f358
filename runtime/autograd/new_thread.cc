// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/new_thread.h"

#include <pthread.h>

#include <cstddef>
#include <cstring>

#include "absl/strings/str_cat.h"

namespace cotan::autograd {
namespace {

constexpr size_t kStackBytes = size_t{8} << 20;

struct Call {
  absl::FunctionRef<absl::Status()> function;
  absl::Status status = absl::OkStatus();
};

void* Run(void* argument) {
  Call& call = *static_cast<Call*>(argument);
  call.status = call.function();
  return nullptr;
}

}  // namespace

// pthread_create() returns an error where std::thread would throw.
absl::Status CallOnNewThread(absl::FunctionRef<absl::Status()> function) {
  Call call{function};
  pthread_attr_t attributes;
  pthread_t thread;
  int error = pthread_attr_init(&attributes);
  if (error == 0) {
    error = pthread_attr_setstacksize(&attributes, kStackBytes);
    if (error == 0) error = pthread_create(&thread, &attributes, &Run, &call);
    pthread_attr_destroy(&attributes);
  }
  if (error != 0) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "a nested backward needs a thread, which cannot be created: ", std::strerror(error), "; nest fewer backwards"));
  }
  pthread_join(thread, nullptr);
  return call.status;
}

}  // namespace cotan::autograd
