"""Names of languages."""

import pytest

from model.text.languages import NAMES, codes_of, language_name, language_names


@pytest.mark.parametrize(
    ("codes", "names"),
    [
        ("de", "German"),
        ("cat_oci_spa", "Catalan, Occitan, Spanish"),
        ("deu_eng_fra_por_spa", "German, English, French, Portuguese, Spanish"),
        ("deu+eng+fra", "German, English, French"),
        ("en_el_es_fi", "English, Greek, Spanish, Finnish"),
        ("fi_nb_no_nn_ru", "Finnish, Norwegian Bokmål, Norwegian, Norwegian Nynorsk, Russian"),
        ("zho_Hant", "Chinese"),
        ("sr_Latn", "Serbian"),
        ("srp_Latn_srp_Cyrl_hrv", "Serbian, Croatian"),
        ("es_419", "Spanish"),
        ("pt+pt_br+pt_BR+frp", "Portuguese, frp"),
        ("ROMANCE", "Romance languages"),
        ("NORTH_EU", "North European languages"),
        ("ZH", "Chinese"),
        ("gmq", "North Germanic languages"),
        ("bat+fi", "Baltic languages, Finnish"),
        ("mul", "many languages"),
        ("source", "source"),
        ("DE", "DE"),
        ("_", "_"),
    ],
)
def test_every_language_of_a_side_is_named(codes: str, names: str) -> None:
    assert language_names(codes) == names


@pytest.mark.parametrize("code", [">>pt_br<<", ">>pt_BR<<", "pt", "por"])
def test_a_target_code_names_one_language(code: str) -> None:
    assert language_name(code) == "Portuguese"


def test_codes_of_a_language_have_its_name() -> None:
    for code, name in NAMES.items():
        assert language_names(code) == name
        assert {NAMES[other] for other in codes_of(code)} == {name}
