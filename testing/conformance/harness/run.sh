#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Runs a binary with its arguments, as a test.
exec "$@"
