# SPDX-License-Identifier: Apache-2.0
"""Devices train a program of Cotan on images of their own; Flower averages what they learn."""
