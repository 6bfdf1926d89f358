// SPDX-License-Identifier: Apache-2.0

// SHA-256 of a list of labelled parts.
#ifndef COTAN_AOT_CACHE_DIGEST_H_
#define COTAN_AOT_CACHE_DIGEST_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"

struct evp_md_ctx_st;

namespace cotan::aot {

// Computes a digest. Labels and lengths are part of it, so that two different lists of parts never
// have the same encoding. Movable, not thread-safe.
class Digest {
 public:
  Digest();

  Digest& Add(absl::string_view label, absl::string_view bytes);
  Digest& Add(absl::string_view label, int64_t number);
  // Returns 64 hexadecimal digits. Call it once, after the last part.
  std::string Hex();

 private:
  struct Free {
    void operator()(evp_md_ctx_st* context) const;
  };

  void Update(absl::string_view bytes);

  std::unique_ptr<evp_md_ctx_st, Free> context_;
};

}  // namespace cotan::aot

#endif  // COTAN_AOT_CACHE_DIGEST_H_
