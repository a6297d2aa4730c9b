"""`BNCLClassifier` among scikit-learn's tools, on real texts through the real encoder."""

import inspect
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone, is_classifier
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score
from sklearn.pipeline import Pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import estimator_checks, get_tags

import bncl_pyg
from bncl_pyg import BNCLClassifier

LABELS = {"sport": "football and tennis", "oil": "crude oil", "bank": "banks and interest rates"}
TEXTS = [
    "The team won the football match.",
    "Crude oil prices rose.",
    "The central bank lowered its interest rates.",
    "She won the tennis final.",
    "OPEC raises its oil output.",
    "Banks lend more money to home buyers.",
    "The striker scored twice in the derby.",
    "A barrel of crude costs more than ever.",
    "The bank's interest income fell.",
    "Fans cheered the goalkeeper.",
    "The refinery buys crude oil.",
    "Rates stay where they are, the bank said.",
]
NAMES = [["sport"], ["oil"], ["bank"]] * 4
TRUTH = np.tile(np.eye(3, dtype=int), (4, 1))

CHECKS = (
    "check_do_not_raise_errors_in_init_or_set_params",
    "check_estimator_cloneable",
    "check_estimator_repr",
    "check_estimator_tags_renamed",
    "check_estimators_unfitted",
    "check_get_params_invariance",
    "check_mixin_order",
    "check_no_attributes_set_in_init",
    "check_parameters_default_constructible",
    "check_set_params",
    "check_supervised_y_no_nan",
    "check_valid_tag_types",
)
"""scikit-learn's estimator checks that make sense for texts."""

NUMBERS = "it fits a table of numbers, which is no text"
SAME_BELOW = "it fits a table of numbers; the same is checked below with texts"
NOT_FOR_TEXTS = {
    "check_array_api_input": NUMBERS,
    "check_classifier_data_not_an_array": NUMBERS,
    "check_classifier_multioutput": SAME_BELOW,
    "check_classifier_not_supporting_multiclass": "one class a text is a row of y with one name: nothing to refuse",
    "check_classifiers_classes": SAME_BELOW,
    "check_classifiers_multilabel_output_format_decision_function": SAME_BELOW,
    "check_classifiers_multilabel_output_format_predict": SAME_BELOW,
    "check_classifiers_multilabel_output_format_predict_proba": SAME_BELOW,
    "check_classifiers_multilabel_representation_invariance": SAME_BELOW,
    "check_classifiers_one_label": "the labels are given, not found in y",
    "check_classifiers_one_label_sample_weights": "fit takes no sample weights",
    "check_classifiers_regression_target": NUMBERS,
    "check_classifiers_train": NUMBERS,
    "check_complex_data": NUMBERS,
    "check_decision_proba_consistency": "decisions and probabilities have temperatures of their own",
    "check_dict_unchanged": SAME_BELOW,
    "check_dont_overwrite_parameters": SAME_BELOW,
    "check_dtype_object": NUMBERS,
    "check_estimator_sparse_array": NUMBERS,
    "check_estimator_sparse_matrix": NUMBERS,
    "check_estimator_sparse_tag": NUMBERS,
    "check_estimators_dtypes": NUMBERS,
    "check_estimators_empty_data_messages": SAME_BELOW,
    "check_estimators_fit_returns_self": SAME_BELOW,
    "check_estimators_nan_inf": SAME_BELOW,
    "check_estimators_overwrite_params": SAME_BELOW,
    "check_estimators_partial_fit_n_features": "there is no partial_fit",
    "check_estimators_pickle": SAME_BELOW,
    "check_f_contiguous_array_estimator": NUMBERS,
    "check_fit1d": "a list of texts has one dimension",
    "check_fit2d_1feature": NUMBERS,
    "check_fit2d_1sample": NUMBERS,
    "check_fit2d_predict1d": NUMBERS,
    "check_fit_check_is_fitted": SAME_BELOW,
    "check_fit_idempotent": SAME_BELOW,
    "check_fit_score_takes_y": SAME_BELOW,
    "check_methods_sample_order_invariance": SAME_BELOW,
    "check_methods_subset_invariance": SAME_BELOW,
    "check_n_features_in": "texts have no features to count",
    "check_n_features_in_after_fitting": "texts have no features to count",
    "check_non_transformer_estimators_n_iter": "recipes count their own steps (log_)",
    "check_pipeline_consistency": SAME_BELOW,
    "check_positive_only_tag_during_fit": NUMBERS,
    "check_readonly_memmap_input": NUMBERS,
}


class Tabular(BNCLClassifier):
    """What scikit-learn would check if texts were tables."""

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array, tags.input_tags.string = True, False
        return tags


@pytest.fixture(scope="module")
def fitted() -> BNCLClassifier:
    return BNCLClassifier(labels=LABELS, cardinality=1.0).fit(TEXTS)


@pytest.mark.parametrize("name", CHECKS)
def test_estimator_checks(name: str) -> None:
    check: Callable[..., None] = getattr(estimator_checks, name)
    arguments = [BNCLClassifier.__name__, BNCLClassifier()]
    check(*arguments[: len(inspect.signature(check).parameters)])


def test_every_estimator_check_is_run_or_has_a_reason() -> None:
    checks = estimator_checks.estimator_checks_generator(Tabular(), legacy=True)
    names = {getattr(check, "func", check).__name__ for _, check in checks}
    assert names == {*CHECKS, *NOT_FOR_TEXTS}


