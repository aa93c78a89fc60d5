"""Six sums and two models, for every tool alike: what each model replies, where one crashes, and what each case is worth."""

NUMBERS = range(1, 7)
MODELS = ("first", "second")


def question(number):
    return f"What is {number} + {number + 1}?"


def answer(number):
    return str(2 * number + 1)


def crashes(model, number):
    return model == "second" and number == 5


def reply(model, number, attempt=1):
    """Return what a model says: wrong, right, right at the second attempt, or more than was asked for."""
    if model == "first":
        right = number % 2 == 1 or (number == 4 and attempt == 2)
        return answer(number) if right else f"{answer(number)} or so" if number == 6 else "no"
    return answer(number) if number % 3 else "no"


def number_of(text):
    """Return the number of a sum from its question."""
    return int(text.split()[2])


def expected(model, *, repeats=1, partial=0.0):
    """Return the value of each case by its number; ``partial`` is what a reply that begins right is worth."""
    values = {}
    for number in NUMBERS:
        said = ["" if crashes(model, number) else reply(model, number, attempt + 1) for attempt in range(repeats)]
        worth = [1.0 if text == answer(number) else partial if text.startswith(answer(number)) else 0.0 for text in said]
        values[number] = sum(worth) / repeats
    return values
