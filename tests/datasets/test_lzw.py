import base64
import random
import zlib

import pytest

from ccml.datasets._lzw import decompress

# Written by ncompress 4.2.4.6: `compress -c`, and `compress -b 10 -c` (this one packed once more,
# with zlib) for input whose second half makes it empty its table.
RUN_OF_40000 = base64.b85decode(
    "ADxh40ty^Ru%N+%2oow?$grWqhY%x5oJg^v#fum-YTU@NqsNaRLy8<pvZTqAC{wCj$+D%(moQ_>oJq5$&6_xL>"
    "fFh*r_Y~2g9;r=w5ZXeNRujE%CxD|r%<Cxol3Q;)vH*uYTe4UtJkk!!-^eCwyfE+Xw#})%eJlCw{YXiolCc_-M"
    "e`6>fOt?uiw9b0}CEZxUk{Fh!ZPb%($`R$B-jSo=my2<;$2eYu?Pcv**vCLyI0wy0q!js8g$6&APSg*RW&Do=v"
    ";9?c2C>>)y?~x9{J;g9{%{ytwh>$dfBy&b+zv=g^}|pH98H_3PNPYv0bjyZ7(l!;2qJzP$PK=+moT&%V9;_weJ"
    "(pHIKO{rmXy>)+46zyJRL1}NZw1QuxEfe0q3;DQV`=-`78MkwKg6jo^Ag&1ZC76"
)
TABLE_EMPTIED = zlib.decompress(
    base64.b85decode(
        "c-rmRNmEk?0KjqEI>4w0W^{l93LPB?NmyodfP)8SbN~UB86Dt&O4Wgogk?qtIC!9iCKPC;1qrQe3TEFRAq"
        "fz+f+P?&3lc0_LYDWEm*gd6c?n5KZ~Y2A^!*RNFY%A-YyIx)bFsO?!MUc0i`Y`7@ZCH$@@igh?#TO(Z86u"
        "0d&-d^#q0Q6t+97ThnG4r57?zkqaReXv}en`cSQ8nx0x@@drKn5`ao9GxyyNC=BJ_DPVA#)F>8}iIF#3yH"
        "^%<VDG?F(m&Z72LD_uk<$MYEi-@qvex#D{cBQqt<-U9=e}A&UY2H^!1&1?@-<-cvAQNimTQ1@rugFGpijJ"
        "%K{RQKr235~>(!t8O2v{Gy)pq6XgxIvne873UIxz;Rh0j#|cPAy*UD*rhV0BUoAI>(NkGm(AIdsZS+><r="
        "xD(hI${)BlHQ|PKM5M#DsYwLZ%(unepO*Wa;3ntE`t+0^vFlU=_h+Vqey<ZcT%VZ<h0cUwG>vDY2%7IB5}"
        "2AFE~JB+rpRoJw)s*KLHlD&Ia5oCtpl~xcnapI<ytr4=qC)FdDM!RfJbd<ix^$|jctPN=S(A0_sdNWsC%6"
        "imZa~v9aX9SH8+8!|E(b1r0*=uPBL^oEUGlTDJf?ex=ZU!23i><$=LI}yVCeOfzC4iL6(?|Z)+EmfZmtel"
        "|WyEkp=X>@|b{u#xN{6*c?R!-?b#L!T0UyW^kw@8*3WwDk7Rb^pvwr^xitNi7`mQnwi7hL^F#?XPenviP_"
        "8%E@C0Bc$*0EWJWf`mwU{RU^WbA5iUfLEF;PUj%9Qu9kPfvvT;`NRuRcMwo}frO7`j?t5ie5*<|`|l5HHM"
        "b8Hh931pkJFXCXiYnud5d5s)+I^coenKR*d`|R0hvVAThk!%0+LWadYADM%9EL<ukJ3hu#a2<=W^%jRBo{"
        "B$KUZatZmoN<O@iJa&IaZ}9@XnPRYO-@R6W}`6ZXy=vdRBO{YvXowmFrV(BG2_#L59_}S(uaT-g;PE<^Eh"
        "!!E<ky)?3}`GHSAC=Q*v)^M%0RdHyC#t)AUlMKZGYQeB1YHvl~3;1yy;4jaQ$yqf0dYOl5>k?%cf&#-xQ9"
        "XTmJeOGa{&(KrB_ZfTZZ9ZU-nsNdT)2dHQOa}kN%$3?sAfY0~ZxO4j{Z<*k_uJ%%%@5Cprv~f`(KP{wGEo"
        "pXUdez1&W)VZplhqRCg|R&5ClDY^>7f;P*YF6dRon?4`c{VPb^aS)Nfa$h5{~iO(^IE1fkOa0*C(XP0Z7l"
        "Zz(7!C@3f>C@3f>C@3f>C@3f>C@3iZC&IFxq8I1Cyf|}T{R8tYj*$"
    )
)
TEXT = b"the rain in spain stays mainly in the plain; the rain in spain"
TEXT_COMPRESSED = bytes.fromhex(
    "1f9d9074d0940121274c1a37200e829803c720c23974c2e499"
    "03a28d43367912220c38100e1b873b407024e850e3c2860701"
)


@pytest.mark.parametrize(
    ("compressed", "content"),
    [
        (bytes.fromhex("1f9d90"), b""),
        (bytes.fromhex("1f9d9061c40404"), b"abab"),
        (TEXT_COMPRESSED, TEXT),
        (RUN_OF_40000, b"a" * 40_000),  # the width goes from 9 to 10 bits
        (TABLE_EMPTIED, b"a" * 300_000 + b"b" * 60_000),  # 9, 10, full, emptied, 9 again
    ],
    ids=["empty", "abab", "text", "wider", "emptied"],
)
def test_decodes_what_ncompress_wrote(compressed, content):
    assert decompress(compressed) == content


@pytest.mark.parametrize("max_bits", [10, 12, 16])
@pytest.mark.parametrize("clear_after", [None, 1, 8, 255, 256, 257, 700])
def test_round_trip(lzw_compress, max_bits, clear_after):
    rng = random.Random(0)
    numbers = ", ".join(f"{rng.uniform(-1, 1):.4f}" for _ in range(600)).encode()
    for content in (numbers, rng.randbytes(3_000), bytes(3_000), b"x"):
        assert decompress(lzw_compress(content, max_bits, clear_after)) == content


def test_the_encoder_of_these_tests_writes_what_ncompress_writes(lzw_compress):
    assert lzw_compress(TEXT) == TEXT_COMPRESSED
    assert lzw_compress(b"a" * 40_000) == RUN_OF_40000


def test_without_block_mode_256_is_an_ordinary_code():
    # Codes a, b, 256 (the string ab), of nine bits each.
    bits = ord("a") | ord("b") << 9 | 256 << 18
    assert decompress(bytes([0x1F, 0x9D, 16]) + bits.to_bytes(4, "little")) == b"abab"


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "starts with 1f 9d"),
        (b"\x1f\x8b\x90abc", "starts with 1f 9d, not 1f 8b"),
        (b"\x1f\x9d", "starts with 1f 9d"),
        (b"\x1f\x9d\x91abc", "9 to 16 bits, not 17"),
        (b"\x1f\x9d\x88abc", "9 to 16 bits, not 8"),
        (bytes([0x1F, 0x9D, 0x90]) + (257).to_bytes(2, "little"), "code 257 .* is unknown"),
        (bytes([0x1F, 0x9D, 0x90]) + (97 | 300 << 9).to_bytes(3, "little"), "code 300"),
    ],
)
def test_what_is_no_such_file_is_refused(content, message):
    with pytest.raises(ValueError, match=message):
        decompress(content)