def test_fitting_changes_no_argument_and_predicting_nothing_at_all() -> None:
    classifier = BNCLClassifier(labels=LABELS, prevalence=[0.3, 0.3, 0.4], cardinality=1.0)
    before = {name: repr(value) for name, value in classifier.get_params().items()}
    assert classifier.fit(TEXTS, NAMES) is classifier
    assert {name: repr(value) for name, value in classifier.get_params().items()} == before
    learned = {name for name in vars(classifier) if name not in before and not name.startswith("_")}
    assert all(name.endswith("_") for name in learned)
    state = {name: repr(vars(classifier)[name]) for name in learned}
    first = classifier.predict_proba(TEXTS)
    assert {name: repr(vars(classifier)[name]) for name in learned} == state
    assert (classifier.fit(TEXTS, NAMES).predict_proba(TEXTS) == first).all()
    # A text's labels do not depend on the texts beside it, but for the rounding of encoders in 8 bits, which the slope
    # of the scores carries on.
    assert np.allclose(classifier.predict_proba(TEXTS[::-1])[::-1], first, atol=1e-2)
    assert np.allclose(np.vstack([classifier.predict_proba([text]) for text in TEXTS]), first, atol=1e-2)


def test_names_in_and_names_out(fitted: BNCLClassifier) -> None:
    assert fitted.predict_labels(TEXTS[:3]) == [["sport"], ["oil"], ["bank"]]
    assert fitted.classes_.tolist() == list(LABELS)
    assert fitted.score(TEXTS, NAMES) == fitted.score(TEXTS, TRUTH) > 0.9
    assert (fitted.predict(np.array(TEXTS)) == fitted.predict(TEXTS)).all()
    assert ((fitted.decision_function(TEXTS) > 0).sum(axis=1) <= 3).all()
    assert is_classifier(fitted)
    tags = get_tags(fitted)
    assert (tags.classifier_tags.multi_label, tags.input_tags.string, tags.target_tags.required) == (True, True, False)


def test_a_series_of_pandas_is_a_list_of_texts(fitted: BNCLClassifier) -> None:
    pandas = pytest.importorskip("pandas")
    series = pandas.Series(TEXTS, index=range(100, 112))
    assert (fitted.predict(series) == fitted.predict(TEXTS)).all()


@pytest.mark.parametrize(
    "texts", ["a bare string", None, 7, [None], [float("nan")], [3], np.zeros((2, 2)), [["nested"]]]
)
def test_what_is_no_text_is_refused(texts: object, fitted: BNCLClassifier) -> None:
    for call in (fitted.predict, clone(fitted).set_params(labels=LABELS).fit):
        with pytest.raises((TypeError, ValueError)) as error:
            call(texts)
        assert "text" in str(error.value)


def test_no_texts_give_an_empty_result_of_the_right_shape(fitted: BNCLClassifier) -> None:
    assert fitted.predict([]).shape == fitted.predict_proba([]).shape == (0, 3)
    assert fitted.predict([]).dtype == bool
    assert fitted.predict_labels([]) == []
    with pytest.raises(ValueError, match="no text to train on"):
        BNCLClassifier(labels=LABELS).fit([])


def test_before_it_is_fitted() -> None:
    for method in ("predict", "predict_proba", "predict_labels", "decision_function", "save_pretrained"):
        with pytest.raises(NotFittedError):
            getattr(BNCLClassifier(labels=LABELS), method)(TEXTS)
    with pytest.raises(ValueError, match="needs labels"):
        BNCLClassifier().fit(TEXTS)


def test_pickle_and_joblib_do_not_carry_the_scorer_along(fitted: BNCLClassifier, tmp_path: Path) -> None:
    expected = fitted.predict_proba(TEXTS)  # so that the scorer is loaded
    content = pickle.dumps(fitted)
    assert len(content) < 5_000_000  # the encoder has 90 MB
    assert np.allclose(pickle.loads(content).predict_proba(TEXTS), expected, atol=1e-6)
    joblib.dump(fitted, tmp_path / "model.joblib")
    assert np.allclose(joblib.load(tmp_path / "model.joblib").predict_proba(TEXTS), expected, atol=1e-6)
    unfitted = pickle.loads(pickle.dumps(BNCLClassifier(labels=LABELS)))
    assert unfitted.get_params() == BNCLClassifier(labels=LABELS).get_params()


def test_in_a_pipeline() -> None:
    lower = FunctionTransformer(lambda texts: [text.lower() for text in texts])
    pipeline = Pipeline([("lower", lower), ("labels", BNCLClassifier(labels=LABELS, cardinality=1.0))])
    assert pipeline.fit(TEXTS).predict(TEXTS).shape == (12, 3)
    assert pipeline.score(TEXTS, TRUTH) > 0.9


def test_cross_validation_where_texts_are_annotated() -> None:
    classifier = BNCLClassifier(labels=LABELS)
    for y, cv in ((TRUTH, 2), (NAMES, KFold(2))):
        scores = cross_val_score(classifier, TEXTS, y, cv=cv, error_score="raise")
        assert scores.shape == (2,)
        assert (scores > 0.3).all()
    search = GridSearchCV(classifier, {"cardinality": [1.0, 2.9]}, cv=2, error_score="raise").fit(TEXTS, TRUTH)
    assert search.best_score_ > 0.7  # of six texts: which of the two is best, they cannot say
    assert search.best_estimator_.predict_labels(TEXTS[:1])[0][0] == "sport"


def test_the_package_says_what_it_has() -> None:
    assert bncl_pyg.__version__ == "0.1.0"
    assert set(dir(bncl_pyg)) == set(bncl_pyg.__all__)
    for name in bncl_pyg.__all__:
        assert getattr(bncl_pyg, name) is not None
    with pytest.raises(AttributeError, match="has no attribute 'nothing'"):
        _ = bncl_pyg.nothing
