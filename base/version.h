// SPDX-License-Identifier: Apache-2.0

// The version of Cotan, in one place: artifacts record it, and the tools print it.
#ifndef COTAN_BASE_VERSION_H_
#define COTAN_BASE_VERSION_H_

namespace cotan {

inline constexpr char kVersion[] = "0.2.0";

}  // namespace cotan

#endif  // COTAN_BASE_VERSION_H_
