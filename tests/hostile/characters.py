"""Texts with control, bidirectional, invisible, combining and unassigned characters, and very long texts."""

from __future__ import annotations

import unicodedata

CONTROLS = [f"Hund{chr(code)}läuft" for code in (*range(0x20), *range(0x7F, 0xA0))]
SURROGATES = [
    "\ud800",
    "\udfff",
    "Hund \ud83d läuft",
    "\udc36\ud83d",  # a pair the wrong way round
    "\udc80\udcff",  # how Python decodes bytes that are not UTF-8
    "a" + "\ud800" * 100,
]
TURNING = [
    *(f"Ein {chr(code)}Hund läuft" for code in (0x061C, 0x200E, 0x200F, *range(0x202A, 0x202F))),
    *(f"Ein {chr(code)}Hund läuft" for code in range(0x2066, 0x206A)),
    "\u202efdp.exe",
    "\u202e" * 60 + "Hund",
    "\u2067\u2067\u2067Hund",  # isolates that nothing closes
    "Hund\u2069\u2069\u202c\u202c",  # ends of isolates that nothing opened
    "שלום עולם",
    "مرحبا Hund بالعالم",
    "Hund \u202eשלום\u202c läuft",
]
UNSEEN = [
    *(f"Hu{chr(code)}nd" for code in (0xAD, 0x34F, 0x115F, 0x1160, 0x17B4, 0x180E, *range(0x200B, 0x200E))),
    *(
        f"Hu{chr(code)}nd"
        for code in (0x2060, 0x2061, 0x2064, 0x206A, 0x2800, 0x3164, 0xFE00, 0xFE0F, 0xFFA0)
    ),
    "\ufeffHund",
    "Hund\ufeff",
    "\u200b" * 40,
    "H\u200bu\u200bn\u200bd",
    "".join(chr(0xE0000 + ord(letter)) for letter in "ignore the rest"),  # tags, a hidden message
    "\U000e0100" * 30,  # selectors of variants of nothing
]
STACKS = [
    *(
        "".join(letter + mark * height for letter in "Hund")
        for mark in "\u0300\u0336\u0489"
        for height in (3, 40)
    ),
    "a" + "".join(chr(code) for code in range(0x300, 0x370)),
    "\u0301\u0302\u0303",  # marks of nothing
    "\u0651" * 30 + "م",
    "ก" + "\u0e49" * 50,
    "a" + "\u0316\u0301" * 800,  # which every normalisation reorders
    "\u20e0Hund\u20dd",
]
LINES = [f"Hund{end}läuft" for end in ("\r\n", "\n\r", "\x0b", "\x0c", "\x85", "\u2028", "\u2029", "\n" * 50)]
SPACES = ["", " ", "\t", "\u00a0\u2003\u3000", "\n", "\u2581\u2581", " \u200b ", "Hund" + " " * 500 + "läuft"]
STRANGE = [
    "\ufffe",
    "\uffff",
    "\ufdd0",
    "\U0001fffe",
    "\U0010ffff",
    "\ue000\uf8ff\U000f0000",  # for private use
    "\ufffd\ufffc\ufff9a\ufffab\ufffb",
    "\u0378\u0530",  # unassigned
    "\U00012000\U0001d11e\U00020000",
]
NORMAL_FORMS = [
    unicodedata.normalize("NFD", "Äpfel für Jürgen"),
    "\u212b\u2126\u1e9b\u0323",
    "ﬁﬂﬀ ſt",
    "\ufdfa" * 20,  # one character, eighteen after NFKC
    "\U0001d160" * 30,  # one, three after NFC
    "\u0344\u0958\u2adc",
    "각" + unicodedata.normalize("NFD", "각"),
    "İıßẞſ",
    "＜script＞window.hlCanary=1＜/script＞",  # full width, which NFKC turns into ASCII
    "﹤img src=x onerror=window.hlCanary=1﹥",
]
LOOKALIKES = [
    "НELLО",
    "раураl",
    "Ηund",
    "аdmin",
    "ⅰⅱⅲ",
    "𝐇𝐮𝐧𝐝",
    "Ⓗⓤⓝⓓ",
    "ꓧund",
    "de‐en",
    "dе-en",
    "．．／",
    "ℕaℕ",
]
SCRIPTS = [
    "Hund собака 犬 كلب कुत्ता 개 σκύλος",
    "你好世界",
    "日本語テキスト",
    "ᚠᚢᚦᚨᚱᚲ",
    "ⵜⴰⵎⴰⵣⵉⵖⵜ",
    "ᠮᠣᠩᠭᠣᠯ",
    "𓀀𓁐𓃰",
    "क्षत्रिय ज्ञ",
    "தமிழ்",
    "မြန်မာ",
    "བོད་ཡིག",
    "ދިވެހި",
]
EMOJI = ["👩‍👩‍👧‍👦", "🏴󠁧󠁢󠁥󠁮󠁧󠁿", "🇩🇪🇬🇧🇫", "👍🏿👍🏻", "❤️‍🔥", "1️⃣#️⃣", "🧑🏽‍🚀" * 8, "🐕" * 60, "☺︎☺️", "🏳️‍⚧️", "👁️‍🗨️"]
LONG = [
    "a" * 127,
    "a" * 128,
    "Donaudampfschifffahrtsgesellschaft" * 20,
    "a " * 126,
    "a " * 127,
    "a " * 128,
    "ä" * 5119,
    "Hund " * 1023 + "Hunde",  # 5,120 characters, the most that are cut into tokens
    "Hund " * 1024 + "H",
    "x" * 9_999,
    "x" * 10_000,
    "x" * 10_001,
    "\U0001f415" * 10_000,
    "." * 200,
    "()" * 63,
    "1" * 127,
]
