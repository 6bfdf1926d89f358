// SPDX-License-Identifier: Apache-2.0

// Runs the kernels of all ops on a device and writes their outputs to a file, or compares two such files. See --help.
#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/status_macros.h"
#include "testing/cuda/kernel_run.h"
#include "testing/cuda/tool_device.h"

ABSL_FLAG(std::string, device, "cuda_sim", "cuda or cuda_sim");
ABSL_FLAG(std::string, out, "", "file to write; empty: none");
ABSL_FLAG(std::vector<std::string>, only, {}, "run cases whose names begin with one of these: expr/f32,sort");
ABSL_FLAG(std::vector<std::string>, skip, {}, "do not run cases whose names begin with one of these");
ABSL_FLAG(bool, list, false, "print the names of the cases and exit");
ABSL_FLAG(uint64_t, seed, 0, "of a simulated GPU: draws the order of blocks and warps; 0: in order");
ABSL_FLAG(std::vector<std::string>, compare, {}, "A,B: compare two files instead of running kernels");

namespace cotan::testing {
namespace {

bool BeginsWithOneOf(absl::string_view name, const std::vector<std::string>& prefixes) {
  for (const std::string& prefix : prefixes) {
    if (absl::StartsWith(name, prefix)) return true;
  }
  return false;
}

bool IsSelected(const KernelCase& c) {
  const std::vector<std::string> only = absl::GetFlag(FLAGS_only);
  if (!only.empty() && !BeginsWithOneOf(c.name, only)) return false;
  return !BeginsWithOneOf(c.name, absl::GetFlag(FLAGS_skip));
}

// What a case did, for the summary.
struct Counts {
  int passed = 0, skipped = 0, failed = 0;
};

// Returns true if the simulated GPU lacks an instruction that the case needs: it cannot run there.
bool IsBeyondTheSimulator(const absl::Status& status) {
  return absl::GetFlag(FLAGS_device) == "cuda_sim" && absl::IsUnimplemented(status);
}

// Runs one case and writes its outputs. Errors of the kernel; OutOfRange: the outputs differ from the reference by more
// than the tolerance (they are written).
absl::Status RunCase(const ToolDevice& device, const KernelCase& c, std::ostream* out) {
  COTAN_ASSIGN_OR_RETURN(const std::vector<HostTensor> outputs, RunOnDevice(device.kernels(), device.device(), c));
  if (out != nullptr) {
    for (const StoredOutput& stored : ToStored(c, outputs)) WriteOutput(stored, *out);
    out->flush();
  }
  COTAN_ASSIGN_OR_RETURN(const double error, ErrorAgainstReference(c, outputs));
  if (error <= c.tolerance) return absl::OkStatus();
  return absl::OutOfRangeError(
      absl::StrFormat("differs from the reference by %g units of eps, allowed are %g", error, c.tolerance));
}

absl::Status RunCases(std::ostream* out) {
  Counts counts;
  std::optional<ToolDevice> device;
  for (const KernelCase& c : AllKernelCases()) {
    if (!IsSelected(c)) continue;
    if (!device.has_value()) {
      COTAN_ASSIGN_OR_RETURN(
          device, ToolDevice::Open({.name = absl::GetFlag(FLAGS_device), .seed = absl::GetFlag(FLAGS_seed)}));
    }
    const absl::Status status = RunCase(*device, c, out);
    if (status.ok()) {
      ++counts.passed;
      continue;
    }
    const bool skip = IsBeyondTheSimulator(status);
    ++(skip ? counts.skipped : counts.failed);
    std::cout << (skip ? "SKIPPED " : "FAILED ") << c.name << ": " << status << std::endl;
    if (absl::IsOutOfRange(status)) continue;
    // All later calls of a context fail after an error of the device.
    if (!skip && device->simulated() == nullptr && !device->device().Synchronize().ok()) {
      return absl::InternalError(absl::StrCat("the GPU is unusable after ", c.name, "; go on with --skip=", c.name));
    }
    if (device->simulated() != nullptr) device.reset();
  }
  std::cout << counts.passed << " cases passed, " << counts.skipped << " skipped, " << counts.failed << " failed\n";
  if (counts.passed + counts.skipped + counts.failed == 0) return absl::NotFoundError("no case is selected");
  return counts.failed == 0 ? absl::OkStatus() : absl::AbortedError(absl::StrCat(counts.failed, " cases failed"));
}

absl::Status RunAndWrite() {
  const std::string path = absl::GetFlag(FLAGS_out);
  if (path.empty()) return RunCases(nullptr);
  std::ofstream out(path, std::ios::binary);
  if (!out) return absl::NotFoundError(absl::StrCat("cannot write ", path));
  COTAN_RETURN_IF_ERROR(RunCases(&out));
  out.close();
  return out ? absl::OkStatus() : absl::UnavailableError(absl::StrCat("cannot write ", path));
}

// Sums over the outputs of one op kind.
struct KindSummary {
  int outputs = 0, equal = 0;
  double max_ulp = 0, max_units = 0;
};

// Prints one line per output that differs, and a table by op kind.
// Aborted: an output that must have the same bits has others, or one differs by more than twice its tolerance: both are
// within the tolerance of the reference.
absl::Status Compare(const std::string& a_path, const std::string& b_path) {
  COTAN_ASSIGN_OR_RETURN(const std::vector<StoredOutput> a_outputs, ReadOutputs(a_path));
  COTAN_ASSIGN_OR_RETURN(const std::vector<StoredOutput> b_outputs, ReadOutputs(b_path));
  std::map<std::string, const StoredOutput*> by_name;
  for (const StoredOutput& b : b_outputs) by_name[b.name] = &b;
  std::map<std::string, KindSummary> kinds;
  int wrong = 0, compared = 0;
  for (const StoredOutput& a : a_outputs) {
    const auto found = by_name.find(a.name);
    if (found == by_name.end()) {
      std::cout << "only in " << a_path << ": " << a.name << "\n";
      continue;
    }
    ++compared;
    COTAN_ASSIGN_OR_RETURN(const OutputDifference difference, CompareOutputs(a, *found->second));
    KindSummary& kind = kinds[a.name.substr(0, a.name.find('/'))];
    ++kind.outputs;
    if (difference.differing == 0) {
      ++kind.equal;
      continue;
    }
    kind.max_ulp = std::max(kind.max_ulp, difference.max_ulp);
    kind.max_units = std::max(kind.max_units, difference.units);
    const bool is_wrong = a.same_bits || difference.units > 2 * a.tolerance;
    wrong += is_wrong;
    absl::PrintF("%s %s %s: %d of %d elements differ, max %g ulp, %g units of eps\n", is_wrong ? "WRONG" : "close",
                 a.name, DTypeName(a.dtype), difference.differing, difference.elements, difference.max_ulp,
                 difference.units);
  }
  absl::PrintF("\n| op | outputs | same bits | max ulp | max units of eps |\n|---|---|---|---|---|\n");
  for (const auto& [name, kind] : kinds) {
    absl::PrintF("| %s | %d | %d | %g | %g |\n", name, kind.outputs, kind.equal, kind.max_ulp, kind.max_units);
  }
  absl::PrintF("%d outputs compared, %d only in the first file, %d wrong\n", compared, a_outputs.size() - compared,
               wrong);
  if (compared == 0) return absl::NotFoundError("the files have no output in common");
  return wrong == 0 ? absl::OkStatus() : absl::AbortedError(absl::StrCat(wrong, " outputs are wrong"));
}

absl::Status Run() {
  const std::vector<std::string> files = absl::GetFlag(FLAGS_compare);
  if (files.size() == 2) return Compare(files[0], files[1]);
  if (!files.empty()) return absl::InvalidArgumentError("--compare takes two files: --compare=A,B");
  if (!absl::GetFlag(FLAGS_list)) return RunAndWrite();
  for (const KernelCase& c : AllKernelCases()) {
    if (IsSelected(c)) std::cout << c.name << "\n";
  }
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan::testing

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Runs every op with every dtype on a device, compares with the reference kernels, and writes the outputs:\n"
      "  kernel_outputs --device=cuda --out=gpu.bin\n"
      "  kernel_outputs --device=cuda_sim --out=sim.bin\n"
      "  kernel_outputs --compare=gpu.bin,sim.bin");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = cotan::testing::Run();
  if (status.ok()) return 0;
  std::cerr << "kernel_outputs: " << status << "\n";
  return 1;
}
