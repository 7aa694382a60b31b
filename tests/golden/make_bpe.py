#!/usr/bin/env python3
"""Subwords from an independent implementation of data.vocab=bpe, which counts all pairs again before every merge.

It follows arXiv 1508.07909 on bytes. Without arguments it prints the rows of the test subwords_of_texts in
tests/training/check_data.c. With the names of a text and a number of symbols it prints the number of symbols and tokens,
and a hash of the tokens.
"""
import collections
import re
import sys

PIECES = re.compile(rb" ?[^ \t-\r]+|.", re.DOTALL)
CASES = [  # alphabet, least length, most symbols
    ("a", 300, 65536), ("aab ", 600, 65536), ("ab ", 500, 300), ("abcd", 1000, 280), ("ab'.\\n\\r\\t ", 900, 65536),
    ("\\377\\200 ", 700, 270), (" eeetaoinshrdlu,.\\n", 100000, 600)]


def text_of(alphabet, length):
    """Bytes drawn from the alphabet by a linear congruential generator (Knuth, MMIX)."""
    alphabet, x, text = alphabet.encode("latin-1").decode("unicode_escape").encode("latin-1"), 0, bytearray()
    for _ in range(length):
        x = (x * 6364136223846793005 + 1442695040888963407) % 2**64
        text.append(alphabet[(x >> 33) % len(alphabet)])
    return bytes(text)


def replace(piece, pair, symbol):
    out, i = [], 0
    while i < len(piece):
        both = tuple(piece[i:i + 2]) == pair
        out.append(symbol if both else piece[i])
        i += 1 + both
    return out


def encode(text, most):
    """The bytes of each symbol, and the tokens of the text."""
    pieces, symbols = [list(p) for p in PIECES.findall(text)], [bytes([b]) for b in range(256)]
    while len(symbols) < most:
        counts = collections.Counter(pair for p in pieces for pair in zip(p, p[1:]))
        pair = min(counts, key=lambda p: (-counts[p], p), default=None)
        if pair is None or counts[pair] < 2:
            break
        pieces = [replace(p, pair, len(symbols)) for p in pieces]
        symbols.append(symbols[pair[0]] + symbols[pair[1]])
    tokens = [symbol for p in pieces for symbol in p]
    assert b"".join(symbols[t] for t in tokens) == text
    return symbols, tokens


def hash_of(tokens):
    """FNV-1a."""
    value = 0xCBF29CE484222325
    for token in tokens:
        value = (value ^ token) * 0x100000001B3 % 2**64
    return value


def main():
    if len(sys.argv) == 3:
        symbols, tokens = encode(open(sys.argv[1], "rb").read(), int(sys.argv[2]))
        print(len(symbols), len(tokens), f"{hash_of(tokens):016x}")
        return
    for alphabet, length, most in CASES:
        tokens = [0]
        while len(tokens) % 2:  # both halves are read
            symbols, tokens = encode(text_of(alphabet, length), most)
            length += len(tokens) % 2
        print(f'    {{"{alphabet}", {length}, {most}, {len(symbols)}, {len(tokens)}, 0x{hash_of(tokens):016x}}},')


main()
