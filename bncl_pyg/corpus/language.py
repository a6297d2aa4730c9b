"""Whether a text is English, told by its letters and its function words: the embedded language models read English."""

import re

READ = 1000
"""How many characters of a text are looked at: enough to tell, and fast."""
NON_LATIN_SHARE = 0.5
NON_LATIN_LETTERS = 3
"""So many letters of another script at the least: a face such as ಠ_ಠ is no language."""
MIN_WORDS = 6
"""Shorter texts may be anything: names, titles, answers in two words."""
MIN_FUNCTION_WORDS = 3
MIN_DIFFERENT = 2
"""So many function words of one language, and so many different ones that are no single letters: neither "de" in names
nor a word that is s p e l t o u t makes a language."""
MIN_SHARE = 0.15
"""Which share of the words they are at the least; in running text of these languages it is a quarter to a half."""
RATIO = 2.0
"""How many times as many they are as English function words. An English text that quotes a line stays English."""

_ENGLISH = (
    "the and of to in is that it was for on are as with his they at be this have from or had by not but what "
    "all were we when your can there an which their if will would about up out them then she many some so "
    "these her him has more who its been than you my me i a he our us how why where do does did don doesn isn "
    "aren wasn just like get got could should into no only other any because very too also after over such new "
    "now"
)
_OTHERS = {
    "de": "der die das und ist nicht ein eine einen einem einer eines mit auf für von dem den des zu im sich auch es "
    "ich sie wir ihr wie bei oder aber nach aus wird werden wurde wurden hat haben hatte sind war kann noch "
    "nur zum zur über durch vor wenn dass daß kein keine mein dein sein seine ihre ihren mehr sehr schon diese "
    "dieser dieses als bis gegen um man bin habe mich mir dir uns euch doch immer unter zwischen",
    "fr": "le la les des un une et est dans que qui pour pas sur avec au aux du de ce cette ces il elle ils nous "
    "vous je tu ne se sont été être avoir ont plus par mais ou où son sa ses leur leurs comme tout tous très "
    "bien fait même aussi sans entre après avant depuis y en mon ma mes votre notre c d l j qu n",
    "es": "el la los las un una unos de del y que en es por con para se su sus lo como más pero al fue ha han son "
    "está están este esta estos no hay ser muy también ya cuando donde sobre entre desde hasta sin porque me "
    "mi te tu le les nos yo nuestro nuestra todo todos había era tiene tienen o e",
    "it": "il lo la gli le un una uno di del della dei delle dello degli e è che in non per con si su sul sulla da "
    "dal dalla dalle nel nella nei nelle al alla alle ai come più ma anche sono stato stata essere ha hanno "
    "questo questa questi quello mi ti ci vi io tu lui lei noi voi loro molto quando perché se o ed dopo tra "
    "fra suo sua era ho",
    "pt": "o os as um uma uns de do da dos das e é que em no na nos nas por para com não se seu sua seus suas ao aos "
    "à mais mas como foi são está ser tem têm há também já muito quando onde sobre entre até sem porque eu ele "
    "ela eles nós você isso este esta esse essa pelo pela meu minha era",
    "nl": "de het een en van ik te dat die niet zijn op aan met als voor er maar om hem dan zou wat mijn men dit zo "
    "door over ze zich bij ook tot je mij uit der daar haar naar heb hoe heeft hebben deze u want nog zal "
    "wordt worden werd geen wij omdat moet kunnen kan veel meer hun onze is was",
    "sv": "och att det som en på är av för med till den har de inte om ett han men var jag sig från vi så kan när år "
    "under också efter eller nu sin där vid mot ska skulle kommer ut får finns vara hade alla andra mycket än "
    "här då sedan över bara blir upp även vad dem du hon detta mig min ni oss",
    "da": "og at det som en på er af for med til den har de ikke om et han men var jeg sig fra vi så kan når år "
    "under også efter eller nu sin hvor ved mod skal skulle kommer ud får være havde alle andre meget end her "
    "da over kun bliver op selv hvad dem du hun dette mig min os blev vil der å etter ble hva seg",
    "pl": "i w na z do nie się jest to że o jak za od po przez dla przy są tym tego czy ale oraz jego jej ich był "
    "była było były być ma tylko jako już który która które także może ten ta te tej go mu co ze pod przed "
    "między bardzo gdy lub jeszcze roku tak mnie ja mam",
    "tr": "ve bir bu da de için ile çok olarak daha gibi olan kadar sonra ne en ama ya her mi mı değil var yok ben "
    "sen biz siz onlar o şey ki ise veya çünkü olduğu oldu olduğunu tarafından göre içinde üzerinde önce hem "
    "bunu bana beni şu zaman diye nasıl",
    "fi": "ja on ei että se oli hän mutta ovat kun myös joka niin kuin tai ole sen jos vain nyt minä sinä hänen tämä "
    "mitä jo sekä ollut mukaan kanssa jotka siitä kuitenkin vielä tässä olen",
    "cs": "a se na je v že s z do o k i by ale jako za pro jsem jsou to ve si tak jak po od nebo který která které "
    "jeho byl byla bylo už jen při také až není jsme kde když než podle aby co ne",
    "ro": "și în de la cu pe o un este sunt nu se din că pentru care mai a fost ca să au ce sau prin după acest "
    "această lui ei le am fi dar",
    "hu": "a az és hogy nem is egy van ez meg csak de mint már ha volt még azt vagy el ki kell lesz sem minden "
    "nagyon majd után között szerint",
    "id": "yang dan di ini itu dengan untuk tidak dari dalam akan pada juga saya ke karena ada oleh kami bisa sudah "
    "atau mereka telah seperti adalah tersebut",
    "vi": "và của là không được có trong một những cho các người đã với này để khi từ đến cũng như nhiều ra vào tôi",
}
_NAMES_AND_ENGLISH = (
    "de del la los las el le les von van der den di da dos du des un die war man men hat bin son plus sur mon "
    "me ma pour come"
)
"""In names and, as other words, in English too: by themselves they tell nothing."""

