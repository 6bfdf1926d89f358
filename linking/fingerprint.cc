// SPDX-License-Identifier: Apache-2.0

#include "linking/fingerprint.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "absl/strings/str_cat.h"

namespace cotan {
namespace {

// The output function of SplitMix64 (Steele, Lea, Flood: Fast splittable pseudorandom number generators, 2014).
uint64_t Mix(uint64_t value) {
  value += 0x9e3779b97f4a7c15;
  value = (value ^ (value >> 30)) * 0xbf58476d1ce4e5b9;
  value = (value ^ (value >> 27)) * 0x94d049bb133111eb;
  return value ^ (value >> 31);
}

}  // namespace

uint64_t Fingerprint(absl::string_view bytes) {
  uint64_t hash = Mix(bytes.size());
  for (size_t at = 0; at < bytes.size(); at += sizeof(uint64_t)) {
    uint64_t word = 0;
    std::memcpy(&word, bytes.data() + at, std::min(sizeof(word), bytes.size() - at));
    hash = Mix(hash ^ word);
  }
  return hash;
}

uint64_t Fingerprint(absl::Span<const uint64_t> words) {
  uint64_t hash = Mix(words.size());
  for (const uint64_t word : words) hash = Mix(hash ^ word);
  return hash;
}

uint64_t MethodFingerprint(const serialization::Artifact& artifact, int index) {
  const serialization::Method& method = artifact.methods(index);
  std::string bytes = method.SerializeAsString();
  for (const serialization::StateRead& read : method.state_reads()) {
    absl::StrAppend(&bytes, artifact.states(static_cast<int>(read.state())).type().SerializeAsString());
  }
  return Fingerprint(bytes);
}

}  // namespace cotan
