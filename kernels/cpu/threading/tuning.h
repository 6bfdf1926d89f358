// SPDX-License-Identifier: Apache-2.0

// How much work a thread or a chunk of ParallelFor() gets, for all CPU kernels. Block sizes of an algorithm
// (panels, tiles) are beside their loops. A change of these numbers changes speed, not results, except for
// kMaxConvolutionParts and kMinPixelsPerPart, which decide how sums over a batch are split.
#ifndef COTAN_KERNELS_CPU_THREADING_TUNING_H_
#define COTAN_KERNELS_CPU_THREADING_TUNING_H_

#include <cstdint>

namespace cotan::cpu {

// Floating point operations for which one more thread pays: about 10 microseconds of a core at 100 GF/s.
inline constexpr double kFlopsPerThread = 1e6;

// Elements of a chunk of cheap work per element: a scan, a sum, a check of indices.
inline constexpr int64_t kElementsPerChunk = 16 * 1024;
// Elements of a chunk of a sort, which takes longer per element.
inline constexpr int64_t kSortElementsPerChunk = 4 * 1024;
// Bytes of a chunk of a copy; smaller copies use one thread.
inline constexpr int64_t kCopyBytesPerChunk = 64 * 1024;
// Bytes of a chunk of a gather or scatter, which reads rows at random places.
inline constexpr int64_t kGatherBytesPerChunk = 32 * 1024;
// Operations of a chunk of a pool.
inline constexpr double kPoolWorkPerChunk = 2e4;

// Parts of the batch of a convolution that oneDNN computes on one thread each.
inline constexpr int64_t kMaxConvolutionParts = 4;
// Output pixels of the smallest part of a weight gradient: each part adds a partial gradient to sum.
inline constexpr int64_t kMinPixelsPerPart = 512;

}  // namespace cotan::cpu

#endif  // COTAN_KERNELS_CPU_THREADING_TUNING_H_
