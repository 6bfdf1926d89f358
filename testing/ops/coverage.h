// SPDX-License-Identifier: Apache-2.0

// Measures the coverage of ops by compiling and running each of them.
#ifndef COTAN_TESTING_OPS_COVERAGE_H_
#define COTAN_TESTING_OPS_COVERAGE_H_

#include <string>
#include <vector>

#include "testing/ops/function_runner.h"

namespace cotan::testing {

// An op or function. Each part is the worst result of its cases.
struct CoverageRow {
  std::string name;
  Judgement forward;
  Judgement backward;
};

// Returns the ops that LibTorch's registered schemas tag as core, sorted.
std::vector<CoverageRow> CoreOpCoverage();
// Returns the functions of torch::nn::functional, sorted.
std::vector<CoverageRow> FunctionalCoverage();

// Counts the supported parts of all rows.
struct CoverageFigure {
  int forward = 0;
  int forward_of = 0;
  int backward = 0;
  int backward_of = 0;  // differentiable ones
};
CoverageFigure FigureOf(const std::vector<CoverageRow>& rows);

// An op that is not supported, with the reason.
struct CoverageException {
  std::string name;
  std::string reason;
};
const std::vector<CoverageException>& CoverageExceptions();
// Returns the reason why an op is not supported; empty if there is none.
std::string ReasonOf(const std::string& name);

// Returns the text of docs/op_support.md: figures, both lists, and the rows of the op table.
std::string SupportMatrix(const std::vector<CoverageRow>& core, const std::vector<CoverageRow>& functional);

}  // namespace cotan::testing

#endif  // COTAN_TESTING_OPS_COVERAGE_H_
