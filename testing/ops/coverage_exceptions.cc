// SPDX-License-Identifier: Apache-2.0

// Lists the ops that are not supported, with the reasons.
#include "testing/ops/coverage.h"

namespace cotan::testing {

const std::vector<CoverageException>& CoverageExceptions() {
  static const std::vector<CoverageException>& exceptions = *new std::vector<CoverageException>{
      {"aten._local_scalar_dense.default",
       "it reads a tensor's content, on which the rest of the program could depend"},
      {"aten.nonzero.default", "the size of its result depends on data"},
  };
  return exceptions;
}

}  // namespace cotan::testing
