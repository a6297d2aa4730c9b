import pytest
from hypothesis import given
from hypothesis import strategies as st

from bncl_pyg.corpus.markup import is_mostly_markup, strip_markup

PAGE = """<!DOCTYPE html>
<html><head><title>Oil &amp; gas</title><style>p { color: red; }</style>
<script>if (a < b) { alert("<p>no</p>"); }</script></head>
<body><h1>Prices   rise</h1><p>Crude <b>oil</b>&nbsp;rose by 3&#37;.<br>It fell   later.</p>
<ul><li>Brent</li><li>WTI</li></ul><table><tr><td>a</td><td>b</td></tr></table></body></html>"""


@pytest.mark.parametrize(
    "text",
    [
        PAGE,
        "<p>Hello world</p>",
        '<div class="post"><p>How long do I cook <a href="http://x.y/z">rice</a>?</p><p>Thanks.</p></div>',
        "Milk<br>Bread<br/>Butter<BR />Eggs<br>",
        "Some words. <script>" + "var x = 1; " * 20 + "</script>",
    ],
)
def test_html_is_told(text: str) -> None:
    assert is_mostly_markup(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a < b and c > d",
        "x<y && z>w, p < 0.05",
        "Map<String, List<Integer>> m = new HashMap<>(); List<String> names = List<String>();",
        "std::vector<i> a; std::vector<b> c; Set<A> d; Set<P> q;",
        "One line<br>and another line of some words",
        "Use <b> for bold and <i> for italics.",
        "A long text about cooking with one <b>bold</b> word and one <i>slanted</i> word in it. " + "More words. " * 20,
        "Mail me <john@example.org> or see <http://example.org>",
        "I <3 you <3 you",
    ],
)
def test_what_is_no_html_passes(text: str) -> None:
    assert not is_mostly_markup(text)


def test_a_page_is_read_as_on_the_screen() -> None:
    expected = "Oil & gas\nPrices rise\nCrude oil rose by 3%.\nIt fell later.\nBrent\nWTI\na b"
    assert strip_markup(PAGE) == expected


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("no tags at all", "no tags at all"),
        ("a < b and c > d", "a < b and c > d"),
        ("<p>one<p>two</b></p></div>", "one\ntwo"),
        ("<p>un<b>believ</b>able</p>", "unbelievable"),
        ("&lt;b&gt; &eacute; &bogus; &#x41;", "<b> é &bogus; A"),
        ("<pre>one\n  two</pre>", "one\ntwo"),
        ("<p>one\ntwo</p>", "one two"),
        ("before <!-- not this --> after", "before after"),
        ("before<script>never closed", "before"),
        ("<template>not this</template>this", "this"),
        ("a <br/> b", "a\nb"),
        ("<![foo bar <p>still here</p>", "<![foo bar\nstill here"),
        ("<p", "<p"),
        ('<a title="x > y" href=z>here</a> <a title=">there</a>', "here there"),
        ("a <!-- never closed <b>b</b>", "a <!-- never closed b"),
    ],
)
def test_pieces_and_damage(text: str, plain: str) -> None:
    assert strip_markup(text) == plain


@given(st.text(alphabet="<>/!-[]&;#= \n\"'abprscCDATA?é", max_size=60))
def test_nothing_raises(text: str) -> None:
    is_mostly_markup(text)
    assert strip_markup(text) == strip_markup(text).strip()


@pytest.mark.parametrize(
    "piece", ["<", "<!--", "<a ", "</", "<a href='", "<script", "<script>", "<![", "<a b='>", '"<p x="']
)
def test_damage_takes_no_longer_than_its_length(piece: str) -> None:
    # The standard library's parser takes minutes for some of these; here all are done before anybody notices.
    strip_markup(piece * 20_000)
    is_mostly_markup(piece * 20_000)
