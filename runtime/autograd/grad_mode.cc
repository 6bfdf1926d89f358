// SPDX-License-Identifier: Apache-2.0

#include "runtime/autograd/grad_mode.h"

namespace cotan {
namespace {

thread_local bool mode = true;

}  // namespace

bool GradMode::enabled() { return mode; }

void GradMode::set_enabled(bool enabled) { mode = enabled; }

}  // namespace cotan
