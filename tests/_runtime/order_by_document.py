"""Hashes and the permutation of docs/order.md, word for word, one value at a time."""


def mix64(x: int) -> int:
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    x = (x ^ (x >> 27)) * 0x94D049BB133111EB % 2**64
    return x ^ (x >> 31)


def derive_by_document(*words: int) -> int:
    s = 0
    for w in words:
        s = mix64(((s ^ w) + 0x9E3779B97F4A7C15) % 2**64)
    return s


def hash32(x: int) -> int:
    x = (x ^ (x >> 16)) * 0x7FEB352D % 2**32
    x = (x ^ (x >> 15)) * 0x846CA68B % 2**32
    return x ^ (x >> 16)


def permute_by_document(size: int, key: int, tweak: int, value: int) -> int:
    if size == 1:
        return 0
    bits = max(6, (size - 1).bit_length())
    low_bits, high_bits = bits - bits // 2, bits // 2
    while True:
        high, low = value >> low_bits, value % 2**low_bits
        for r in range(8):
            k = mix64((key + (r + 1) * 0x9E3779B97F4A7C15) % 2**64) >> 32
            if r % 2 == 0:
                high ^= hash32(low ^ k ^ tweak) % 2**high_bits
            else:
                low ^= hash32(high ^ k ^ tweak) % 2**low_bits
        value = high * 2**low_bits + low
        if value < size:
            return value
