// SPDX-License-Identifier: Apache-2.0

// The text of the headers that generated kernels include, embedded into the binary.
#ifndef COTAN_KERNELS_CUDA_SOURCE_DEVICE_LIBRARY_H_
#define COTAN_KERNELS_CUDA_SOURCE_DEVICE_LIBRARY_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace cotan::cuda {

// Returns the text of the header "cotan/<name>", or "" if there is none. Valid forever.
absl::string_view DeviceHeader(absl::string_view name);

// Returns the SHA-256 of all headers, in hexadecimal digits: kernels with the same text are the same only together with
// it.
absl::string_view DeviceLibraryDigest();

// Returns `text` with each line `#include "cotan/..."` replaced by the header, once each: a text that includes nothing.
// InvalidArgument: an include of another file.
absl::StatusOr<std::string> ExpandIncludes(absl::string_view text);

}  // namespace cotan::cuda

#endif  // COTAN_KERNELS_CUDA_SOURCE_DEVICE_LIBRARY_H_
