// SPDX-License-Identifier: Apache-2.0

// Compares nccl_types.h and nccl_table.h with <nccl.h>, when compiled, where it is installed beside the toolkit.
#include "kernels/cuda/nccl/nccl_types.h"

#include "gtest/gtest.h"
#include "kernels/cuda/nccl/nccl_table.h"

#if __has_include(<nccl.h>)
#include <nccl.h>

#include <cstddef>
#include <functional>
#include <type_traits>

namespace cotan::cuda {
namespace {

// The vendor's type that one of ours stands for: pointers and functions of such types, else the same type.
template <typename T>
struct Vendors {
  using type = T;
};
template <typename T>
struct Vendors<T*> {
  using type = typename Vendors<T>::type*;
};
template <>
struct Vendors<nccl::ncclResult_t> {
  using type = ::ncclResult_t;
};
template <>
struct Vendors<nccl::ncclDataType_t> {
  using type = ::ncclDataType_t;
};
template <>
struct Vendors<nccl::ncclUniqueId> {
  using type = ::ncclUniqueId;
};
template <>
struct Vendors<nccl::ncclConfig_t> {
  using type = ::ncclConfig_t;
};
template <typename Result, typename... Parameters>
struct Vendors<std::function<Result(Parameters...)>> {
  using type = typename Vendors<Result>::type(typename Vendors<Parameters>::type...);
};

#define COTAN_SAME_FUNCTION(name, ...) \
  static_assert(std::is_same_v<Vendors<decltype(nccl::NcclTable::name)>::type, decltype(::name)>, #name);
COTAN_NCCL_FUNCTIONS(COTAN_SAME_FUNCTION)
COTAN_SAME_FUNCTION(ncclGetErrorString)
COTAN_SAME_FUNCTION(ncclGetLastError)
#undef COTAN_SAME_FUNCTION

// Such types are passed alike.
template <typename T>
constexpr bool kSameEnumeration =
    std::is_same_v<std::underlying_type_t<T>, std::underlying_type_t<typename Vendors<T>::type>>;
static_assert(kSameEnumeration<nccl::ncclResult_t> && kSameEnumeration<nccl::ncclDataType_t>);
static_assert(sizeof(nccl::ncclUniqueId) == sizeof(::ncclUniqueId) &&
              alignof(nccl::ncclUniqueId) == alignof(::ncclUniqueId));
static_assert(offsetof(nccl::ncclConfig_t, magic) == offsetof(::ncclConfig_t, magic) &&
              offsetof(nccl::ncclConfig_t, version) == offsetof(::ncclConfig_t, version) &&
              offsetof(nccl::ncclConfig_t, blocking) == offsetof(::ncclConfig_t, blocking) &&
              sizeof(nccl::ncclConfig_t) <= sizeof(::ncclConfig_t) &&
              alignof(nccl::ncclConfig_t) == alignof(::ncclConfig_t));

}  // namespace

#define COTAN_SAME_VALUE(name) static_assert(static_cast<int>(nccl::name) == static_cast<int>(::name))
COTAN_SAME_VALUE(ncclSuccess);
COTAN_SAME_VALUE(ncclUnhandledCudaError);
COTAN_SAME_VALUE(ncclSystemError);
COTAN_SAME_VALUE(ncclInternalError);
COTAN_SAME_VALUE(ncclInvalidArgument);
COTAN_SAME_VALUE(ncclInvalidUsage);
COTAN_SAME_VALUE(ncclRemoteError);
COTAN_SAME_VALUE(ncclInProgress);
COTAN_SAME_VALUE(ncclInt32);
COTAN_SAME_VALUE(ncclFloat32);
COTAN_SAME_VALUE(ncclFloat64);
#undef COTAN_SAME_VALUE

TEST(NcclTypes, AConfigurationIsOneOfAnEarlierVersion) {
  const ::ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const nccl::ncclConfig_t ours;
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(ours.blocking, theirs.blocking);
  EXPECT_LE(ours.version, theirs.version);
}

TEST(NcclTypes, HandlesAreTheLibrarys) {
  EXPECT_TRUE((std::is_same_v<nccl::ncclComm_t, ::ncclComm_t>));
  EXPECT_TRUE((std::is_same_v<nccl::cudaStream_t, ::cudaStream_t>));
}

}  // namespace cotan::cuda

#else

TEST(NcclTypes, HandlesAreTheLibrarys) { GTEST_SKIP() << "nccl.h is not installed"; }

#endif
