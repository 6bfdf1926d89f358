// SPDX-License-Identifier: Apache-2.0

// usage: select LIBRARY KERNELS.cc LOOPS PROGRAM.cotan...
// Writes the sources of a cotan_runtime() target: KERNELS.cc, and LOOPS_<instruction set>.cc for each of them.
#include <cstdio>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "base/file.h"
#include "base/status_macros.h"
#include "kernels/selective/selection.h"
#include "serialization/container/container.h"
#include "serialization/verifier/artifact_verifier.h"

namespace cotan::selective {
namespace {

absl::Status Write(absl::Span<char* const> arguments) {
  Selection selection;
  for (const char* path : arguments.subspan(3)) {
    COTAN_ASSIGN_OR_RETURN(const ArtifactFile file, ArtifactFile::Open(path));
    COTAN_RETURN_IF_ERROR(VerifyArtifact(file.artifact()));
    AddArtifact(file.artifact(), selection);
  }
  COTAN_ASSIGN_OR_RETURN(const std::string kernels, KernelSource(selection, arguments[0]));
  COTAN_RETURN_IF_ERROR(WriteFileAtomically(arguments[1], {kernels}));
  for (const char* isa : {"generic", "avx2", "avx512"}) {
    const std::string loops = LoopSource(selection, isa);
    COTAN_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(arguments[2], "_", isa, ".cc"), {loops}));
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan::selective

int main(int argc, char** argv) {
  if (argc < 5) {
    absl::FPrintF(stderr, "usage: select LIBRARY KERNELS.cc LOOPS PROGRAM.cotan...\n");
    return 1;
  }
  const absl::Status status = cotan::selective::Write(absl::MakeSpan(argv + 1, static_cast<size_t>(argc - 1)));
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "select: %s\n", status.ToString());
  return 1;
}
