// SPDX-License-Identifier: Apache-2.0

#include "kernels/cpu/attention/attention.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "base/status_macros.h"
#include "kernels/api/op_check.h"
#include "kernels/cpu/attention/amx_attention.h"
#include "kernels/cpu/attention/attention_blocks.h"
#include "kernels/cpu/attention/packed_product.h"
#include "kernels/cpu/attention/score_tile.h"
#include "kernels/cpu/simd/gemm_core.h"
#include "kernels/cpu/simd/simd.h"
#include "kernels/cpu/threading/parallel.h"

namespace cotan::cpu {
namespace attention {
namespace {

// Scratch of the forward pass, in elements of T.
struct ForwardScratch {
  int64_t keys;    // K^T in blocks of kKeys keys, packed
  int64_t values;  // V in the same blocks, packed
  int64_t scores;
  int64_t sums;
  int64_t copies;  // rows of a block of operands that are not direct

  template <typename T, typename Stored>
  static ForwardScratch For(const Geometry& g, const ForwardStrides& s) {
    const int64_t blocks = (g.keys + kKeys - 1) / kKeys;
    const bool are_direct = IsDirect<T, Stored>(s.q) && IsDirect<T, Stored>(s.k) && IsDirect<T, Stored>(s.v);
    return {blocks * PackedSize<T>(g.size, kKeys), blocks * PackedSize<T>(kKeys, g.value_size), kQueries * kKeys,
            kQueries * (g.value_size + 2), are_direct ? 0 : std::max(kKeys, kQueries) * std::max(g.size, g.value_size)};
  }
  int64_t Total() const { return keys + values + scores + sums + copies; }
};

template <typename T, typename Stored>
COTAN_SIMD_VERSIONS void PackForward(const Geometry& g, const ForwardHead<T, Stored>& head, T* keys, T* values,
                                     T* copies, int64_t visible) {
  PackBlocks(head.k, visible, g.size, kKeys, true, copies, keys);
  PackBlocks(head.v, visible, g.value_size, kKeys, false, copies, values);
}

// Multiplies the sums of the rows of a tile by `corrections`.
template <typename T>
[[gnu::always_inline]] inline void Correct(const ScoreTile& tile, const T* corrections, int64_t size, T* sums) {
  for (int64_t i = 0; i < tile.rows; ++i) {
    if (corrections[i] == 1) continue;
    for (int64_t e = 0; e < size; ++e) sums[i * size + e] *= corrections[i];
  }
}

// Computes queries [query, query + queries) of one head with the online softmax: the sums are rescaled when a
// later block has a larger maximum. The first `packed` keys of the head are packed.
template <typename T, typename Stored>
COTAN_SIMD_VERSIONS void AttendBlock(const Geometry& g, const ForwardStrides& s, const ForwardHead<T, Stored>& head,
                                     int64_t query, int64_t queries, const T* packed_keys, const T* packed_values,
                                     int64_t packed, T* scores, T* sums, T* copies) {
  const Rows<T> q = DirectRows(head.q, query, queries, g.size, copies);
  const T scale = static_cast<T>(g.scale);
  T* max = sums + kQueries * g.value_size;
  T* total = max + kQueries;
  if (g.keys == 0) std::fill_n(sums, queries * g.value_size, T{0});
  std::fill_n(max, queries, -std::numeric_limits<T>::infinity());
  std::fill_n(total, queries, T{0});
  const int64_t visible = g.VisibleKeys(query + queries);
  for (int64_t key = 0; key < visible; key += kKeys) {
    // Each product visits all tiles before the next one, so that its right matrix stays in the first-level cache.
    const ScoreBlock block = BlockAt(g, query, query + queries, key);
    MultiplyScores(g, block, q, packed_keys + key / kKeys * PackedSize<T>(g.size, kKeys), g.size, scores);
    if (head.bias != nullptr) AddBias(g, block, scale, head.bias, s.bias, scores);
    for (int64_t row = 0; row < queries; row += kTileRows) {
      const ScoreTile tile = TileAt(g, block, row);
      if (tile.keys == 0) continue;
      T corrections[kTileRows];
      SoftmaxOfTile(tile, head.bias != nullptr ? T{1} : scale, scores + row * kKeys, max + row, total + row,
                    corrections);
      if (key > 0) Correct(tile, corrections, g.value_size, sums + row * g.value_size);
    }
    for (int64_t row = 0; row < queries; row += kTileRows) {
      const ScoreTile tile = TileAt(g, block, row);
      MultiplyTilePacked(scores + row * kKeys, kKeys, 1,
                         packed_values + key / kKeys * PackedSize<T>(kKeys, g.value_size),
                         std::min(kKeys, packed - key), tile.rows, g.value_size, tile.keys, sums + row * g.value_size,
                         g.value_size, key > 0);
    }
  }
  for (int64_t i = 0; i < queries; ++i) {
    const T factor = total[i] == 0 ? T{0} : T{1} / total[i];
    StoreRow(sums + i * g.value_size, factor, g.value_size, s.result.column, head.result + (query + i) * s.result.row);
    if (head.logsumexp != nullptr) head.logsumexp[(query + i) * s.logsumexp.row] = max[i] + std::log(total[i]);
  }
}

template <typename T, typename Stored>
class Attention final : public Kernel {
 public:
  Attention(const Geometry& geometry, const ForwardStrides& strides, bool has_bias, bool has_logsumexp, int threads)
      : geometry_(geometry),
        strides_(strides),
        has_bias_(has_bias),
        has_logsumexp_(has_logsumexp),
        threads_(threads),
        parts_(geometry, kQueries, threads),
        layout_(ForwardScratch::For<T, Stored>(geometry, strides)) {
    worker_size_ = (layout_.Total() + 15) / 16 * 16;
    scratch_bytes_ = static_cast<size_t>(worker_size_ * threads) * sizeof(T);
  }

