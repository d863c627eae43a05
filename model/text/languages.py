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
zh zho,chi,cmn,ZH Chinese
""".strip().replace("\n", "|")
# Codes, name: more languages of NLLB (FLORES-200) and M2M100.
_MORE = """
ace Acehnese|acm Mesopotamian Arabic|acq Ta'izzi-Adeni Arabic|aeb Tunisian Arabic
ajp South Levantine Arabic|ak,aka Akan|als Tosk Albanian|am,amh Amharic|apc North Levantine Arabic
arb Standard Arabic|ars Najdi Arabic|ary Moroccan Arabic|arz Egyptian Arabic|as,asm Assamese|ast Asturian
awa Awadhi|ayr Central Aymara|azb South Azerbaijani|azj North Azerbaijani|ba,bak Bashkir|bm,bam Bambara
ban Balinese|bem Bemba|bho Bhojpuri|bjn Banjar|bo,bod Tibetan|bug Buginese|ceb Cebuano|cjk Chokwe
ckb Central Kurdish|crh Crimean Tatar|dik Southwestern Dinka|dyu Dyula|dz,dzo Dzongkha|ee,ewe Ewe
ff Fulah|fj,fij Fijian|fon Fon|fur Friulian|fuv Nigerian Fulfulde|gaz West Central Oromo
gd,gla Scottish Gaelic|gn,grn Guarani|hat,ht Haitian Creole|ha,hau Hausa|hne Chhattisgarhi|ig,ibo Igbo
ilo Ilocano|jv,jav Javanese|kab Kabyle|kac Jingpho|kam Kamba|kn,kan Kannada|ks,kas Kashmiri|kbp Kabiyè
kea Kabuverdianu|khk Halh Mongolian|km,khm Khmer|ki,kik Kikuyu|rw,kin Kinyarwanda|ky,kir Kyrgyz
kmb Kimbundu|kmr Northern Kurdish|knc Central Kanuri|kg,kon Kikongo|lo,lao Lao|lij Ligurian
li,lim Limburgish|ln,lin Lingala|lmo Lombard|ltg Latgalian|lua Luba-Kasai|lg,lug Ganda|luo Luo|lus Mizo
lvs Standard Latvian|mag Magahi|mai Maithili|mg Malagasy|min Minangkabau|mn Mongolian|mni Meitei
mos Mossi|mi,mri Maori|my,mya Burmese|ne,npi Nepali|ns,nso Northern Sotho|nus Nuer|ny,nya Nyanja
or,ory Odia|pag Pangasinan|pa,pan Punjabi|pap Papiamento|pbt Southern Pashto|plt Plateau Malagasy
prs Dari|ps Pashto|quy Ayacucho Quechua|rn,run Rundi|sg,sag Sango|sa,san Sanskrit|sat Santali
scn Sicilian|shn Shan|si,sin Sinhala|sm,smo Samoan|sn,sna Shona|sd,snd Sindhi|so,som Somali
st,sot Southern Sotho|sc,srd Sardinian|ss,ssw Swati|su,sun Sundanese|szl Silesian|taq Tamasheq
tt,tat Tatar|tg,tgk Tajik|ti,tir Tigrinya|tpi Tok Pisin|tn,tsn Tswana|ts,tso Tsonga|tk,tuk Turkmen
tum Tumbuka|tw,twi Twi|tzm Central Atlas Tamazight|ug,uig Uyghur|umb Umbundu|uz Uzbek|uzn Northern Uzbek
vec Venetian|war Waray|wo,wol Wolof|xh,xho Xhosa|ydd Eastern Yiddish|yo,yor Yoruba|yue Cantonese
zu,zul Zulu
""".strip().replace("\n", "|")
# Codes of ISO 639-5 and of the first OPUS-MT models, name.
_GROUPS = """
aav Austro-Asiatic|afa Afro-Asiatic|alv Atlantic-Congo|art constructed|azc Uto-Aztecan|bat Baltic
ber Berber|bnt Bantu|cau Caucasian|ccs South Caucasian|cel,CELTIC Celtic
cpe English-based creole|cpf French-based creole|cpp Portuguese-based creole|cus Cushitic
dra Dravidian|fiu Finno-Ugrian|gem Germanic|gmq,SCANDINAVIA North Germanic|gmw West Germanic
grk Greek|iir Indo-Iranian|inc Indic|ine Indo-European|ira Iranian|itc Italic|map Austronesian
mkh Mon-Khmer|myn Mayan|nic Niger-Kordofanian|NORTH_EU North European|NORWAY Norwegian
omq Oto-Manguean|phi Philippine|poz Malayo-Polynesian|pqe Eastern Malayo-Polynesian
roa,ROMANCE Romance|sal Salishan|sem Semitic|sit Sino-Tibetan|sla Slavic|smi,SAMI Sami
ssa Nilo-Saharan|tai Tai|trk Turkic|tup Tupi|tut Altaic|urj Uralic|xgn Mongolian
zle East Slavic|zls South Slavic|zlw West Slavic
""".strip().replace("\n", "|")
NAMES = {
    **{
        code: name
        for two, three, name in (line.split(" ", 2) for line in _LANGUAGES.split("|"))
        for code in (two, *three.split(","))
    },
    **{
        code: f"{name} languages"
        for codes, name in (line.split(" ", 1) for line in _GROUPS.split("|"))
        for code in codes.split(",")
    },
    **{
        code: name
        for codes, name in (line.split(" ", 1) for line in _MORE.split("|"))
        for code in codes.split(",")
    },
    "word": "lower-case letters",
    "mul": "many languages",
}
# A script or a region after a code, as in sr_Latn, pt_BR and es_419.
_SUFFIX = re.compile(r"_([A-Z][a-z]{3}|[A-Z]{2}|\d{3})(?=[_+]|$)")


def language_name(code: str) -> str:
    """The English name of one language, without script and region, or the code if it is not known here."""
    short = code.strip("<>")
    return NAMES.get(short) or NAMES.get(short.split("_")[0], code)


def language_names(codes: str) -> str:
    """The names of all languages of one side of a model, whose codes are such as cat_oci_spa or deu+eng."""
    # In a list with "+", what follows "_" is a variety of a language, as in pt_br.
    separator = "+" if "+" in codes else "_"
    parts = [codes] if codes in NAMES else _SUFFIX.sub("", codes).split(separator)
    return ", ".join(dict.fromkeys(map(language_name, filter(None, parts)))) or codes


def codes_of(code: str) -> list[str]:
    """The code of a language and all others of the same language."""
    name = language_name(code)
    return [code, *(other for other in NAMES if other != code and NAMES[other] == name)]


def join_prefix(prefix: str, sentence: str) -> str:
    """The sentence with what stands before it; unchanged if it is empty."""
    return prefix + sentence if sentence.strip() else sentence


def join_code(code: str, sentence: str) -> str:
    """The sentence as a model of several target languages reads it; unchanged if either is empty."""
    return join_prefix(f"{code} ", sentence) if code else sentence
