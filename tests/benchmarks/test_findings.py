"""docs/findings.md has the tables that `make findings` makes of the files of the study."""

from tests.benchmarks.findings import PAGE, of_the_files, with_tables


def test_the_page_has_the_tables_of_the_files() -> None:
    page = PAGE.read_text("utf-8")
    assert with_tables(page, of_the_files()) == page


def test_a_table_is_written_between_its_marks() -> None:
    page = "a\n<!-- begin x -->\nold\n<!-- end x -->\nb"
    assert with_tables(page, {"x": "new"}) == "a\n<!-- begin x -->\nnew\n<!-- end x -->\nb"
