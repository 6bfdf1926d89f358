// SPDX-License-Identifier: Apache-2.0

// Layouts with recorded numbers, for the nodes of views. For this package only.
#ifndef COTAN_RUNTIME_AUTOGRAD_CAPTURED_LAYOUT_H_
#define COTAN_RUNTIME_AUTOGRAD_CAPTURED_LAYOUT_H_

#include "runtime/autograd/capture.h"
#include "serialization/metadata/view_step.h"

namespace cotan::autograd {

// Reads a layout that was recorded as sizes, strides and offset from number `next` on, which moves behind it.
view::AsStrided ReadLayout(const CaptureEmitter& emitter, int rank, int& next);

}  // namespace cotan::autograd

#endif  // COTAN_RUNTIME_AUTOGRAD_CAPTURED_LAYOUT_H_
