"""8b/10b, encoding direction only: A. X. Widmer, P. A. Franaszek, "A DC-Balanced, Partitioned-Block, 8B/10B Transmission
Code", IBM J. Res. Develop. 27 (1983), tables 1 and 2; the same as IEEE 802.3 clause 36 and PCI Express appendix B.

A byte HGFEDCBA is called D.x.y, x = EDCBA, y = HGF. It is sent as abcdei (from x) and fghj (from y), `a` first.
"""

from __future__ import annotations

# The form sent at negative running disparity, written abcdei, for x = 0 .. 31.
_SIX_TEXT = """
100111 011101 101101 110001 110101 101001 011001 111000 111001 100101 010101 110100 001101 101100 011100 010111
011011 100011 010011 110010 001011 101010 011010 111010 110011 100110 010110 110110 001110 101110 011110 101011
"""
_SIX = _SIX_TEXT.split()
# fghj at negative disparity, for y = 0 .. 7. The last one has the alternate form 0111, see `_alternate`.
_FOUR = ("1011", "1001", "0101", "1100", "1101", "1010", "0110", "1110")
_SIX_K28 = "001111"
# fghj of K.28.y where abcdei is 001111, so at positive disparity; every one is complemented after 110000.
_FOUR_K28 = ("0100", "1001", "0101", "0011", "0010", "1010", "0110", "1000")
_K_X_7 = (23, 27, 29, 30)


def _complement(code: str) -> str:
    return code.translate(str.maketrans("01", "10"))


def _balance(code: str) -> int:
    return code.count("1") - code.count("0")


def _form(code: str, disparity: int) -> str:
    """Return the form of a sub-block for this disparity: the unbalanced ones alternate, and so do D.7 and D.x.3."""
    paired = _balance(code) != 0 or code in ("111000", "1100")
    return _complement(code) if paired and disparity > 0 else code


def _alternate(x: int, disparity: int) -> bool:
    """Return whether D.x.A7 replaces D.x.P7, because P7 would make a run of five equal bits with the end of abcdei."""
    return x in ((17, 18, 20) if disparity < 0 else (11, 13, 14))


def encode(value: int, k: bool, disparity: int) -> tuple[str, int]:
    """Return ten bits as ``abcdeifghj`` and the running disparity after them; `disparity` is -1 or +1.

    Raises :class:`ValueError` for a K code that 8b/10b does not have.
    """
    x, y = value & 31, value >> 5
    if k and x == 28:
        six = _SIX_K28 if disparity < 0 else _complement(_SIX_K28)
        four = _FOUR_K28[y] if disparity < 0 else _complement(_FOUR_K28[y])
    elif k and not (y == 7 and x in _K_X_7):
        raise ValueError(f"there is no K.{x}.{y}")
    else:
        six = _form(_SIX[x], disparity)
        middle = disparity if _balance(six) == 0 else -disparity
        four = _form("0111" if y == 7 and (k or _alternate(x, middle)) else _FOUR[y], middle)
    balance = _balance(six + four)
    assert balance in (0, -2 * disparity)
    return six + four, disparity if balance == 0 else -disparity


class LineCode:
    """An encoder that keeps its running disparity."""

    def __init__(self, disparity: int = -1):
        self.disparity = disparity

    def bits(self, value: int, k: bool) -> bytes:
        """Return ten bytes of 0 and 1, in the order of sending."""
        code, self.disparity = encode(value, k, self.disparity)
        return bytes(map(int, code))
