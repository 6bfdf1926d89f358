# SPDX-License-Identifier: Apache-2.0
"""Settings of a build that transitions change."""

def _bool_setting_impl(ctx):
    return []

bool_setting = rule(
    implementation = _bool_setting_impl,
    build_setting = config.bool(flag = False),
)
