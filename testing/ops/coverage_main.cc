// SPDX-License-Identifier: Apache-2.0

// Prints which ops are supported; with --markdown, docs/op_support.md.
#include <cstring>
#include <iostream>

#include "testing/ops/coverage.h"

namespace cotan::testing {
namespace {

void PrintUnsupported(const char* part, const std::string& name, const Judgement& judgement) {
  if (judgement.verdict == Verdict::kAgrees || judgement.verdict == Verdict::kNotDifferentiable) return;
  std::cout << part << " " << name << ": " << judgement.message << "\n";
}

void Print(const char* what, const std::vector<CoverageRow>& rows) {
  for (const CoverageRow& row : rows) {
    PrintUnsupported("forward ", row.name, row.forward);
    PrintUnsupported("backward", row.name, row.backward);
  }
  const CoverageFigure figure = FigureOf(rows);
  std::cout << what << ": forward " << figure.forward << " of " << figure.forward_of << ", backward " << figure.backward
            << " of " << figure.backward_of << "\n";
}

int Run(bool markdown) {
  const std::vector<CoverageRow> core = CoreOpCoverage();
  const std::vector<CoverageRow> functional = FunctionalCoverage();
  if (markdown) {
    std::cout << SupportMatrix(core, functional);
    return 0;
  }
  Print("core ATen opset", core);
  Print("torch::nn::functional", functional);
  return 0;
}

}  // namespace
}  // namespace cotan::testing

int main(int argc, char** argv) { return cotan::testing::Run(argc > 1 && std::strcmp(argv[1], "--markdown") == 0); }
