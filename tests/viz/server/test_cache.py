"""The cache of responses: its keys and its size."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from viz.server.scheduler import Answered, ResponseCache, key_of


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["text", "model", "beam_size", "forced"]),
            st.one_of(st.text(max_size=3), st.integers(0, 3), st.lists(st.integers(0, 3), max_size=2)),
        ),
        max_size=4,
    ).map(dict),
    st.data(),
)
def test_only_equal_requests_share_a_key(request, data):
    other = data.draw(st.just(request) | st.dictionaries(st.sampled_from(list("ab")), st.integers(0, 1)))
    assert (key_of(request) == key_of(other)) == (request == other)


@given(st.lists(st.tuples(st.sampled_from("abcdef"), st.integers(0, 12)), max_size=30))
def test_the_cache_stays_within_its_size_and_keeps_the_most_recently_used(asked):
    cache = ResponseCache(20)
    order: list[str] = []
    for key, length in asked:
        if cache.get(key) is None:
            cache.put(key, Answered(b"x" * length))
        order = [*(other for other in order if other != key), key]
        assert cache.used == sum(len(each.response) for each in cache.responses.values()) <= 20
        assert list(cache.responses) == order[len(order) - len(cache.responses) :]
