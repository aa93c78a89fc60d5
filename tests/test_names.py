"""Plain names stay plain: participles, single words, classes called alike, long functions, many parameters."""

from naming import LONGEST, MOST_PARAMETERS, is_bare_participle, list_classes, list_functions

OPTIONS = "the options of one command, by name"
NUMBERS = "the public numbers of one plan, by name"
FACTS = "the public facts of one training, by name"
# Functions with more parameters, each with its reason.
MANY_PARAMETERS = {
    "command/asking.py learn": OPTIONS,
    "command/predicting.py fit": OPTIONS,
    "command/predicting.py train": OPTIONS,
    "auditing/search/__init__.py audit_stability": "what is claimed, of which tables, and how hard to try",
    "clients/remote_curator.py fit": "the public facts of one model",
    "clients/remote_curator.py learn": NUMBERS,
    "clients/remote_curator.py train": "the public facts of one model",
    "curator/__init__.py select": "the numbers of one choice, and who asks for it",
    "curator/__init__.py learn": NUMBERS,
    "curator/__init__.py train": "the public facts of one model",
    "verbs/training.py plan_training": "the public facts of one model",
    "command/planning.py plan_asking": OPTIONS,
    "command/planning.py show_holdout_plan": OPTIONS,
    "planning/holdout_plan.py plan_holdout": NUMBERS,
    "command/planning.py show_prediction_plan": OPTIONS,
    "command/predicting.py distill": OPTIONS,
    "command/scoring.py score": OPTIONS,
    "engines/__init__.py open_engine": "what is public about the data, and settings of the machine",
    "ensembles/stable.py fit_stable": FACTS,
    "curator/__init__.py fit": FACTS,
    "ensembles/training.py train": FACTS,
    "planning/asking.py plan": NUMBERS,
    "planning/predicting.py plan_prediction": NUMBERS,
    "verbs/learning.py learn": "one request, and who makes it",
}
# What is asked and what comes back are called alike, and so are the terms that are asked for and those of a ledger.
ALIKE = {"Gate", "Score", "Table", "Terms"}


def share(part, whole):
    return len(part) / len(whole)


def test_few_functions_are_called_by_a_bare_participle():
    functions = list_functions()
    bare = [function for function in functions if is_bare_participle(function)]
    print(f"\n{len(bare)} of {len(functions)} functions are bare participles")  # noqa: T201 - the figure
    assert share(bare, functions) <= 0.03


def test_half_of_the_functions_have_names_of_several_words():
    functions = [function for function in list_functions() if not function.is_property]
    single = [function for function in functions if len(function.words) == 1]
    print(f"\n{len(single)} of {len(functions)} functions are single words")  # noqa: T201 - the figure
    assert share(single, functions) <= 0.5


def test_no_two_classes_have_one_name():
    twice = {name: places for name, places in list_classes().items() if len(places) > 1}
    assert set(twice) == ALIKE
    assert all(len(places) == 2 and any(place.startswith("requests/") for place in places) for places in twice.values())


def test_every_function_fits_on_a_screen():
    assert [f"{each.path}:{each.line} {each.name} {each.length}" for each in list_functions() if each.length > LONGEST] == []


def test_many_parameters_have_a_reason():
    many = {f"{each.path} {each.name}" for each in list_functions() if each.parameters > MOST_PARAMETERS}
    assert many == set(MANY_PARAMETERS)
