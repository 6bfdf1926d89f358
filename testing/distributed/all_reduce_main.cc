// SPDX-License-Identifier: Apache-2.0

// Times the all-reduce of data parallel training over MPI, for buckets of several sizes (docs/distributed.md):
//   mpirun -np 2 all_reduce --kilobytes=0,128,1024
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/flags/flag.h"
#include "absl/flags/parse.h"
#include "absl/flags/usage.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/status_macros.h"
#include "kernels/api/kernel.h"
#include "runtime/distributed/exchange.h"
#include "runtime/distributed/mpi/mpi_communicator.h"
#include "serialization/schema/program.pb.h"

ABSL_FLAG(std::vector<std::string>, kilobytes, (std::vector<std::string>{"0", "128", "1024", "4096"}),
          "sizes of buckets, in 1000 bytes; 0: one element");
ABSL_FLAG(int, exchanges, 50, "how often each bucket is exchanged");
ABSL_FLAG(int, at_once, 32, "buckets of one element that are exchanged at the same time, for the cost of a message");

namespace cotan {
namespace {

using serialization::Collective;
using serialization::Op;

double Microseconds(absl::Duration duration) { return absl::ToDoubleMicroseconds(duration); }

double Median(std::vector<double> times) {
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

TensorSpec Vector(DType dtype, int64_t elements) { return {dtype, {{elements}, {1}}}; }

Op CollectiveOp(Collective::Function function, bool starts) {
  Op op;
  op.mutable_collective()->set_function(function);
  op.mutable_collective()->set_starts(starts);
  op.mutable_collective()->set_mean(true);
  return op;
}

// Returns the microseconds of an all-reduce of a bucket of f32 from its start to its end, the median of all.
absl::StatusOr<double> TimeOne(Communicator& communicator, int64_t elements) {
  const Op op = CollectiveOp(Collective::ALL_REDUCE, /*starts=*/false);
  const std::vector<TensorSpec> bucket = {Vector(DType::kFloat32, elements)};
  COTAN_ASSIGN_OR_RETURN(
      const std::unique_ptr<Kernel> kernel,
      communicator.Prepare({.op = op, .inputs = bucket, .outputs = bucket, .symbols = {}, .name = "bucket"}));
  std::vector<float> values(static_cast<size_t>(elements), 1.0F);
  void* address = values.data();
  std::vector<double> times;
  for (int i = -absl::GetFlag(FLAGS_exchanges) / 5; i < absl::GetFlag(FLAGS_exchanges); ++i) {
    const absl::Time start = absl::Now();
    COTAN_RETURN_IF_ERROR(kernel->Run({&address, &address}));
    if (i >= 0) times.push_back(Microseconds(absl::Now() - start));
  }
  return Median(std::move(times));
}

// Returns the microseconds of one of several all-reduces of one element that run at the same time: what the processor
// spends on one, without the time in which messages are under way.
absl::StatusOr<double> TimeAtOnce(Communicator& communicator, int count) {
  const Op start = CollectiveOp(Collective::ALL_REDUCE, /*starts=*/true), wait = CollectiveOp(Collective::WAIT, false);
  const std::vector<TensorSpec> token = {Vector(DType::kBool, 0)}, bucket = {Vector(DType::kFloat32, 1)};
  std::vector<std::unique_ptr<Kernel>> starts, waits;
  for (int i = 0; i < count; ++i) {
    COTAN_ASSIGN_OR_RETURN(
        starts.emplace_back(),
        communicator.Prepare({.op = start, .inputs = bucket, .outputs = token, .symbols = {}, .name = "small"}));
  }
  for (int i = 0; i < count; ++i) {
    COTAN_ASSIGN_OR_RETURN(
        waits.emplace_back(),
        communicator.Prepare({.op = wait, .inputs = token, .outputs = bucket, .symbols = {}, .name = "small"}));
  }
  float value = 1;
  void *address = &value, *no_elements = nullptr;
  std::vector<double> times;
  for (int i = -absl::GetFlag(FLAGS_exchanges) / 5; i < absl::GetFlag(FLAGS_exchanges); ++i) {
    const absl::Time begin = absl::Now();
    for (const auto& kernel : starts) COTAN_RETURN_IF_ERROR(kernel->Run({&address, &no_elements}));
    for (const auto& kernel : waits) COTAN_RETURN_IF_ERROR(kernel->Run({&no_elements, &address}));
    if (i >= 0) times.push_back(Microseconds(absl::Now() - begin) / count);
  }
  return Median(std::move(times));
}

// Returns the GB/s at which one processor adds the shards of `ranks` ranks: bytes of the shards by time.
double SumRate(int ranks, int64_t elements) {
  std::vector<std::vector<float>> shards(static_cast<size_t>(ranks),
                                         std::vector<float>(static_cast<size_t>(elements), 1.0F));
  std::vector<const char*> parts;
  for (const std::vector<float>& shard : shards) parts.push_back(reinterpret_cast<const char*>(shard.data()));
  std::vector<double> times;
  for (int i = 0; i < absl::GetFlag(FLAGS_exchanges); ++i) {
    const absl::Time start = absl::Now();
    SumParts(DType::kFloat32, parts, elements, /*mean=*/true, reinterpret_cast<char*>(shards[0].data()));
    times.push_back(Microseconds(absl::Now() - start));
  }
  return static_cast<double>(ranks * elements * 4) / Median(std::move(times)) * 1e-3;
}

absl::Status Run() {
  if (absl::GetFlag(FLAGS_exchanges) < 1) return absl::InvalidArgumentError("--exchanges has to be at least 1");
  if (absl::GetFlag(FLAGS_at_once) < 1) return absl::InvalidArgumentError("--at_once has to be at least 1");
  COTAN_ASSIGN_OR_RETURN(const auto communicator, MpiCommunicator::Create());
  const bool speaks = communicator->rank() == 0;
  for (const std::string& text : absl::GetFlag(FLAGS_kilobytes)) {
    int64_t kilobytes = 0;
    if (!absl::SimpleAtoi(text, &kilobytes) || kilobytes < 0) {
      return absl::InvalidArgumentError(absl::StrCat("--kilobytes: '", text, "' is not a size"));
    }
    const int64_t elements = std::max<int64_t>(kilobytes * 250, 1);
    COTAN_ASSIGN_OR_RETURN(const double us, TimeOne(*communicator, elements));
    if (speaks) absl::PrintF("%d ranks, %d bytes: %.1f us\n", communicator->size(), elements * 4, us);
  }
  COTAN_ASSIGN_OR_RETURN(const double us, TimeAtOnce(*communicator, absl::GetFlag(FLAGS_at_once)));
  if (!speaks) return absl::OkStatus();
  absl::PrintF("%d ranks, %d buckets of 4 bytes at once: %.1f us each\n", communicator->size(),
               absl::GetFlag(FLAGS_at_once), us);
  absl::PrintF("sum of %d shards of 125000 elements: %.1f GB/s\n", communicator->size(),
               SumRate(communicator->size(), 125000));
  return absl::OkStatus();
}

}  // namespace
}  // namespace cotan

int main(int argc, char** argv) {
  absl::SetProgramUsageMessage(
      "Times the all-reduce of data parallel training.\nExample: mpirun -np 2 all_reduce --kilobytes=0,1024");
  absl::ParseCommandLine(argc, argv);
  const absl::Status status = cotan::Run();
  if (status.ok()) return 0;
  absl::FPrintF(stderr, "all_reduce: %s\n", status.ToString());
  return 1;
}
