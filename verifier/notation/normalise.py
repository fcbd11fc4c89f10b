r"""`normalise`: gives each piece of LaTeX one spelling, so that the parser handles few forms.

It works on text and computes no number. The output is LaTeX with `\frac`, `\text{..}`, `*`, `/`, `\le`, `\deg`, `\pct`.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from verifier.budget import spend
from verifier.notation.numerals import SMALL_WORDS

_SYMBOLS = {
    "\u2212": "-", "\u2013": "-", "\u2014": "-", "\ufe63": "-", "\uff0d": "-", "\u00d7": r"\times ",
    "\u00b7": r"\cdot ", "\u22c5": r"\cdot ", "\u2217": "*", "\u00f7": r"\div ", "\u2215": "/",
    "\u2044": "/", "\u03c0": r"\pi ", "\u03b8": r"\theta ", "\u03b1": r"\alpha ", "\u03b2": r"\beta ",
    "\u03b3": r"\gamma ", "\u03bb": r"\lambda ", "\u03c6": r"\phi ", "\u03c9": r"\omega ",
    "\u03bc": r"\mu ", "\u221e": r"\infty ", "\u2205": r"\emptyset ", "\u00b0": r"^\circ ",
    "\u2264": r"\le ", "\u2265": r"\ge ", "\u2260": r"\ne ", "\u2208": r"\in ", "\u222a": r"\cup ",
    "\u2229": r"\cap ", "\u2216": r"\setminus ", "\u00b1": r"\pm ", "\u2213": r"\mp ",
    "\u2248": r"\approx ", "\u2026": r"\ldots ", "\u211d": r"\mathbb{R}", "\u2124": r"\mathbb{Z}",
    "\u2018": "'", "\u2019": "'", "\u2032": "'", "\u2227": r"\land ", "\u2228": r"\lor ",
    "\u27e8": r"\langle ", "\u27e9": r"\rangle ", "\u2223": "|", "\uff5e": "~", "\u3001": ",",
    "\uff0c": ",", "\u3002": ".", "\u2061": "", "\u200b": "", "\u2062": "", "\u00a0": " ",
}  # fmt: skip
_SUPERSCRIPTS = str.maketrans(
    "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207b\u207a\u207f", "0123456789-+n"
)
_SUBSCRIPTS = str.maketrans("\u2080\u2081\u2082\u2083\u2084\u2085\u2086\u2087\u2088\u2089", "0123456789")
_SUPERSCRIPT_RUN = re.compile("[\u2070\u00b9\u00b2\u00b3\u2074-\u2079\u207b\u207a\u207f]+")
_SUBSCRIPT_RUN = re.compile("[\u2080-\u2089]+")
_ROOT = re.compile(r"\u221a\s*(?:\{([^{}]*)\}|\(([^()]*)\)|(\\pi|\d+(?:\.\d+)?|[A-Za-z]))")

_RENAMED = {
    r"\frac": "dfrac tfrac cfrac sfrac nicefrac xfrac", r"\binom": "dbinom tbinom", r"\le ": "leqslant leqq leq",
    r"\ge ": "geqslant geqq geq", "<": "lt", ">": "gt", "*": "cdot times ast", "/": "div", r"\emptyset ": "varnothing",
    r"\{": "lbrace", r"\}": "rbrace", "|": "lvert rvert vert mid", r"\infty ": "infin", r"\setminus ": "backslash",
    r"\arcsin ": "asin", r"\ldots ": "dots cdots ldots dotsc dotsb", r"\mathbb{R}": "Reals reals R",
    " ": "displaystyle textstyle limits nolimits scriptstyle large Large small bf rm it underline ensuremath mathstrut "
    "strut therefore",
}  # fmt: skip
_PLAIN_NAME = {f"\\{name}": plain for plain, names in _RENAMED.items() for name in names.split()}
_COMMAND = re.compile(r"\\(?:[A-Za-z]+|.)", re.DOTALL)
r"""Includes the escaped signs, so that the text after a line break `\\` is not read as a command."""


def _renamed(command: re.Match[str]) -> str:
    return _PLAIN_NAME.get(command.group(), command.group())


def _scale_of(match: re.Match[str]) -> str:
    return r"\text{ celsius}" if "C" in match.groups() else r"\text{ fahrenheit}"


def _base_of(match: re.Match[str]) -> str:
    """Return a base in words or digits as digits; other text stays unchanged."""
    name = next((group for group in match.groups() if group), "")
    if name.isdigit():
        return f"_{{{name}}}"
    return f"_{{{SMALL_WORDS.index(name)}}}" if name in SMALL_WORDS else match.group()


_ALIGNED = re.compile(
    r"\\begin\{(aligned|align\*?|gathered|gather\*?|split|equation\*?|cases)\}(.*)\\end\{\1\}", re.DOTALL
)


def _rows_in_line(match: re.Match[str]) -> str:
    """Join the rows of an aligned block: one that begins with an equals sign continues, any other is a new answer."""
    body = match.group(2)
    if "\\begin" in body or (match.group(1) == "cases" and "&" in re.sub(r"& ?=", "=", body)):
        return re.sub(r"& ?=", "=", body) if match.group(1) != "cases" else match.group()
    rows = [row.replace("&", " ").strip(" ,") for row in re.split(r"\\\\(?: ?\[[^\[\]]*\])?", body)]
    line = ""
    for row in filter(None, rows):
        line += row if not line else f" {row}" if row.startswith("=") else f", {row}"
    return line


_REWRITES: tuple[tuple[re.Pattern[str], str | Callable[[re.Match[str]], str]], ...] = tuple(
    (re.compile(pattern), replacement)
    for pattern, replacement in (
        (r"(?<=\d)\s?\{?,\}?\s?\\[!,]\s*(?=\d{3}(?!\d))", ","),
        (r"(?<=\d)\s?\{,\s?\}\s?(?=\d)", ","),
        (r"(?<=\d)\\,(?=\d{3}(?!\d))", ","),
        (r"(?<!\\)\\!", ""),
        (r"(?<!\\)\\(?:[,;:> ]|quad\b|qquad\b|thinspace\b|enspace\b|hspace\{[^{}]*\}|hfill\b)", " "),
        (r"\\(?:left|right|middle|[bB]igg?[lrm]?)(?![A-Za-z])\s*", ""),
        (r"(?<!\\)\\[()\[\]]", " "),
        (r"\\\$", r"\\usd "),
        (r"\$", ""),
        (r"\u20ac|\\euro(?![A-Za-z])", r"\\eur "),
        (r"\u00a3|\\pounds(?![A-Za-z])", r"\\gbp "),
        (r"\u00a5", r"\\jpy "),
        (r"\u00a2", r"\\text{ cents}"),
        (
            r"\\(?:text)?color ?(?:\[[^\[\]]*\])? ?\{[^{}]*\}",
            " ",
        ),
        (r"\\tag ?\{[^{}]*\}", " "),
        (r"\\overline ?\{ ?([A-Z]{2}) ?\}", r"\1"),
        (r"(?<=\d) ?\{\.\} ?(?=\d)", "."),
        (r"^\\(?:text|textbf|mbox|mathrm) ?\{ ?(\d{1,2}:\d\d) ?([aApP])\.? ?[mM]\.? ?\}$", r"\1\\text{ \2m}"),
        (r"(?<=\d) ?([aApP])\.[mM]\b\.?", r"\\text{ \1m}"),
        (r":=", "="),
        (r"\\(?:mathbb|mathds|Bbb)\s*\{?\s*([A-Z])\s*\}?", r"\\mathbb{\1}"),
        (r"\\operatorname\*?\s*\{\s*([A-Za-z]+)\s*\}", r"\\\1 "),
        (r"\\mathrm\s*\{\s*([ei])\s*\}", r" \1 "),
        (r"\\(?:measured)?angle\s*(?=[A-Z])", ""),
        (r"\\(?:math(?:rm|sf|tt)|text(?:rm|bf|it|sf|tt|normal|up)|mbox|hbox|emph)\s*\{", r"\\text{"),
        (r"\\(?:mathbf|boldsymbol|bm|mathit|mathcal) ?(?=\{)", ""),
        (r"\\(?:vec|hat|widehat|bar|overrightarrow) ?\{([A-Za-z ]*)\}", r"{\1}"),
        (r"\\(?:mathbf|boldsymbol|bm|vec|hat|bar)\s+([A-Za-z0-9])", r"\1"),
        (r"\\(?:neq|not\s*=)", r"\\ne "),
        (r"<=|=<", r"\\le "),
        (r">=", r"\\ge "),
        (r"!=(?!=)", r"\\ne "),
        (r"==", "="),
        (r"\*\*", "^"),
        (
            r"\^ ?\{ ?\\circ ?\}|\^ ?\\circ(?![A-Za-z])|\\degree(?![A-Za-z])|\\text\{\s*degrees?\s*\}",
            r"\\deg ",
        ),
        (r"\\?%|\\text\{\s*percent\s*\}|(?<=\d) ?(?:percent|pct)(?![a-z])", r"\\pct "),
        (r"\\text\{ ?per cent ?\}|(?<=\d) ?per cent(?![a-z])", r"\\pct "),
        (r"\\deg ?(?:\\text ?\{ ?([CF]) ?\}|([CF])(?![A-Za-z]))", _scale_of),
        (r"(?<=[\d}]) ?and (?:a|one) (half|third|quarter|fourth)(?![A-Za-z])", r"\\text{ and a \1}"),
        (r"\( ?(\d+) ?\) ?_", r"\1_"),
        (r"_ ?\{? ?\\text ?\{ ?(?:base ?)?([a-z]+|\d+) ?\} ?\}?", _base_of),
        (r"_ ?\{ ?\( ?(\d+) ?\) ?\}", r"_{\1}"),
        (r"(?<=\d) ?(?:\\text ?\{ ?\(?base ?(\d+)?\)? ?\} ?(\d+)?|\(?base (\d+)\)?)", _base_of),
        (r"^(?:\\text ?\{ ?(?:negative|minus) ?\}|negative|minus) ?(?=[\d\\(.])", "-"),
        (r"\.\.\.", r"\\ldots "),
        (r"\\(?:boxed|fbox)\s*\{([^{}]*)\}", r"\1"),
        (r"\\begin\{(?:[bB]matrix|smallmatrix|matrix)\*?\}", r"\\begin{pmatrix}"),
        (r"\\end\{(?:[bB]matrix|smallmatrix|matrix)\*?\}", r"\\end{pmatrix}"),
        (
            r"\| ?\\begin\{pmatrix\}((?:(?!\\begin|\\end).)*)\\end\{pmatrix\} ?\|",
            r"\\begin{vmatrix}\1\\end{vmatrix}",
        ),
        (r"\\begin\{array\}\s*\{[^{}]*\}", r"\\begin{pmatrix}"),
        (r"\\end\{array\}", r"\\end{pmatrix}"),
        (
            r"[(\[] ?\\begin\{pmatrix\}((?:(?!\\begin|\\end).)*)\\end\{pmatrix\} ?[)\]]",
            r"\\begin{pmatrix}\1\\end{pmatrix}",
        ),
        (r"~", " "),
    )
)
_OUTER_MARKDOWN = re.compile(r"^(?:\*\*|__)(.*?)(?:\*\*|__)$", re.DOTALL)
_SPACED_GROUPS = re.compile(r"[+-]?\d{1,3}(?: \d{3})+(?:\.\d+)?")
_SPACES = re.compile(r"\s+")
_BARE_DOLLAR = re.compile(r"(?<!\\)\$")
_LONE_DOLLAR = re.compile(r"(?<!\\)\$(?= ?[\d.])")
_DIGIT_OR_SIGN = re.compile(r"[\d+*/=<>^_|\\\[\]{}]")


def normalise(answer: str) -> str:
    r"""Rewrite an answer into the spelling that the parser reads.

    >>> normalise("\\dfrac{1}{2}\\,\\text{cm}"), normalise("\u00bd"), normalise("11,\\! 111"), normalise("90\u00b0")
    ('\\frac{1}{2} \\text{cm}', '\\frac{1}{2}', '11,111', '90\\deg')
    """
    spend(100 + 2 * len(answer))
    text = _SPACES.sub(" ", answer).strip().rstrip("\\ ")
    text = _OUTER_MARKDOWN.sub(r"\1", text)
    if not text.isascii():
        text = _to_ascii_maths(text)
    if "\\" in text:
        text = _COMMAND.sub(_renamed, text)
    if "\\begin" in text:
        text = _ALIGNED.sub(_rows_in_line, text)
    if "$" in text:
        text = _LONE_DOLLAR.sub(r"\\$", text) if len(_BARE_DOLLAR.findall(text)) == 1 else text
    if not text.isalnum():
        for pattern, replacement in _REWRITES:
            text = pattern.sub(replacement, text)
    text = _SPACES.sub(" ", text).strip()
    if _SPACED_GROUPS.fullmatch(text):
        text = text.replace(" ", "")
    return _strip_sentence_end(text)


def _to_ascii_maths(text: str) -> str:
    text = _SUPERSCRIPT_RUN.sub(lambda run: "^{" + run.group().translate(_SUPERSCRIPTS) + "}", text)
    text = _SUBSCRIPT_RUN.sub(lambda run: "_{" + run.group().translate(_SUBSCRIPTS) + "}", text)
    text = "".join(_ascii_of(char) for char in text)
    return _ROOT.sub(
        lambda root: r"\sqrt{" + next(group for group in root.groups() if group is not None) + "}", text
    )


def _ascii_of(char: str) -> str:
    if char.isascii():
        return char
    if char in _SYMBOLS:
        return _SYMBOLS[char]
    digit = unicodedata.decimal(char, None)
    if digit is not None:
        return str(digit)
    decomposition = unicodedata.decomposition(char)
    if decomposition.startswith("<fraction>"):
        above, below = unicodedata.normalize("NFKD", char).split("\u2044")
        return rf"\frac{{{above}}}{{{below}}}" if below else char
    if char == "\u221a":
        return char
    return unicodedata.normalize("NFKC", char)


def _strip_sentence_end(text: str) -> str:
    while text and text[-1] in ".,;:" and not text.endswith("\\ldots"):
        text = text[:-1].rstrip()
    return text


def words(text: str) -> str:
    r"""Return the plain words of a text answer, without markup, case, and (without a digit or sign) punctuation.

    >>> words(r"\text{(D)}"), words("No Value."), words(r"\text{ Tuesday }"), words("[2,5)"), words("5!")
    ('d', 'no value', 'tuesday', '[2,5)', '5!')
    """
    text = re.sub(r"\\text\s*\{([^{}]*)\}", r" \1 ", text).casefold()
    if _DIGIT_OR_SIGN.search(text):
        text = re.sub(r"(?<=[a-z])\.(?![a-z]{2})|(?<=[a-z0-9]),(?= )", "", text)
        return skeleton(_SPACES.sub(" ", text).strip(" ."))
    return re.sub(r"[^\w\-]+", " ", re.sub(r"(?<=[a-z])\.(?=[a-z]\b)", "", text)).strip()


def skeleton(text: str) -> str:
    r"""Remove idle spaces and braces of a normalised answer: equal skeletons are equal answers.

    A space between two letters or digits stays: `5 3/4` is not `53/4`.

    >>> skeleton(normalise(r"x + y^{2}")) == skeleton(normalise("x+y^2"))
    True
    """
    text = re.sub(r"(?<![0-9A-Za-z]) | (?![0-9A-Za-z])", "", text)
    return re.sub(r"([\^_])\{(\w)\}(?!\w)", r"\1\2", text)
