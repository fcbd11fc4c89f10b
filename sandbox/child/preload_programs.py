"""`import_and_use`: programs that exercise a module after its import, so that lazy modules and tables are shared.

A statement that fails costs only time: the children then import by themselves.
"""

from __future__ import annotations

import contextlib
import importlib

_NUMPY = """
import numpy as np
np.linalg.solve(np.eye(3), np.ones(3)); np.linalg.eigvals(np.eye(2)); np.linalg.det(np.eye(2))
np.random.default_rng(0).normal(size=3); np.random.seed(0); np.random.rand(2)
repr(np.arange(3.0)); str(np.float64(1.5)); np.fft.fft(np.ones(4)); np.roots([1, -3, 2]); np.gcd(4, 6)
np.sort(np.array([3, 1])); np.unique(np.array([1, 1])); np.mean(np.ones(3)); np.std(np.ones(3)); np.cumsum(np.ones(3))
np.meshgrid(np.ones(2), np.ones(2)); np.polyfit([1, 2, 3], [1, 4, 9], 2); np.isclose(1.0, 1.0)
"""

_SYMPY = """
from sympy import *
x, y, z = symbols('x y z'); n, k = symbols('n k', integer=True); p = symbols('p', positive=True)
solve(x**2 - 5, x); solve(x**2 - 3*x + 2, x); solve(x**3 - x - 1, x); solve([x + y - 3, x - y - 1], [x, y])
solve([x**2 + y**2 - 25, x - y - 1], [x, y]); solve(Abs(x - 1) - 2, x); solve(sin(x) - 1, x); solve(2**x - 8, x)
solve(p**2 - 4, p); solve(sqrt(x) - 2, x); solve(1/x - 2, x); solve(x**4 - 10*x**2 + 9, x); solve(x > 2, x)
solveset(x**2 - 1, x, S.Reals); linsolve([x + y - 1, x - y], [x, y]); nonlinsolve([x*y - 1, x - 2], [x, y])
nsolve(x**2 - 2, x, 1); Eq(x, 1); reduce_inequalities([x > 1], x)
simplify(sin(x)**2 + cos(x)**2); simplify((x**2 - 1)/(x - 1)); trigsimp(sin(x)*cos(x)); radsimp(1/sqrt(2))
expand((x + 1)**3); factor(x**3 - 1); apart(1/(x*(x + 1))); together(1/x + 1/y); cancel((x**2 - 1)/(x - 1))
diff(x**3*sin(x), x); integrate(sin(x)*x, x); integrate(x**2, (x, 0, 1)); integrate(exp(-x**2), (x, -oo, oo))
limit(sin(x)/x, x, 0); series(exp(x), x, 0, 4); summation(k**2, (k, 1, n)); Sum(1/k**2, (k, 1, oo)).doit()
product(k, (k, 1, 4)); binomial(5, 2); factorial(5); fibonacci(5); gcd(12, 18); lcm(4, 6); gcd(x**2 - 1, x - 1)
factorint(360); isprime(97); list(primerange(2, 30)); divisors(28); totient(10); nextprime(10); primepi(20)
mod_inverse(3, 7); divisor_count(12); n_order(2, 7)
from sympy.ntheory.modular import crt; crt([3, 5], [2, 3])
from sympy.solvers.diophantine import diophantine; diophantine(x**2 + y**2 - 25); diophantine(2*x + 3*y - 5)
Matrix([[1, 2], [3, 4]]).det(); Matrix([[1, 2], [3, 4]]).inv(); Matrix([[2, 0], [0, 3]]).eigenvals()
Matrix([[1, 2], [3, 4]]).rref(); eye(2)*Matrix([1, 2]); Matrix([[2, 1], [1, 2]]).eigenvects()
Rational(1, 3) + Rational(1, 6); sqrt(8); N(pi, 20); (sqrt(2)*sqrt(3)).evalf(); nsimplify(0.5); str(sqrt(8) + pi/3)
latex(x**2/3); pretty(x**2); srepr(x); sympify('x**2 + 1'); Poly(x**2 - 1, x).all_roots()
minimal_polynomial(sqrt(2), x)
real_roots(x**3 - 2*x + 1); Poly(x**3 - x - 1, x).nroots(); resultant(x**2 - 1, x - 2, x); discriminant(x**2 - 2, x)
floor(Rational(7, 2)); ceiling(Rational(7, 2)); Mod(7, 3); log(8, 2); exp(I*pi); re(2 + I); Abs(-3); Max(1, 2)
Piecewise((x, x > 0), (0, True)).subs(x, 1); lambdify(x, x**2)(3); Interval(0, 1); FiniteSet(1, 2)
f = Function('f'); dsolve(f(x).diff(x) - f(x), f(x))
rsolve(Function('a')(n + 1) - 2*Function('a')(n), Function('a')(n))
Point(0, 0).distance(Point(3, 4)); Triangle(Point(0, 0), Point(1, 0), Point(0, 1)).area; Circle(Point(0, 0), 2).area
from sympy.combinatorics import Permutation; Permutation([1, 0]).order()
from sympy.parsing.sympy_parser import parse_expr; parse_expr('x + 1')
import mpmath; mpmath.mp.dps = 15; mpmath.quad(lambda t: t, [0, 1]); mpmath.findroot(lambda t: t - 1, 0.5)
"""

_SCIPY = """
import scipy.optimize, scipy.integrate, scipy.stats, scipy.special, scipy.linalg
scipy.optimize.fsolve(lambda t: t - 1, 0.5); scipy.optimize.minimize_scalar(lambda t: t * t)
scipy.integrate.quad(lambda t: t, 0, 1); scipy.special.comb(5, 2)
"""

_PROGRAMS = {"numpy": _NUMPY, "sympy": _SYMPY, "scipy": _SCIPY}


def import_and_use(module: str) -> None:
    """Import a module by name, then run the program for it, if there is one.

    Raises:
        ImportError: the module is not installed.
    """
    importlib.import_module(module)
    scope: dict[str, object] = {}
    for line in _PROGRAMS.get(module, "").strip().splitlines():
        for statement in line.split("; "):
            with contextlib.suppress(Exception):
                exec(statement, scope)
