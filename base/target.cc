// SPDX-License-Identifier: Apache-2.0

// Refuses processors that Cotan cannot run on. No source may include more here: the checks come before any header.
#if !defined(__SIZEOF_POINTER__) || __SIZEOF_POINTER__ != 8
#error "Cotan needs a processor with 64-bit addresses: artifacts are mapped whole, and sizes have 64 bits"
#endif
#if !defined(__BYTE_ORDER__) || __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "Cotan needs a little-endian processor: artifacts and checkpoints are read where they are mapped"
#endif
