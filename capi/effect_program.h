// SPDX-License-Identifier: Apache-2.0

// A program with effects, for tests of the C interface and of the package for Python.
#ifndef COTAN_CAPI_EFFECT_PROGRAM_H_
#define COTAN_CAPI_EFFECT_PROGRAM_H_

#include <string>

namespace cotan::capi {

// Returns the bytes of a program whose method "double" (x: f32[2], ok: bool[]) returns y = x + x. It prints x (name
// "fc", message "first") and asserts that `ok` is true (name "check", message "x is odd").
std::string EffectProgramBytes();

}  // namespace cotan::capi

#endif  // COTAN_CAPI_EFFECT_PROGRAM_H_
