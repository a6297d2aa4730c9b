"""What requests and answers look like, for FastAPI and its OpenAPI document."""

from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Strict(BaseModel):
    """A request: a field that is not known is an error, and no number is taken for a string."""

    model_config = ConfigDict(extra="forbid", strict=True)


class PredictRequest(Strict):
    """A text, or several; and which labels are wanted, where not those that the model decides for."""

    text: str | None = Field(None, description="One text; or give `texts`.")
    texts: list[str] | None = Field(None, description="Several texts.")
    threshold: float | None = Field(None, ge=0, le=1, strict=False, description="Labels that are at least so probable.")
    top_k: int | None = Field(None, ge=1, description="The k most probable labels; with a threshold, at most k.")


class GivenLabel(BaseModel):
    """A label and how probable it is."""

    label: str
    probability: float


class TextLabels(BaseModel):
    """The labels of one text, the most probable first."""

    labels: list[GivenLabel]


class ModelState(BaseModel):
    """Which model answered: 0 is the one that was started with, and every training makes the next."""

    version: int
    answers: int


class PredictResponse(BaseModel):
    """The labels of every text, in the order of the request."""

    model: ModelState
    predictions: list[TextLabels]


class ExplainRequest(Strict):
    """Why has a text its labels, or one of them, or why has it not?"""

    text: str
    label: str | None = Field(None, description="If left out, all that the text is given, and the best that it is not.")


class TriedLabelModel(Strict):
    """A label from its words alone: new, or another wording of one that is there."""

    name: str
    description: str = ""


class TryRequest(Strict):
    """What would these labels be for this text, without any training?"""

    text: str
    labels: list[TriedLabelModel]


class Holder(Strict):
    """Somebody who is shown texts: one page that is open."""

    holder: str = Field(min_length=1, max_length=100)


class UndoRequest(Holder):
    """Take back the last answer of an annotator."""

    annotator: str = Field(min_length=1, max_length=100)


class AnswerRequest(UndoRequest):
    """An answer about one text."""

    key: str = Field(
        min_length=1, max_length=100, description="Made once for every answer: sent twice, it counts once."
    )
    text: str = Field(description="The text's id.")
    yes: list[str] = Field(default_factory=list, description="Labels that it has.")
    no: list[str] = Field(default_factory=list, description="Labels that it has not.")
    is_whole: bool = Field(True, description="Whether it has none of the others; if not, nothing is known of them.")
    kind: Literal["answer", "unsure", "skip"] = "answer"


class Problem(BaseModel):
    """What is wrong, in a sentence."""

    error: str
