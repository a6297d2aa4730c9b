import pytest

from bncl_pyg.corpus.language import looks_english

FOREIGN = {
    "German": "Die Bundesregierung hat am Mittwoch beschlossen, dass die Steuern im nächsten Jahr nicht erhöht werden.",
    "short German": "Die Bank hat ihre Zinsen wieder gesenkt, und das ist gut.",
    "French": "Le gouvernement a annoncé mercredi que les impôts ne seraient pas augmentés l'année prochaine.",
    "Spanish": "El gobierno anunció el miércoles que no subirá los impuestos durante el próximo año.",
    "Spanish without accents": "Los precios del petroleo subieron por la reunion de los paises productores en Viena.",
    "Italian": "Il governo ha annunciato mercoledì che le tasse non saranno aumentate nel prossimo anno.",
    "Portuguese": "O governo anunciou na quarta-feira que os impostos não serão aumentados no próximo ano.",
    "Dutch": "De regering heeft woensdag aangekondigd dat de belastingen volgend jaar niet worden verhoogd.",
    "Swedish": "Regeringen meddelade på onsdagen att skatterna inte kommer att höjas under nästa år.",
    "Danish": "Regeringen meddelte onsdag, at skatterne ikke vil blive sat op i det kommende år, og det er godt.",
    "Polish": "Rząd ogłosił w środę, że podatki nie zostaną podniesione w przyszłym roku, ale to nie jest pewne.",
    "Turkish": "Hükümet çarşamba günü vergilerin gelecek yıl artırılmayacağını açıkladı, ama bu çok kesin değil.",
    "Finnish": "Hallitus ilmoitti, että veroja ei koroteta ensi vuonna, mutta se ei ole vielä varmaa, kun vaalit ovat.",
    "Czech": "Vláda ve středu oznámila, že se daně v příštím roce nezvýší, ale není to ještě jisté.",
    "Vietnamese": "Chính phủ đã thông báo rằng thuế sẽ không được tăng trong năm tới và người dân có nhiều lợi ích.",
    "Russian": "Правительство объявило в среду, что налоги в следующем году повышены не будут.",
    "Greek": "Η κυβέρνηση ανακοίνωσε ότι οι φόροι δεν θα αυξηθούν.",
    "Chinese": "政府周三宣布明年不会增税。",
    "Japanese with a name": "政府は水曜日、来年は増税しないと発表した。NHK",
    "Arabic": "أعلنت الحكومة أن الضرائب لن ترتفع العام المقبل",
    "Hindi": "सरकार ने बुधवार को घोषणा की कि करों में वृद्धि नहीं होगी",
    "Korean": "정부는 내년에 세금을 올리지 않겠다고 발표했다",
}
ENGLISH = {
    "news": "The government said on Wednesday that taxes would not be raised next year.",
    "with a quotation": 'He called it "la dolce vita" and said that the people of Rome knew how to live, e la nave va.',
    "German names": "The board of Bayerische Motoren Werke met Herr von der Leyen in Frankfurt am Main on Friday.",
    "Spanish names": "Rio de Janeiro, Mar del Plata, Los Angeles, Las Vegas, San Juan de la Maguana",
    "a title": "El Dorado",
    "a short foreign text": "Guten Morgen!",
    "code": "for (int i = 0; i < n; i++) { les[i] = des[i]; } return un;",
    "numbers": "12.5 13.8 19 2.4 pct 87/88 vs 86/87",
    "nothing": "",
    "figures and firms": "Shr 34 cts vs 1.19 dlrs Net 807,000 vs 2,858,000 Revs 510.2 mln vs 471.9 mln",
    "a face": "ಠ_ಠ",
    "a formula": "α β γ in the model with parameters θ and σ are estimated",
    "another font": "𝓣𝓱𝓲𝓼 𝓲𝓼 𝓷𝓸𝓽 𝓪 𝓵𝓪𝓷𝓰𝓾𝓪𝓰𝓮",
    "spelt out": "s p o o k y",
    "words that German has too": "die hard war man hat stand",
    "a list": "apples, pears, plums, cherries, grapes, melons, figs",
}


@pytest.mark.parametrize("text", FOREIGN.values(), ids=FOREIGN)
def test_other_languages_are_told(text: str) -> None:
    assert not looks_english(text)


@pytest.mark.parametrize("text", ENGLISH.values(), ids=ENGLISH)
def test_english_and_what_nobody_can_tell_pass(text: str) -> None:
    assert looks_english(text)


def test_only_the_beginning_is_read() -> None:
    assert looks_english("The price of oil has risen again. " * 100 + FOREIGN["Russian"] * 1000)
