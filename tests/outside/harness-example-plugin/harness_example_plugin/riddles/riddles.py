"""A number in the rain: the prompts, their parts, and how answers are judged."""

import random

from harness.tasks.generation import Request, generate
from harness_example_plugin.judging import holds


class Riddle:
    """One sentence with a number among ``units`` sentences of rain."""

    prefix = "The number is"
    low, high, unit, slack = 1, 10**9, 3.0, 0.0

    def __init__(self, frame, rng: random.Random):
        self.frame, self.number, self.depth = frame, rng.randint(10_000, 99_999), rng.random()

    def guess(self, budget):
        return int((budget - self.frame.count(self.text(0), self.prefix)) / self.unit)

    def document(self, units):
        before = round(units * self.depth)
        told = f"The number is {self.number}. "
        return ("It rains. " * before + told + "It rains. " * (units - before)).strip()

    def text(self, units):
        return f"Read.\n\n{self.document(units)}\n\nWhich number was told?"

    def doc(self, units):
        return {
            "answers": [str(self.number)],
            "documents": [self.document(units)],
            "question": "Which number was told?",
            "facts": {"depth": self.depth},
        }


def dataset(**metadata):
    """Prompts of the length that is asked for; lm-eval's hook."""
    request = Request.from_metadata(metadata, task="riddles_rain")
    return generate(lambda rng, _: Riddle(request.frame, rng), request, name="riddles")


def segments(doc):
    """Texts by role, in their order in the prompt."""
    return {
        "documents": doc["documents"],
        "question": [doc["question"]],
        "evidence": [[0, f"The number is {doc['answers'][0]}."]],
    }


def process(doc, results):
    """Scores by name; lm-eval's hook."""
    return {"contains_number": holds(results[0], doc["answers"])}
