// SPDX-License-Identifier: Apache-2.0

#include "kernels/cuda/compile_gate/compile_gate.h"

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "base/status_macros.h"
#include "kernels/cuda/nvrtc/nvrtc_table.h"
#include "kernels/cuda/source/device_library.h"

namespace cotan::cuda {
namespace {

// A file in the folder of temporary files, removed at the end.
class TemporaryFile {
 public:
  static absl::StatusOr<TemporaryFile> Write(absl::string_view content) {
    const char* folder = std::getenv("TEST_TMPDIR");
    std::string path = absl::StrCat(folder == nullptr ? "/tmp" : folder, "/kernel_XXXXXX");
    const int file = mkstemp(path.data());
    if (file < 0) return absl::InternalError(absl::StrCat("cannot create ", path));
    close(file);
    TemporaryFile result(path);
    std::ofstream stream(path, std::ios::binary);
    stream.write(content.data(), static_cast<std::streamsize>(content.size()));
    stream.close();
    if (!stream) return absl::InternalError(absl::StrCat("cannot write ", path));
    return result;
  }
  TemporaryFile(TemporaryFile&& other) noexcept : path_(std::move(other.path_)) { other.path_.clear(); }
  TemporaryFile& operator=(TemporaryFile&&) = delete;
  ~TemporaryFile() {
    if (!path_.empty()) unlink(path_.c_str());
  }

  const std::string& path() const { return path_; }

 private:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

// Returns what ptxas -v prints for `ptx`.
absl::StatusOr<std::string> RunPtxas(absl::string_view ptx, int compute_capability) {
  const std::string ptxas = absl::StrCat(COTAN_CUDA_ROOT, "/bin/ptxas");
  if (access(ptxas.c_str(), X_OK) != 0) {
    return absl::UnavailableError(absl::StrCat(ptxas, " cannot be executed. Install the CUDA 13 toolkit."));
  }
  COTAN_ASSIGN_OR_RETURN(const TemporaryFile file, TemporaryFile::Write(ptx));
  const std::string command =
      absl::StrCat(ptxas, " -v -arch=sm_", compute_capability, " -o /dev/null '", file.path(), "' 2>&1");
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return absl::InternalError(absl::StrCat("cannot start ", ptxas));
  std::string log;
  char part[4096];
  for (size_t size; (size = fread(part, 1, sizeof(part), pipe)) > 0;) log.append(part, size);
  const int status = pclose(pipe);
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return absl::InternalError(absl::StrCat(command, ":\n", log));
  return log;
}

// Returns the number before `unit` in a list such as "Used 8 registers, 32 bytes smem"; 0 if the unit is absent.
int64_t NumberBefore(absl::string_view list, absl::string_view unit) {
  for (absl::string_view item : absl::StrSplit(list, ',')) {
    item = absl::StripAsciiWhitespace(item);
    absl::ConsumePrefix(&item, "Used ");
    int64_t number = 0;
    if (absl::ConsumeSuffix(&item, unit) && absl::SimpleAtoi(item, &number)) return number;
  }
  return 0;
}

}  // namespace

absl::StatusOr<std::vector<KernelResources>> ParsePtxasLog(absl::string_view log, int compute_capability) {
  constexpr absl::string_view kEntry = "Compiling entry function '";
  std::vector<KernelResources> result;
  bool in_entry = false;  // the properties of functions that are called come before
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    if (const size_t at = line.find(kEntry); at != absl::string_view::npos) {
      const absl::string_view name = line.substr(at + kEntry.size());
      result.push_back(
          {.entry = std::string(name.substr(0, name.find('\''))), .compute_capability = compute_capability});
      in_entry = false;
    } else if (const size_t begin = line.find("Function properties for "); begin != absl::string_view::npos) {
      const absl::string_view name = line.substr(begin + 24);
      in_entry = !result.empty() && absl::StripAsciiWhitespace(name) == result.back().entry;
    } else if (absl::StrContains(line, "bytes stack frame") && in_entry) {
      result.back().stack_frame = NumberBefore(line, " bytes stack frame");
      result.back().spill_stores = NumberBefore(line, " bytes spill stores");
      result.back().spill_loads = NumberBefore(line, " bytes spill loads");
    } else if (const size_t used = line.find("Used "); used != absl::string_view::npos && !result.empty()) {
      result.back().registers = static_cast<int>(NumberBefore(line.substr(used), " registers"));
      result.back().static_shared = NumberBefore(line.substr(used), " bytes smem");
    }
  }
  for (const KernelResources& kernel : result) {
    if (kernel.registers == 0) return absl::InternalError(absl::StrCat("no registers of ", kernel.entry, " in\n", log));
  }
  if (result.empty()) return absl::InternalError(absl::StrCat("no kernel in the output of ptxas:\n", log));
  return result;
}

absl::StatusOr<std::vector<KernelResources>> CompileForArchitectures(const KernelSource& source,
                                                                     absl::Span<const int> compute_capabilities) {
  COTAN_ASSIGN_OR_RETURN(const std::string text, ExpandIncludes(source.text));
  std::vector<KernelResources> result;
  for (const int compute_capability : compute_capabilities) {
    COTAN_ASSIGN_OR_RETURN(const std::string ptx, nvrtc::Compile(text, {nvrtc::ImageKind::kPtx, compute_capability}));
    COTAN_ASSIGN_OR_RETURN(const std::string log, RunPtxas(ptx, compute_capability));
    COTAN_ASSIGN_OR_RETURN(const std::vector<KernelResources> kernels, ParsePtxasLog(log, compute_capability));
    result.insert(result.end(), kernels.begin(), kernels.end());
  }
  return result;
}

absl::Status CheckResources(absl::Span<const KernelResources> resources, const ResourceBounds& bounds) {
  std::string found;
  for (const KernelResources& kernel : resources) {
    if (kernel.stack_frame <= bounds.stack_frame && kernel.spill_stores <= bounds.spills &&
        kernel.spill_loads <= bounds.spills && kernel.registers <= bounds.registers) {
      continue;
    }
    absl::StrAppend(&found, "\n", kernel.entry, " on sm_", kernel.compute_capability, ": ", kernel.registers,
                    " registers, ", kernel.stack_frame, " bytes of stack frame, ", kernel.spill_stores,
                    " bytes of spill stores, ", kernel.spill_loads, " of spill loads");
  }
  if (found.empty()) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("kernels need more than ", bounds.registers, " registers, ", bounds.stack_frame,
                   " bytes of stack frame, or ", bounds.spills, " bytes of spills:", found,
                   "\nIndex arrays with constants after unrolling, or give a thread fewer values."));
}

}  // namespace cotan::cuda
