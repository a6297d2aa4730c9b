import pytest

from bncl_pyg.errors import InputError
from bncl_pyg.training import Setting, setting_of


@pytest.mark.parametrize(
    ("priors", "annotated", "setting"),
    [
        (False, False, Setting.ANNOTATION_FREE),
        (True, False, Setting.ANNOTATION_FREE),
        (False, True, Setting.SCARCE_ANNOTATION),
        (True, True, Setting.DOMAIN_SUPERVISOR),
    ],
)
def test_what_is_given_decides_and_may_be_called_by_its_name(priors: bool, annotated: bool, setting: Setting) -> None:
    assert setting_of(None, priors=priors, annotated=annotated) is setting
    assert setting_of(str(setting), priors=priors, annotated=annotated) is setting


def test_annotation_free_sees_priors_only() -> None:
    with pytest.raises(InputError, match="annotation-free takes no annotated texts; domain-supervisor takes both"):
        setting_of("annotation-free", priors=True, annotated=True)


def test_scarce_annotation_takes_no_priors() -> None:
    with pytest.raises(InputError, match=r"scarce-annotation estimates cardinality .* give no priors"):
        setting_of("scarce-annotation", priors=True, annotated=True)
    with pytest.raises(InputError, match="scarce-annotation needs annotated texts"):
        setting_of("scarce-annotation", priors=False, annotated=False)


def test_domain_supervisor_sees_both() -> None:
    with pytest.raises(InputError, match="domain-supervisor needs cardinality or prevalence"):
        setting_of("domain-supervisor", priors=False, annotated=True)
    with pytest.raises(InputError, match="domain-supervisor needs annotated texts"):
        setting_of("domain-supervisor", priors=True, annotated=False)


def test_there_are_three() -> None:
    names = "annotation-free, scarce-annotation, domain-supervisor"
    with pytest.raises(InputError, match=f"There is no setting 'supervised'; there are: {names}"):
        setting_of("supervised", priors=True, annotated=True)