_ENGLISH_WORDS = frozenset(_ENGLISH.split())
_WEAK = frozenset(_NAMES_AND_ENGLISH.split())


def _languages_by_word() -> dict[str, tuple[str, ...]]:
    languages: dict[str, tuple[str, ...]] = {}
    for language, words in _OTHERS.items():
        for word in set(words.split()) - _ENGLISH_WORDS:
            languages[word] = (*languages.get(word, ()), language)
    return languages


_LANGUAGES = _languages_by_word()
_WORD = re.compile(r"[^\W\d_]+")
_LETTER = re.compile(r"[^\W\d_]")
# Beyond the Latin blocks; letters for formulas and of full width are Latin ones in another font.
_NON_LATIN = re.compile(
    r"[^\W\d_\u0000-\u02ff\u1d00-\u1eff\u2070-\u218f\ua720-\ua7ff\uff21-\uff5a\U0001d400-\U0001d7ff]"
)


def looks_english(text: str) -> bool:
    """Return whether a text may be English.

    It is not where more than half of its letters are of a non-Latin script, or where function words of another language
    are clearly more frequent than English ones. Short texts, names, code and numbers have the benefit of the doubt.
    """
    start = text[:READ]
    if not start.isascii() and _is_non_latin(start):
        return False
    words = _WORD.findall(start.lower())
    if len(words) < MIN_WORDS:
        return True
    return not _is_another_language(words)


def _is_non_latin(text: str) -> bool:
    letters = len(_NON_LATIN.findall(text))
    return letters >= NON_LATIN_LETTERS and letters > NON_LATIN_SHARE * len(_LETTER.findall(text))


def _is_another_language(words: list[str]) -> bool:
    foreign = [word for word in words if word in _LANGUAGES]
    least = max(MIN_FUNCTION_WORDS, MIN_SHARE * len(words))
    if len(foreign) < least:
        return False
    english = sum(word in _ENGLISH_WORDS for word in words)
    if len(foreign) < RATIO * english:
        return False
    by_language: dict[str, list[str]] = {}
    for word in foreign:
        for language in _LANGUAGES[word]:
            by_language.setdefault(language, []).append(word)
    best = max(by_language.values(), key=len)
    different = {word for word in best if len(word) > 1}
    return len(best) >= max(least, RATIO * english) and len(different) >= MIN_DIFFERENT and not different <= _WEAK
