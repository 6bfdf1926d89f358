// Public header: a method as a function of Variables that take part in autograd (cotan::Function).
#ifndef COTAN_RUNTIME_FUNCTION_H_
#define COTAN_RUNTIME_FUNCTION_H_

#include "runtime/function/function.h"  // IWYU pragma: export

#endif  // COTAN_RUNTIME_FUNCTION_H_
