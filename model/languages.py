"""English names of languages by their codes, and the codes that tell a model its target language."""

from __future__ import annotations

import re

TARGET_CODE = re.compile(r">>[^<>\s]+<<")  # the first token of a source sentence

# Code of two letters, codes of three letters, name.
_LANGUAGES = """
af afr Afrikaans|ar ara Arabic|az aze Azerbaijani|be bel Belarusian|bg bul Bulgarian|bn ben Bengali
br bre Breton|bs bos Bosnian|ca cat Catalan|cs ces,cze Czech|cy cym,wel Welsh|da dan Danish
de deu,ger German|el ell,gre Greek|en eng English|eo epo Esperanto|es spa Spanish|et est Estonian
eu eus,baq Basque|fa fas,per,pes Persian|fi fin Finnish|fo fao Faroese|fr fra,fre French
fy fry Frisian|ga gle Irish|gl glg Galician|gu guj Gujarati|he heb Hebrew|hi hin Hindi
hr hrv Croatian|hu hun Hungarian|hy hye,arm Armenian|id ind Indonesian|is isl,ice Icelandic
it ita Italian|ja jpn Japanese|ka kat,geo Georgian|kk kaz Kazakh|ko kor Korean|la lat Latin
lb ltz Luxembourgish|lt lit Lithuanian|lv lav Latvian|mk mkd,mac Macedonian|ml mal Malayalam
mr mar Marathi|ms msa,may,zsm Malay|mt mlt Maltese|nb nob Norwegian Bokmål|nl nld,dut Dutch
nn nno Norwegian Nynorsk|no nor Norwegian|oc oci Occitan|pl pol Polish|pt por Portuguese
ro ron,rum Romanian|ru rus Russian|sk slk,slo Slovak|sl slv Slovenian|sq sqi,alb Albanian
sr srp Serbian|sv swe Swedish|sw swa,swh Swahili|ta tam Tamil|te tel Telugu|th tha Thai
tl tgl Tagalog|tr tur Turkish|uk ukr Ukrainian|ur urd Urdu|vi vie Vietnamese|yi yid Yiddish
zh zho,chi,cmn Chinese
""".strip().replace("\n", "|")
NAMES = {
    code: name
    for two, three, name in (line.split(" ", 2) for line in _LANGUAGES.split("|"))
    for code in (two, *three.split(","))
} | {"word": "lower-case letters", "mul": "many languages"}


def language_name(code: str) -> str:
    """The English name of a language, or the code itself if it is not known here."""
    return NAMES.get(code.strip("<>").split("_")[0], code)


def codes_of(code: str) -> list[str]:
    """The code of a language and all others of the same language."""
    name = language_name(code)
    return [code, *(other for other in NAMES if other != code and NAMES[other] == name)]


def join_code(code: str, sentence: str) -> str:
    """The sentence as a model of several target languages reads it; unchanged if either is empty."""
    return f"{code} {sentence}" if code and sentence.strip() else sentence
