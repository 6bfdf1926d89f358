#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Coefficients of the sums of Chebyshev polynomials in op_table_{bessel,gamma}.cc.

Each array holds c with f(t) = sum of c[k] T_k(t) on [-1, 1]: the discrete cosine
transform of f at Chebyshev's nodes, in 60 digits (Clenshaw and Curtis 1960).
Prints each as C++; needs mpmath (Debian: python3-mpmath). With the files as
arguments, says instead which of their arrays differ, and fails if any does.

  python3 aot/lowering/ops/chebyshev_coefficients.py aot/lowering/op_table_{bessel,gamma}.cc
"""

import re
import sys

from mpmath import besseli, besselj, besselk, bessely, cos, erfc, exp, log, mp, mpf, nstr, pi, sin, sqrt

mp.dps = 60


def scaled_far(bessel, order, sign):
    """sqrt(x) exp(sign x) bessel(order, x) of x = `scale` / (t + 1)."""
    return lambda x: sqrt(x) * exp(sign * x) * bessel(order, x)


def wave(order, quadrature):
    """P, or Q for `quadrature`, of x: J and Y turned back by the angle."""

    def value(x):
        angle = x - pi / 4 - order * pi / 2
        first = besselj(order, x) * sqrt(pi * x / 2)
        second = bessely(order, x) * sqrt(pi * x / 2)
        if quadrature:
            return (second * cos(angle) - first * sin(angle)) * x / 8
        return first * cos(angle) + second * sin(angle)

    return value


def y1_near(x):
    return (bessely(1, x) - 2 / pi * (besselj(1, x) * log(x) - 1 / x)) / x


def normal_quantile(w):
    # The quantile of p is -sqrt(2) times the x with erfc(x) = 2 p.
    return sqrt(2) * erfcinv_small(2 * exp(-w * w / 2)) / w


def erfcinv_small(p):
    """The x with erfc(x) = p, by Newton's method on log erfc."""
    x = sqrt(-log(p))
    for _ in range(60):
        step = (log(erfc(x)) - log(p)) / (-2 / sqrt(pi) * exp(-x * x) / erfc(x))
        x -= step
        if abs(step) < mpf(10)**-55:
            break
    return x


# name: (f of x, x of t)
FUNCTIONS = {
    'kI0eNear': (lambda x: exp(-x) * besseli(0, x), lambda t: 4 * (t + 1)),
    'kI1eNear': (lambda x: exp(-x) * besseli(1, x) / x, lambda t: 4 * (t + 1)),
    'kI0eFar': (scaled_far(besseli, 0, -1), lambda t: 16 / (t + 1)),
    'kI1eFar': (scaled_far(besseli, 1, -1), lambda t: 16 / (t + 1)),
    'kJ0Near': (lambda x: besselj(0, x), lambda t: sqrt(32 * (t + 1))),
    'kJ1Near': (lambda x: besselj(1, x) / x, lambda t: sqrt(32 * (t + 1))),
    'kY0Near': (lambda x: bessely(0, x) - 2 / pi * besselj(0, x) * log(x), lambda t: sqrt(32 * (t + 1))),
    'kY1Near': (y1_near, lambda t: sqrt(32 * (t + 1))),
    'kJ0P': (wave(0, False), lambda t: 8 / sqrt((t + 1) / 2)),
    'kJ0Q': (wave(0, True), lambda t: 8 / sqrt((t + 1) / 2)),
    'kJ1P': (wave(1, False), lambda t: 8 / sqrt((t + 1) / 2)),
    'kJ1Q': (wave(1, True), lambda t: 8 / sqrt((t + 1) / 2)),
    'kI0Small': (lambda x: besseli(0, x), lambda t: sqrt(2 * (t + 1))),
    'kI1Small': (lambda x: besseli(1, x) / x, lambda t: sqrt(2 * (t + 1))),
    'kK0Near': (lambda x: besselk(0, x) + besseli(0, x) * log(x), lambda t: sqrt(2 * (t + 1))),
    'kK1Near': (lambda x: (besselk(1, x) - besseli(1, x) * log(x) - 1 / x) / x, lambda t: sqrt(2 * (t + 1))),
    'kK0Far': (scaled_far(besselk, 0, 1), lambda t: 4 / (t + 1)),
    'kK1Far': (scaled_far(besselk, 1, 1), lambda t: 4 / (t + 1)),
    'kLogErfcx': (lambda x: x * x + log(erfc(x)) - log(2 / (2 + x)), lambda t: 4 / (t + 1) - 2),
    'kNormalQuantile': (normal_quantile, lambda t: 80 / (19 * t + 21)),
}


def coefficients(name, count):
    f, x_of = FUNCTIONS[name]
    nodes = 160
    angles = [pi * (2 * i + 1) / (2 * nodes) for i in range(nodes)]
    values = [f(x_of(cos(angle))) for angle in angles]
    found = []
    for k in range(count):
        total = sum(value * cos(k * angle) for value, angle in zip(values, angles))
        found.append(total * (1 if k == 0 else 2) / nodes)
    return found


def arrays_of(path):
    text = open(path, encoding='utf-8').read()
    for name, body in re.findall(r'constexpr double (k\w+)\[\] = \{([^}]*)\}', text):
        if name in FUNCTIONS:
            yield name, [mpf(number) for number in body.replace('\n', ' ').split(',')]


def main(paths):
    if not paths:
        for name in FUNCTIONS:
            numbers = ', '.join(nstr(c, 19) for c in coefficients(name, 60) if abs(c) > mpf(10)**-18)
            print(f'constexpr double {name}[] = {{{numbers}}};')
        return 0
    different = 0
    for path in paths:
        for name, given in arrays_of(path):
            worst = max(abs(a - b) for a, b in zip(given, coefficients(name, len(given))))
            ok = worst < mpf(10)**-17
            different += not ok
            print(f'{name}: {len(given)} coefficients, largest difference {nstr(worst, 3)}{"" if ok else " DIFFERENT"}')
    return different != 0


if __name__ == '__main__':
    sys.exit(main(sys.argv[1:]))