  absl::Status Run(const KernelArgs& args) override {
    const int64_t units = geometry_.batch * geometry_.heads * parts_.parts;
    ParallelForWorker(threads_, units, 1, [&](int worker, int64_t i, int64_t) {
      RunPart(args, i / parts_.parts, i % parts_.parts, static_cast<T*>(args.scratch) + worker * worker_size_);
    });
    return absl::OkStatus();
  }

 private:
  void RunPart(const KernelArgs& args, int64_t index, int64_t part, T* scratch) const {
    const auto head = ForwardHeadOf<T, Stored>(args, geometry_, strides_, has_bias_, has_logsumexp_, index);
    T* values = scratch + layout_.keys;
    T* scores = values + layout_.values;
    T* sums = scores + layout_.scores;
    T* copies = sums + layout_.sums;
    const int64_t begin = part * parts_.part_queries;
    const int64_t end = std::min(geometry_.queries, begin + parts_.part_queries);
    PackForward(geometry_, head, scratch, values, copies, geometry_.VisibleKeys(end));
    for (int64_t query = begin; query < end; query += kQueries) {
      AttendBlock(geometry_, strides_, head, query, std::min(kQueries, end - query), scratch, values,
                  geometry_.VisibleKeys(end), scores, sums, copies);
    }
  }

  Geometry geometry_;
  ForwardStrides strides_;
  bool has_bias_;
  bool has_logsumexp_;
  int threads_;
  ForwardParts parts_;
  ForwardScratch layout_;
  int64_t worker_size_ = 0;  // elements
};

}  // namespace
}  // namespace attention

absl::StatusOr<std::unique_ptr<Kernel>> MakeAttention(const KernelRequest& request) {
  COTAN_RETURN_IF_ERROR(CheckOp(request));
  const auto in = request.inputs;
  const auto out = request.outputs;
  const attention::Geometry geometry(request.op.attention(), in[0].layout, in[1].layout, in[2].layout);
  attention::ForwardStrides strides{attention::StridesOf(in[0].layout),  attention::StridesOf(in[1].layout),
                                    attention::StridesOf(in[2].layout),  {},
                                    attention::StridesOf(out[0].layout), {}};
  if (in.size() > 3) strides.bias = attention::BroadcastStrides(in[3].layout);
  if (out.size() > 1) strides.logsumexp = attention::StridesOf(out[1].layout);
  const int threads = ThreadsWorthwhile(request.threads, geometry.Flops());
  if (out[0].dtype == DType::kBFloat16) {
    std::unique_ptr<Kernel> kernel =
        attention::MakeAmxAttention(geometry, strides, in.size() > 3, out.size() > 1, threads);
    if (kernel != nullptr) return kernel;
  }
  return attention::MakeFor<attention::Attention>(out[0].dtype, geometry, strides, in.size() > 3, out.size() > 1,
                                                  threads);
}

}  // namespace cotan::cpu
