"""Print functions drawn at random, by a seed that is the commit's digest: would a stranger have found them?"""

import random
import subprocess

from naming import list_functions

DRAWN = 20


def main():
    digest = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=True).stdout.strip()  # noqa: S607
    for function in random.Random(digest).sample(list_functions(), DRAWN):
        print(f"{function.path}:{function.line}  {function.name}\n    {function.sentence or '(no sentence)'}")  # noqa: T201


if __name__ == "__main__":
    main()
