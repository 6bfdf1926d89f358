// SPDX-License-Identifier: Apache-2.0

#include "runtime/distributed/group_communicator.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "kernels/api/device.h"
#include "linking/fingerprint.h"

namespace cotan {
namespace {

using serialization::Collective;
using serialization::Method;
using serialization::Op;

// Waits for an exchange that is not among those that the program started.
class ExchangeKernel final : public Kernel {
 public:
  ExchangeKernel(std::unique_ptr<Exchange> exchange, Bucket from, Bucket to)
      : exchange_(std::move(exchange)), from_(std::move(from)), to_(std::move(to)) {}

  absl::Status Run(const KernelArgs& args) override {
    from_.Pack(args.inputs, exchange_->input());
    COTAN_RETURN_IF_ERROR(exchange_->Start());
    COTAN_RETURN_IF_ERROR(exchange_->Wait());
    to_.Unpack(exchange_->output(), args.outputs);
    return absl::OkStatus();
  }

 private:
  const std::unique_ptr<Exchange> exchange_;
  const Bucket from_, to_;
};

class StartKernel final : public Kernel {
 public:
  StartKernel(std::shared_ptr<Exchange> exchange, Bucket from, StartedExchanges& started)
      : exchange_(std::move(exchange)), from_(std::move(from)), started_(started) {
    started_.Reserve();
  }
  ~StartKernel() override { started_.Forget(*exchange_); }

  absl::Status Run(const KernelArgs& args) override {
    COTAN_RETURN_IF_ERROR(started_.CheckIsFree(*exchange_));
    from_.Pack(args.inputs, exchange_->input());
    return started_.Start(*exchange_);
  }

 private:
  const std::shared_ptr<Exchange> exchange_;
  const Bucket from_;
  StartedExchanges& started_;
};

class WaitKernel final : public Kernel {
 public:
  WaitKernel(std::shared_ptr<Exchange> exchange, Bucket to, StartedExchanges& started)
      : exchange_(std::move(exchange)), to_(std::move(to)), started_(started) {}

  absl::Status Run(const KernelArgs& args) override {
    COTAN_RETURN_IF_ERROR(started_.WaitForAll());
    to_.Unpack(exchange_->output(), args.outputs);
    return absl::OkStatus();
  }

 private:
  const std::shared_ptr<Exchange> exchange_;
  const Bucket to_;
  StartedExchanges& started_;
};

class ShardKernel final : public Kernel {
 public:
  ShardKernel(Bucket bucket, int rank, int64_t elements)
      : bucket_(std::move(bucket)), first_(rank * elements), elements_(elements) {
    scratch_bytes_ = bucket_.scratch_bytes();
  }

  absl::Status Run(const KernelArgs& args) override {
    const size_t size = ByteSize(bucket_.dtype());
    const int64_t given = std::clamp<int64_t>(bucket_.elements() - first_, 0, elements_);
    auto* const part = static_cast<char*>(args.outputs[0]);
    std::memset(part + static_cast<size_t>(given) * size, 0, static_cast<size_t>(elements_ - given) * size);
    bucket_.PackPart(args.inputs, first_, elements_, part, args.scratch);
    return absl::OkStatus();
  }

