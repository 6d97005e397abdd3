"""How an answer is judged: code of the package that the task uses."""


def holds(answer: str, accepted: list[str]) -> float:
    """1.0 where an accepted answer stands in ``answer``."""
    return float(any(one in answer for one in accepted))
