#!/usr/bin/env bash
# Runs a binary with its arguments, as a test.
exec "$@"
