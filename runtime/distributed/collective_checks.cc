// SPDX-License-Identifier: Apache-2.0

#include "runtime/distributed/collective_checks.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/dtype.h"
#include "linking/fingerprint.h"
#include "runtime/distributed/bucket.h"

namespace cotan {
namespace {

using serialization::Collective;

absl::Status ExpectToken(absl::Span<const TensorSpec> tokens, absl::string_view what) {
  if (tokens.size() == 1 && tokens[0].dtype == DType::kBool && tokens[0].layout.sizes == DimVector{0}) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(what, " of a collective that is waited for is not one token, bool[0]"));
}

// Returns the bucket of one vector of `elements`.
absl::StatusOr<Bucket> ShardBucket(absl::Span<const TensorSpec> tensors, const Bucket& whole, int64_t elements) {
  COTAN_ASSIGN_OR_RETURN(Bucket shard, Bucket::Of(tensors));
  if (tensors.size() == 1 && shard.dtype() == whole.dtype() && shard.elements() == elements) return shard;
  return absl::InvalidArgumentError(absl::StrCat("the shard has ", shard.elements(), " elements of ",
                                                 DTypeName(shard.dtype()), ", expected ", elements, " of ",
                                                 DTypeName(whole.dtype()), " in one tensor"));
}

absl::Status CheckSameTypes(absl::Span<const TensorSpec> a, absl::Span<const TensorSpec> b) {
  const auto same = [](const TensorSpec& x, const TensorSpec& y) {
    return x.dtype == y.dtype && x.layout.sizes == y.layout.sizes;
  };
  if (std::equal(a.begin(), a.end(), b.begin(), b.end(), same)) return absl::OkStatus();
  return absl::InvalidArgumentError("the collective has outputs of other types than its inputs");
}

// Returns the kind of an exchange. InvalidArgument: the function is none.
absl::StatusOr<ExchangeSpec::Kind> KindOf(const Collective& op) {
  switch (op.function()) {
    case Collective::ALL_REDUCE:
      return ExchangeSpec::Kind::kAllReduce;
    case Collective::REDUCE_SCATTER:
      return ExchangeSpec::Kind::kReduceScatter;
    case Collective::ALL_GATHER:
      return ExchangeSpec::Kind::kAllGather;
    default:
      return absl::UnimplementedError(absl::StrCat("collective ", static_cast<int>(op.function()), " is unknown"));
  }
}

// Returns OK if `outputs` are the results of an exchange with `inputs`.
absl::Status CheckResult(const ExchangeSpec& spec, absl::Span<const TensorSpec> inputs,
                         absl::Span<const TensorSpec> outputs, int size) {
  COTAN_ASSIGN_OR_RETURN(const Bucket to, Bucket::Of(outputs));
  if (to.dtype() != spec.dtype) {
    return absl::InvalidArgumentError(
        absl::StrCat("the collective of ", DTypeName(spec.dtype), " has results of ", DTypeName(to.dtype())));
  }
  switch (spec.kind) {
    case ExchangeSpec::Kind::kAllReduce:
      return CheckSameTypes(inputs, outputs);
    case ExchangeSpec::Kind::kReduceScatter:
      return ShardBucket(outputs, to, spec.shard_elements).status();
    case ExchangeSpec::Kind::kAllGather:
      break;
  }
  if (to.ShardElements(size) == spec.shard_elements) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("shards of ", spec.shard_elements, " elements on ", size,
                                                 " ranks do not make a bucket of ", to.elements()));
}

}  // namespace

absl::Status CheckRanks(const Collective& op, int size) {
  if (op.ranks() == size) return absl::OkStatus();
  const bool any = op.ranks() == 0 && (op.function() == Collective::ALL_REDUCE || op.function() == Collective::WAIT);
  if (any) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat("compiled for ", op.ranks(),
                                                    " ranks (DataParallelOptions.ranks), but ", size,
                                                    " run: start as many, or compile the model for ", size));
}

absl::StatusOr<ExchangeSpec> CheckExchange(const KernelRequest& request, int size) {
  const Collective& op = request.op.collective();
  ExchangeSpec spec;
  COTAN_ASSIGN_OR_RETURN(spec.kind, KindOf(op));
  COTAN_ASSIGN_OR_RETURN(const Bucket from, Bucket::Of(request.inputs));
  const bool gathers = spec.kind == ExchangeSpec::Kind::kAllGather;
  spec.dtype = from.dtype();
  spec.shard_elements = gathers ? from.elements() : from.ShardElements(size);
  spec.mean = op.mean();
  spec.op = static_cast<uint32_t>(Fingerprint(request.name));
  if (gathers) COTAN_RETURN_IF_ERROR(ShardBucket(request.inputs, from, from.elements()).status());
  COTAN_RETURN_IF_ERROR(op.starts() ? ExpectToken(request.outputs, "the output")
                                    : CheckResult(spec, request.inputs, request.outputs, size));
  return spec;
}

absl::Status CheckWait(const KernelRequest& request, const ExchangeSpec& spec, absl::Span<const TensorSpec> inputs,
                       int size) {
  COTAN_RETURN_IF_ERROR(ExpectToken(request.inputs, "the input"));
  return CheckResult(spec, inputs, request.outputs, size);
}

absl::StatusOr<int64_t> CheckShard(const KernelRequest& request, int size) {
  COTAN_ASSIGN_OR_RETURN(const Bucket bucket, Bucket::Of(request.inputs));
  const int64_t elements = bucket.ShardElements(size);
  COTAN_RETURN_IF_ERROR(ShardBucket(request.outputs, bucket, elements).status());
  return elements;
}

}  // namespace cotan