 private:
  const Bucket bucket_;
  const int64_t first_, elements_;
};

absl::Status CheckDevice(const Device& device) {
  if (device.type() == DeviceType::kCpu) return absl::OkStatus();
  return absl::UnimplementedError(absl::StrCat(
      "the collectives of this communicator run on the CPU, but SessionOptions.device is ",
      DeviceTypeName(device.type()),
      ": create the session on the CPU, or with a NcclCommunicator (runtime/distributed/nccl) on this one"));
}

// Returns the first error of CheckDevice() and CheckRanks() for the collectives of a program.
absl::Status CheckCollectives(const serialization::Artifact& artifact, const Device& device, int size) {
  for (const Method& method : artifact.methods()) {
    for (const Op& op : method.ops()) {
      if (!op.has_collective()) continue;
      COTAN_RETURN_IF_ERROR(CheckDevice(device));
      const absl::Status status = CheckRanks(op.collective(), size);
      if (!status.ok()) {
        return absl::Status(status.code(), absl::StrCat("method '", method.name(), "' was ", status.message()));
      }
    }
  }
  return absl::OkStatus();
}

}  // namespace

// --- started exchanges ---------------------------------------------------------------

absl::Status StartedExchanges::CheckIsFree(const Exchange& exchange) const {
  if (std::find(started_.begin(), started_.end(), &exchange) == started_.end()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      "an earlier call failed between the start of a collective and its end, so that the ranks no longer run the same "
      "collectives: end all ranks and restart them from a checkpoint");
}

absl::Status StartedExchanges::Start(Exchange& exchange) {
  COTAN_RETURN_IF_ERROR(exchange.Start());
  started_.push_back(&exchange);
  return absl::OkStatus();
}

absl::Status StartedExchanges::WaitForAll() {
  for (Exchange* const exchange : started_) COTAN_RETURN_IF_ERROR(exchange->Wait());
  started_.clear();
  return absl::OkStatus();
}

void StartedExchanges::Forget(const Exchange& exchange) {
  started_.erase(std::remove(started_.begin(), started_.end(), &exchange), started_.end());
}

// --- programs ------------------------------------------------------------------------

absl::Status GroupCommunicator::CheckProgram(const serialization::Artifact& artifact, const Device& device) {
  const uint64_t fingerprint = Fingerprint(artifact.SerializePartialAsString());
  const std::string own = absl::StrCat(absl::Hex(fingerprint, absl::kZeroPad16));
  COTAN_ASSIGN_OR_RETURN(const std::vector<std::string> all, Gather(own));
  if (std::all_of(all.begin(), all.end(), [&](const std::string& other) { return other == all[0]; })) {
    return CheckCollectives(artifact, device, size());
  }
  std::vector<std::string> differing;
  for (size_t i = 0; i < all.size(); ++i) {
    if (i == 0 || all[i] != all[0]) differing.push_back(absl::StrCat("rank ", i, " has ", all[i]));
  }
  return absl::FailedPreconditionError(
      absl::StrCat("the ranks have different programs: ", absl::StrJoin(differing, ", "),
                   " (fingerprints of the .cotan files); give all ranks the same file"));
}

// --- kernels -------------------------------------------------------------------------

absl::StatusOr<std::unique_ptr<Kernel>> GroupCommunicator::Prepare(const KernelRequest& request) {
  const Collective& op = request.op.collective();
  if (request.device != nullptr) COTAN_RETURN_IF_ERROR(CheckDevice(*request.device));
  COTAN_RETURN_IF_ERROR(CheckRanks(op, size()));
  if (op.function() == Collective::WAIT) return PrepareWait(request);
  if (op.function() != Collective::SHARD) return PrepareExchange(request);
  COTAN_ASSIGN_OR_RETURN(Bucket bucket, Bucket::Of(request.inputs));
  COTAN_ASSIGN_OR_RETURN(const int64_t elements, CheckShard(request, size()));
  return std::make_unique<ShardKernel>(std::move(bucket), rank(), elements);
}

absl::StatusOr<std::unique_ptr<Kernel>> GroupCommunicator::PrepareExchange(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(const ExchangeSpec spec, CheckExchange(request, size()));
  COTAN_ASSIGN_OR_RETURN(Bucket from, Bucket::Of(request.inputs));
  if (request.op.collective().starts()) {
    COTAN_ASSIGN_OR_RETURN(std::shared_ptr<Exchange> exchange, NewExchange(spec));
    unpaired_.Add(exchange, spec, request.inputs);
    return std::make_unique<StartKernel>(std::move(exchange), std::move(from), started_);
  }
  COTAN_ASSIGN_OR_RETURN(Bucket to, Bucket::Of(request.outputs));
  COTAN_ASSIGN_OR_RETURN(std::unique_ptr<Exchange> exchange, NewExchange(spec));
  return std::make_unique<ExchangeKernel>(std::move(exchange), std::move(from), std::move(to));
}

absl::StatusOr<std::unique_ptr<Kernel>> GroupCommunicator::PrepareWait(const KernelRequest& request) {
  COTAN_ASSIGN_OR_RETURN(std::shared_ptr<Exchange> exchange, unpaired_.Take(request, size()));
  COTAN_ASSIGN_OR_RETURN(Bucket to, Bucket::Of(request.outputs));
  return std::make_unique<WaitKernel>(std::move(exchange), std::move(to), started_);
}

}  // namespace cotan
