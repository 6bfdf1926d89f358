// SPDX-License-Identifier: Apache-2.0

#include "testing/distributed/ranks.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "runtime/session/safetensors.h"

namespace cotan::testing {
namespace {

// Open MPI: as root, with more ranks than cores; the other ranks go on if one is killed. Tests have no HOME, without
// which Open MPI 5 does not start.
constexpr char kMpirun[] =
    "HOME=/tmp TMPDIR=/tmp OMPI_MCA_rmaps_base_oversubscribe=1 timeout 55 mpirun --allow-run-as-root --oversubscribe "
    "--enable-recovery";
constexpr char kSharedMemory[] = " --mca btl self,vader --mca btl_vader_single_copy_mechanism none";
// With ob1, messages have no other way than these. The loopback interface is used only if it is named.
constexpr char kLoopbackTcp[] = " --mca pml ob1 --mca btl self,tcp --mca btl_tcp_if_include lo";
constexpr char kWorker[] = "testing/distributed/worker";

template <typename T>
void Append(const std::vector<T>& values, std::ofstream& file) {
  file.write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * sizeof(T)));
}

RankResult ReadLog(const std::string& path) {
  RankResult result;
  for (absl::string_view line : absl::StrSplit(BytesOf(path), '\n', absl::SkipEmpty())) {
    if (absl::ConsumePrefix(&line, "loss ")) result.losses.push_back(std::strtof(std::string(line).c_str(), nullptr));
    if (absl::ConsumePrefix(&line, "error ")) result.error = std::string(line);
    if (line == "done") result.is_done = true;
  }
  return result;
}

}  // namespace

std::vector<RankResult> RunRanks(int ranks, const std::string& folder, const std::string& program, const RankData& data,
                                 const std::vector<std::string>& flags, Transport transport) {
  const std::string path = absl::StrCat(folder, "/data");
  {
    std::ofstream file(path, std::ios::binary);
    Append(data.inputs, file);
    Append(data.labels, file);
  }
  const std::string command = absl::StrCat(
      kMpirun, transport == Transport::kLoopbackTcp ? kLoopbackTcp : kSharedMemory, " -np ", ranks, " ", kWorker,
      " --program=", program, " --data=", path, " --out=", folder, " --batch=", data.batch, " --steps=", data.steps,
      " --sizes=", absl::StrJoin(data.sizes, ","), " ", absl::StrJoin(flags, " "), " > ", folder, "/mpirun.log 2>&1");
  // With --enable-recovery mpirun may succeed although a rank failed, which is in the logs.
  const int status = std::system(command.c_str());
  std::vector<RankResult> results;
  bool all_done = true;
  for (int r = 0; r < ranks; ++r) {
    results.push_back(ReadLog(absl::StrCat(folder, "/", r, ".log")));
    all_done = all_done && results.back().is_done;
  }
  EXPECT_TRUE(status == 0 || !all_done) << command << "\n" << BytesOf(absl::StrCat(folder, "/mpirun.log"));
  return results;
}

std::string BytesOf(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

std::map<std::string, std::vector<float>> StatesOf(const std::string& path) {
  const std::string bytes = BytesOf(path);
  std::map<std::string, std::vector<float>> states;
  const auto file = ParseSafetensors(bytes);
  EXPECT_TRUE(file.ok()) << path << ": " << file.status();
  if (!file.ok()) return states;
  for (const SafetensorsEntry& entry : file->tensors) {
    if (entry.dtype != DType::kFloat32) continue;
    std::vector<float>& values = states[std::string(entry.name)];
    values.resize(entry.bytes.size() / sizeof(float));
    std::memcpy(values.data(), entry.bytes.data(), entry.bytes.size());
  }
  return states;
}

std::string NewFolder() {
  static int number = 0;
  const std::string folder = absl::StrCat(::testing::TempDir(), "/ranks", number++);
  std::filesystem::remove_all(folder);
  std::filesystem::create_directories(folder);
  return folder;
}

}  // namespace cotan::testing
