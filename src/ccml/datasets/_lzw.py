"""Decode what the UNIX program ``compress`` wrote (``.Z`` files).

The standard library has no decoder. The format: three bytes of header, then codes of 9 to 16 bits,
lowest bit first, in groups of eight codes. Codes 0 to 255 are bytes; code 256, in block mode,
empties the table; each code read adds to the table the string before it and its own first byte.
"""

_MAGIC = b"\x1f\x9d"
_MIN_BITS = 9
_CLEAR = 256


def decompress(content: bytes) -> bytes:
    """Decode the bytes of a ``.Z`` file.

    Examples
    --------
    >>> decompress(bytes.fromhex("1f9d90 61c40404"))  # a, b, and the code of ab
    b'abab'
    """
    if len(content) < 3 or content[:2] != _MAGIC:
        raise ValueError(f"a .Z file starts with 1f 9d, not {content[:2].hex(' ')}")
    max_bits, block_mode = content[2] & 0x1F, bool(content[2] & 0x80)
    if not _MIN_BITS <= max_bits <= 16:
        raise ValueError(f"a .Z file has codes of 9 to 16 bits, not {max_bits}")

    empty_table = [bytes([i]) for i in range(256)] + [b""] * block_mode  # b"" for _CLEAR
    table, previous = empty_table.copy(), b""
    chunks: list[bytes] = []
    n_bits, position = _MIN_BITS, 3
    while position < len(content):
        group = content[position : position + n_bits]  # eight codes, or fewer at the end
        position += n_bits
        bits = int.from_bytes(group, "little")
        for _ in range(8 * len(group) // n_bits):
            code = bits & ((1 << n_bits) - 1)
            bits >>= n_bits
            if block_mode and code == _CLEAR:
                table, previous, n_bits = empty_table.copy(), b"", _MIN_BITS
                break  # the rest of the group is padding
            if code < len(table):
                string = table[code]
            elif code == len(table) and previous:
                string = previous + previous[:1]
            else:
                raise ValueError(f"code {code} of a .Z file with {len(table)} strings is unknown")
            chunks.append(string)
            if previous and len(table) < 1 << max_bits:
                table.append(previous + string[:1])
            previous = string
            if len(table) == 1 << n_bits and n_bits < max_bits:
                n_bits += 1
                break  # again padding: a group has codes of one width
    return b"".join(chunks)
