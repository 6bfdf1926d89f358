// SPDX-License-Identifier: Apache-2.0

// CRC-32C (Castagnoli), the checksum of the file format.
#ifndef COTAN_BASE_CRC32C_H_
#define COTAN_BASE_CRC32C_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace cotan {

// Returns the CRC-32C of `bytes`. If `crc` is the checksum of a prefix, returns that of the prefix followed
// by `bytes`. Uses the processor's instruction if there is one.
uint32_t Crc32c(absl::string_view bytes, uint32_t crc = 0);

namespace crc32c_internal {
// Table-driven form, for processors without the instruction.
uint32_t Portable(absl::string_view bytes, uint32_t crc);
}  // namespace crc32c_internal

}  // namespace cotan

#endif  // COTAN_BASE_CRC32C_H_
