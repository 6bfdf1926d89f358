// SPDX-License-Identifier: Apache-2.0

// A shared library without symbols.
