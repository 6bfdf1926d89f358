// SPDX-License-Identifier: Apache-2.0

#include "aot/cache/digest.h"

#include <openssl/evp.h>

#include <array>
#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace cotan::aot {

void Digest::Free::operator()(evp_md_ctx_st* context) const { EVP_MD_CTX_free(context); }

Digest::Digest() : context_(EVP_MD_CTX_new()) { EVP_DigestInit_ex(context_.get(), EVP_sha256(), nullptr); }

void Digest::Update(absl::string_view bytes) { EVP_DigestUpdate(context_.get(), bytes.data(), bytes.size()); }

Digest& Digest::Add(absl::string_view label, absl::string_view bytes) {
  Update(absl::StrCat(label.size(), ":", label, bytes.size(), ":"));
  Update(bytes);
  return *this;
}

Digest& Digest::Add(absl::string_view label, int64_t number) { return Add(label, absl::StrCat(number)); }

std::string Digest::Hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned int size = 0;
  EVP_DigestFinal_ex(context_.get(), bytes.data(), &size);
  return absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), size});
}

}  // namespace cotan::aot
